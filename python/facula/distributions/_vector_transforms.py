"""Transforms of vectors and matrices, and transforms side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import facula
from facula.distributions import constraints
from facula.distributions._tails import log1p_exp
from facula.distributions._transform import AlikeTransform, Transform
from facula.distributions.utils import (
    open_unit,
    sum_rightmost,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)
from facula.nn.functional import logsigmoid, pad


class ReshapeTransform(Transform):
    """Gives the last dimensions another shape of as many elements."""

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape = facula.Size(in_shape)
        self.out_shape = facula.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError(
                f"in_shape {tuple(self.in_shape)} and out_shape {tuple(self.out_shape)} have"
                " different numbers of elements"
            )
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Any) -> Any:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Any) -> Any:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        batch = x.shape[: x.dim() - len(self.in_shape)]
        return facula.zeros(batch, dtype=x.dtype, device=x.device)

    def forward_shape(self, shape: Any) -> Any:
        return _with_tail(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return _with_tail(shape, self.out_shape, self.in_shape)


def _with_tail(shape: Any, old: Any, new: Any) -> Any:
    cut = len(shape) - len(old)
    if cut < 0 or tuple(shape[cut:]) != tuple(old):
        raise ValueError(f"shape {tuple(shape)} must end in {tuple(old)}")
    return facula.Size(tuple(shape[:cut]) + tuple(new))


class SoftmaxTransform(AlikeTransform):
    """Logits to a simplex, y = exp(x) / sum exp(x). It is no bijection: the inverse is log(y)."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Any) -> Any:
        return facula.softmax(x, -1)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        return _dims(shape, 1)

    def inverse_shape(self, shape: Any) -> Any:
        return _dims(shape, 1)


def _dims(shape: Any, least: int) -> Any:
    if len(shape) < least:
        raise ValueError(f"needs at least {least} dimensions, got the shape {tuple(shape)}")
    return shape


class StickBreakingTransform(AlikeTransform):
    """n numbers to a simplex of n + 1: each takes a share of what is left of a stick.

    The i-th share is sigmoid(x_i - log(n - i)), i from 0, so that 0 gives equal parts (Stan's
    reference manual, "Unit simplex").
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _log_left(n: int, like: Any) -> Any:
        return facula.arange(n, 0, -1, dtype=like.dtype, device=like.device).log()

    def _call(self, x: Any) -> Any:
        share = open_unit(facula.sigmoid(x - self._log_left(x.shape[-1], x)))
        left = (1 - share).cumprod(-1)
        return pad(share, [0, 1], value=1.0) * pad(left, [1, 0], value=1.0)

    def _inverse(self, y: Any) -> Any:
        parts = y[..., :-1]
        left = (1 - parts.cumsum(-1)).clamp(min=facula.finfo(y.dtype).tiny)
        return parts.log() - left.log() + self._log_left(parts.shape[-1], y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        x = x - self._log_left(x.shape[-1], x)
        # dy_i/dx_i = y_i (1 - share_i)
        return (logsigmoid(-x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        shape = _dims(shape, 1)
        return facula.Size((*tuple(shape[:-1]), shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        shape = _dims(shape, 1)
        return facula.Size((*tuple(shape[:-1]), shape[-1] - 1))


class LowerCholeskyTransform(AlikeTransform):
    """Square matrices to lower triangular ones with the exp of the diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(AlikeTransform):
    """Square matrices to positive definite ones, L L^T of what LowerCholeskyTransform gives."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(facula.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """d (d - 1) / 2 numbers to the Cholesky factor of a correlation matrix of d rows.

    tanh gives partial correlations, and these the rows, one after another on the unit sphere
    (Lewandowski, Kurowicka & Joe 2009; Stan's reference manual, "Cholesky factors of correlation
    matrices").
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        eps = facula.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        # What is left of the squared norm of a row before each column.
        left = (1 - partial * partial).sqrt().cumprod(-1)
        n = partial.shape[-1]
        eye = facula.eye(n, dtype=x.dtype, device=x.device)
        return (partial + eye) * pad(left[..., :-1], [1, 0], value=1.0)

    def _inverse(self, y: Any) -> Any:
        left = pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1.0)
        partial = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (partial.log1p() - (-partial).log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        # dy_ij/dx_ij is sqrt(left_ij) / cosh(x_ij)^2, and rows are triangular.
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)
        rows = 0.5 * left.log().sum(-1)
        slopes = -2 * (x + log1p_exp(-2 * x) - math.log(2.0)).sum(-1)
        return rows + slopes

    def forward_shape(self, shape: Any) -> Any:
        count = _dims(shape, 1)[-1]
        d = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if d * (d - 1) // 2 != count:
            raise ValueError(f"{count} is not d (d - 1) / 2 for any number d of rows")
        return facula.Size((*tuple(shape[:-1]), d, d))

    def inverse_shape(self, shape: Any) -> Any:
        shape = _dims(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError(f"the matrix must be square, not {shape[-2]} x {shape[-1]}")
        d = shape[-1]
        return facula.Size((*tuple(shape[:-2]), d * (d - 1) // 2))


class _Joined(Transform):
    """Transforms side by side along a dimension."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise TypeError("all elements of tseq must be transforms")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) if cache_size else t for t in tseq]
        self.dim = dim

    @property
    def bijective(self) -> Any:  # type: ignore[override]
        return all(t.bijective for t in self.transforms)

    def _parts(self, value: Any) -> list[Any]:
        raise NotImplementedError

    def _joined(self, parts: list[Any]) -> Any:
        raise NotImplementedError

    def _call(self, x: Any) -> Any:
        return self._joined([t(v) for t, v in zip(self.transforms, self._parts(x), strict=True)])

    def _inverse(self, y: Any) -> Any:
        parts = zip(self.transforms, self._parts(y), strict=True)
        return self._joined([t.inv(v) for t, v in parts])


class CatTransform(_Joined):
    """Transforms of parts along `dim`, of `lengths` (1 each by default)."""

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ValueError(f"{len(self.transforms)} transforms need as many lengths: {lengths}")

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """What the dimension has altogether."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, value: Any) -> list[Any]:
        if not -value.dim() <= self.dim < value.dim() or value.shape[self.dim] != self.length:
            raise ValueError(
                f"dimension {self.dim} must have {self.length} elements, the shape is"
                f" {tuple(value.shape)}"
            )
        return list(value.split(self.lengths, self.dim))

    def _joined(self, parts: list[Any]) -> Any:
        return facula.cat(parts, self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        event_dim = self.event_dim
        terms = []
        for t, own_x, own_y in zip(self.transforms, self._parts(x), self._parts(y), strict=True):
            own = t.log_abs_det_jacobian(own_x, own_y)
            terms.append(sum_rightmost(own, event_dim - t.event_dim))
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += event_dim
        if dim < 0:
            return facula.cat(terms, dim)
        return sum(terms)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Joined):
    """A transform for each slice along `dim`."""

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _parts(self, value: Any) -> list[Any]:
        count = len(self.transforms)
        if not -value.dim() <= self.dim < value.dim() or value.shape[self.dim] != count:
            raise ValueError(
                f"dimension {self.dim} must have {count} slices, the shape is {tuple(value.shape)}"
            )
        return [value.select(self.dim, i) for i in range(count)]

    def _joined(self, parts: list[Any]) -> Any:
        return facula.stack(parts, self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        parts = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        return facula.stack([t.log_abs_det_jacobian(a, b) for t, a, b in parts], self.dim)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
