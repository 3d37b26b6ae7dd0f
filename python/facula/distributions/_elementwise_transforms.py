"""Transforms of each number by itself."""

from __future__ import annotations

import math
from typing import Any

import facula
from facula.distributions import constraints
from facula.distributions._tails import log1p_exp
from facula.distributions._transform import AlikeTransform, Transform
from facula.distributions.utils import broadcast_all, holds, open_unit, sum_rightmost
from facula.nn.functional import softplus


class ExpTransform(AlikeTransform):
    """y = exp(x)."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class PowerTransform(Transform):
    """y = x ** exponent, for positive x."""

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return PowerTransform(self.exponent, cache_size=cache_size)

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and _same(self.exponent, other.exponent)

    def __hash__(self) -> int:
        return hash(PowerTransform)

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        # (e - 1) log x; by y where x is too large or too small for a number
        e = self.exponent
        info = facula.finfo(x.dtype)
        fits = (x >= info.tiny) & (x <= info.max)
        by_x = facula.xlogy(e - 1, facula.where(fits, x, 1.0))
        by_y = facula.xlogy(1 - 1 / e, facula.where(fits, 1.0, y))
        return e.abs().log() + facula.where(fits, by_x, by_y)

    def forward_shape(self, shape: Any) -> Any:
        return facula.broadcast_shapes(shape, self.exponent.shape)

    def inverse_shape(self, shape: Any) -> Any:
        return facula.broadcast_shapes(shape, self.exponent.shape)


class SigmoidTransform(AlikeTransform):
    """y = 1 / (1 + exp(-x)); y stays off 1 by half an eps, off 0 by the least normal number."""

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return open_unit(facula.sigmoid(x))

    def _inverse(self, y: Any) -> Any:
        y = open_unit(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -log1p_exp(-x) - log1p_exp(x)


class SoftplusTransform(AlikeTransform):
    """y = log(1 + exp(x)), which is x where x > 20."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x)


class TanhTransform(AlikeTransform):
    """y = tanh(x). At the ends the inverse is infinite; with a cache it is what y was made of."""

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return facula.atanh(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        # log(1 - tanh(x)^2) without the cancellation
        return 2.0 * (math.log(2.0) - x - log1p_exp(-2.0 * x))


class AbsTransform(AlikeTransform):
    """y = |x|, whose inverse is the positive one."""

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class AffineTransform(Transform):
    """y = loc + scale * x, of events of `event_dim` dimensions."""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return _real_of(self.event_dim)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return _real_of(self.event_dim)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AffineTransform)
            and _same(self.loc, other.loc)
            and _same(self.scale, other.scale)
        )

    def __hash__(self) -> int:
        return hash(AffineTransform)

    @property
    def sign(self) -> Any:
        if facula.is_tensor(self.scale):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        scale = self.scale
        if facula.is_tensor(scale):
            result = scale.abs().log().expand(facula.broadcast_shapes(x.shape, scale.shape))
        else:
            size = math.log(abs(scale)) if scale else -math.inf
            result = facula.full_like(x, size)
        result = sum_rightmost(result, self.event_dim)
        return (
            result.expand(tuple(x.shape[: x.dim() - self.event_dim])) if self.event_dim else result
        )

    def forward_shape(self, shape: Any) -> Any:
        return facula.broadcast_shapes(shape, _shape(self.loc), _shape(self.scale))

    def inverse_shape(self, shape: Any) -> Any:
        return facula.broadcast_shapes(shape, _shape(self.loc), _shape(self.scale))


def _real_of(event_dim: int) -> Any:
    return constraints.independent(constraints.real, event_dim) if event_dim else constraints.real


def _shape(value: Any) -> Any:
    return getattr(value, "shape", ())


def _same(a: Any, b: Any) -> bool:
    same = a == b
    return holds(same) if facula.is_tensor(same) else bool(same)


class CumulativeDistributionTransform(Transform):
    """y = F(x), the cumulative distribution function of a distribution of numbers."""

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:  # type: ignore[override]
        return self.distribution.support

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
