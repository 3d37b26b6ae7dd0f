"""The normal distribution and those made of it."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import facula
from facula.distributions import constraints
from facula.distributions.exp_family import ExponentialFamily
from facula.distributions.independent import Independent
from facula.distributions.transformed_distribution import TransformedDistribution
from facula.distributions.transforms import (
    AbsTransform,
    ExpTransform,
    StickBreakingTransform,
)
from facula.distributions.utils import broadcast_all, part_of, standard_normal

__all__ = ["HalfNormal", "LogNormal", "LogisticNormal", "Normal"]

_LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)


class Normal(ExponentialFamily):
    """Normal numbers of mean `loc` and standard deviation `scale`."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _mean_carrier_measure = 0
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
    def stddev(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        return self.scale**2

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + noise * self.scale

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -0.5 * z * z - self.scale.log() - _LOG_ROOT_2PI

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return facula.special.ndtr((value - self.loc) / self.scale)

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * facula.special.ndtri(value)

    def entropy(self) -> Any:
        return 0.5 + _LOG_ROOT_2PI + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        variance = self.variance
        return self.loc / variance, -0.5 / variance

    def _log_normalizer(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        return -0.25 * x * x / y + 0.5 * (-math.pi / y).log()


class HalfNormal(TransformedDistribution):
    """|x| of normal x of mean 0 and standard deviation `scale`."""

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _fields = ()

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    scale = part_of("base_dist", "scale")

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Any:
        return facula.zeros_like(self.scale)

    @property
    def variance(self) -> Any:
        return self.scale**2 * (1 - 2 / math.pi)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        density = self.base_dist.log_prob(value) + math.log(2)
        return facula.where(value >= 0, density, -math.inf)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return facula.erf(value / (self.scale * math.sqrt(2)))

    def icdf(self, prob: Any) -> Any:
        return self.scale * (facula.erfinv(prob) * math.sqrt(2))

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)


class LogNormal(TransformedDistribution):
    """exp(x) of normal x of mean `loc` and standard deviation `scale`."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _fields = ()

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    loc = part_of("base_dist", "loc")
    scale = part_of("base_dist", "scale")

    @property
    def mean(self) -> Any:
        return (self.loc + self.scale**2 / 2).exp()

    @property
    def mode(self) -> Any:
        return (self.loc - self.scale**2).exp()

    @property
    def variance(self) -> Any:
        square = self.scale**2
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Any:
        return self.base_dist.entropy() + self.loc


class LogisticNormal(TransformedDistribution):
    """Vectors on a simplex: stick-breaking of normal vectors, with one element more."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    _fields = ()

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def _normal(self) -> Any:
        base = self.base_dist
        return base.base_dist if isinstance(base, Independent) else base

    @property
    def loc(self) -> Any:
        return self._normal.loc

    @property
    def scale(self) -> Any:
        return self._normal.scale
