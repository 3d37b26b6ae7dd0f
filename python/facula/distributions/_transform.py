"""The base of transforms: caching, inversion, composition."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import facula
from facula.distributions import constraints
from facula.distributions.utils import sum_rightmost


class Transform:
    """An invertible function with a computable log|det Jacobian|.

    `transform(x)` and `transform.inv(y)`; with `cache_size=1` the inverse of the last value is the
    very tensor that it was made of, and the other way round. A class has `domain` and `codomain`,
    `_call`, `_inverse` and `log_abs_det_jacobian(x, y)`; `bijective` says whether the inverse is
    one, `sign` whether an elementwise transform rises (1) or falls (-1).
    """

    bijective: Any = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"cache_size must be 0 or 1, not {cache_size!r}")
        self._cache_size = cache_size
        self._inv: Any = None
        self._cached_x_y: tuple[Any, Any] = (None, None)
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        # Neither weak references nor values last are part of what the transform is.
        return {**self.__dict__, "_inv": None, "_cached_x_y": (None, None)}

    @property
    def event_dim(self) -> int:
        """Dimensions of an event, where those of domain and codomain agree."""
        if self.domain.event_dim == self.codomain.event_dim:
            return int(self.domain.event_dim)
        raise ValueError(
            f"{type(self).__name__} changes the dimensions of an event from"
            f" {self.domain.event_dim} to {self.codomain.event_dim}:"
            " use either .domain.event_dim or .codomain.event_dim"
        )

    @property
    def inv(self) -> Any:
        """The inverse, whose `inv` is this transform."""
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)
        return inverse

    @property
    def sign(self) -> Any:
        """1 where the transform rises, -1 where it falls."""
        raise NotImplementedError(f"{type(self).__name__} has no sign: it is not monotone")

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same transform with another size of the cache."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __call__(self, x: Any) -> Any:
        if self._cache_size == 0:
            return self._call(x)
        old, value = self._cached_x_y
        if x is old:
            return value
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Any) -> Any:
        if self._cache_size == 0:
            return self._inverse(y)
        value, old = self._cached_x_y
        if y is old:
            return value
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _call")

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log|det dy/dx|, without the dimensions of an event."""
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian")

    def __repr__(self) -> str:
        return type(self).__name__ + "()"

    def forward_shape(self, shape: Any) -> Any:
        """Shape of the result for a shape of the argument."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """Shape of the argument for a shape of the result."""
        return shape


class AlikeTransform(Transform):
    """Without parameters: all of a class are equal."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class _InverseTransform(Transform):
    """The other direction of a transform, whose cache it uses."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv: Any = transform

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    @property
    def domain(self) -> Any:  # type: ignore[override]
        return self._inv.codomain

    @property
    def codomain(self) -> Any:  # type: ignore[override]
        return self._inv.domain

    @property
    def bijective(self) -> Any:  # type: ignore[override]
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Any:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Any:
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and bool(self._inv == other._inv)

    def __hash__(self) -> int:
        return hash((_InverseTransform, self._inv))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x: Any) -> Any:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Any) -> Any:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._inv.forward_shape(shape)


class ComposeTransform(Transform):
    """Transforms one after another, the first of `parts` first; without any, the identity."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        self.parts = [part.with_cache(cache_size) if cache_size else part for part in parts]
        super().__init__(cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash((ComposeTransform, *self.parts))

    def __repr__(self) -> str:
        parts = ",\n    ".join(repr(part) for part in self.parts)
        return f"{type(self).__name__}(\n    {parts}\n)"

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        if not self.parts:
            return constraints.real
        # Events are as large as the largest that any part takes, seen from the input.
        event_dim = int(self.parts[-1].codomain.event_dim)
        for part in reversed(self.parts):
            event_dim += part.domain.event_dim - part.codomain.event_dim
            event_dim = max(event_dim, part.domain.event_dim)
        return _enlarged(self.parts[0].domain, event_dim)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        if not self.parts:
            return constraints.real
        event_dim = int(self.parts[0].domain.event_dim)
        for part in self.parts:
            event_dim += part.codomain.event_dim - part.domain.event_dim
            event_dim = max(event_dim, part.codomain.event_dim)
        return _enlarged(self.parts[-1].codomain, event_dim)

    @property
    def bijective(self) -> Any:  # type: ignore[override]
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        sign = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self) -> Any:
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv = weakref.ref(inverse)
            inverse._inv = weakref.ref(self)
        return inverse

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if not self.parts:
            return facula.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        event_dim = self.domain.event_dim
        total: Any = 0
        for i, part in enumerate(self.parts):
            own = part.log_abs_det_jacobian(values[i], values[i + 1])
            total = total + sum_rightmost(own, event_dim - part.domain.event_dim)
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape


def _enlarged(constraint: Any, event_dim: int) -> Any:
    more = event_dim - constraint.event_dim
    return constraints.independent(constraint, more) if more > 0 else constraint


class IndependentTransform(Transform):
    """Another transform whose last `reinterpreted_batch_ndims` batch dimensions are the event's."""

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(
            self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size
        )

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> Any:  # type: ignore[override]
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Any) -> Any:
        if x.dim() < self.domain.event_dim:
            raise ValueError(
                f"{self!r} takes at least {self.domain.event_dim} dimensions, not {x.dim()}"
            )
        return self.base_transform(x)

    def _inverse(self, y: Any) -> Any:
        if y.dim() < self.codomain.event_dim:
            raise ValueError(
                f"{self!r} gives at least {self.codomain.event_dim} dimensions, not {y.dim()}"
            )
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        own = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(own, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)
