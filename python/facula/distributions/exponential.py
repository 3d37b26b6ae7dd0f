"""The exponential and the Laplace distribution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import facula
from facula.distributions import constraints
from facula.distributions.distribution import Distribution
from facula.distributions.exp_family import ExponentialFamily
from facula.distributions.utils import broadcast_all, new_empty

__all__ = ["Exponential", "Laplace"]


class Exponential(ExponentialFamily):
    """Positive numbers of density rate exp(-rate x)."""

    arg_constraints: ClassVar[Any] = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _fields = ("rate",)

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Any:
        return facula.zeros_like(self.rate)

    @property
    def stddev(self) -> Any:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Any:
        return self.rate**-2

    def rsample(self, sample_shape: Any = ()) -> Any:
        return new_empty(self._extended_shape(sample_shape), self.rate).exponential_() / self.rate

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return -(-self.rate * value).expm1()

    def icdf(self, value: Any) -> Any:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Any:
        return 1 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        return -(-x).log()


class Laplace(Distribution):
    """Numbers of density exp(-|x - loc| / scale) / (2 scale)."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _fields = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return 2 * self.scale**2

    @property
    def stddev(self) -> Any:
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Any = ()) -> Any:
        # an exponential number of a random sign
        shape = self._extended_shape(sample_shape)
        size = new_empty(shape, self.loc).exponential_()
        sign = 2 * new_empty(shape, self.loc).bernoulli_(0.5) - 1
        return self.loc + self.scale * (sign * size)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        below = 0.5 * z.clamp(max=0).exp()
        return facula.where(z < 0, below, 1 - 0.5 * (-z.clamp(min=0)).exp())

    def icdf(self, value: Any) -> Any:
        low = value < 0.5
        size = (2 * facula.where(low, value, 1 - value)).log()
        return self.loc + self.scale * facula.where(low, size, -size)

    def entropy(self) -> Any:
        return 1 + (2 * self.scale).log()
