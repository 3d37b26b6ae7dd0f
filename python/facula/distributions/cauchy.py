"""Distributions with heavy tails: Cauchy, its half, Student's t."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import facula
from facula.distributions import constraints
from facula.distributions._draws import standard_gamma
from facula.distributions.distribution import Distribution
from facula.distributions.transformed_distribution import TransformedDistribution
from facula.distributions.transforms import AbsTransform
from facula.distributions.utils import broadcast_all, new_empty, part_of, standard_normal

__all__ = ["Cauchy", "HalfCauchy", "StudentT"]


class Cauchy(Distribution):
    """Numbers of density 1 / (pi scale (1 + z^2)), z = (x - loc) / scale. The mean is NaN."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _fields = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return facula.full(self.batch_shape, math.nan, dtype=self.loc.dtype, device=self.loc.device)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return facula.full_like(self.mean, math.inf)

    def rsample(self, sample_shape: Any = ()) -> Any:
        noise = new_empty(self._extended_shape(sample_shape), self.loc).cauchy_()
        return self.loc + noise * self.scale

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - (z * z).log1p()

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return facula.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return facula.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()


class HalfCauchy(TransformedDistribution):
    """|x| of Cauchy distributed x of location 0."""

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _fields = ()

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Cauchy(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    scale = part_of("base_dist", "scale")

    @property
    def mean(self) -> Any:
        return facula.full_like(self.scale, math.inf)

    @property
    def mode(self) -> Any:
        return facula.zeros_like(self.scale)

    variance = part_of("base_dist", "variance")

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        value = facula.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        density = self.base_dist.log_prob(value) + math.log(2)
        return facula.where(value >= 0, density, -math.inf)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Any) -> Any:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)


class StudentT(Distribution):
    """Student's t with `df` degrees of freedom, times scale, plus loc."""

    arg_constraints: ClassVar[Any] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True
    _fields = ("df", "loc", "scale")

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        """loc where df > 1, else NaN."""
        return facula.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        """Infinite where 1 < df <= 2, NaN below."""
        finite = self.scale**2 * self.df / (self.df - 2)
        wide = facula.where(self.df > 1, math.inf, math.nan)
        return facula.where(self.df > 2, finite, wide.to(finite.dtype))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        # normal / sqrt(chi-squared / df), chi-squared = 2 gamma(df / 2)
        half = self.df.expand(shape) / 2
        noise = standard_normal(shape, self.df) * (standard_gamma(half) / half).rsqrt()
        return self.loc + self.scale * noise

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        constant = (
            self.scale.log()
            + 0.5 * self.df.log()
            + 0.5 * math.log(math.pi)
            + (0.5 * self.df).lgamma()
            - (0.5 * (self.df + 1)).lgamma()
        )
        return -0.5 * (self.df + 1) * (z * z / self.df).log1p() - constant

    def entropy(self) -> Any:
        half, above = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = half.lgamma() + math.lgamma(0.5) - above.lgamma()
        slope = above * (above.digamma() - half.digamma())
        return self.scale.log() + slope + 0.5 * self.df.log() + log_beta
