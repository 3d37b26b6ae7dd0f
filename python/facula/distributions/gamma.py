"""The gamma distribution and its kin: chi-squared, inverse gamma, F."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import facula
from facula.distributions import constraints
from facula.distributions._densities import LARGE, apart, beta_log_density, gamma_log_density
from facula.distributions._draws import standard_gamma, standard_log_gamma
from facula.distributions._stirling import digamma_rest, entropy_rest
from facula.distributions._tails import log_of
from facula.distributions.distribution import Distribution
from facula.distributions.exp_family import ExponentialFamily
from facula.distributions.transformed_distribution import TransformedDistribution
from facula.distributions.transforms import PowerTransform
from facula.distributions.utils import broadcast_all

__all__ = ["Chi2", "FisherSnedecor", "Gamma", "InverseGamma"]


class Gamma(ExponentialFamily):
    """Positive numbers of density proportional to x^(concentration - 1) exp(-rate x)."""

    arg_constraints: ClassVar[Any] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _fields = ("concentration", "rate")

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def stddev(self) -> Any:
        return self.concentration.sqrt() / self.rate

    @property
    def variance(self) -> Any:
        return self.concentration / self.rate / self.rate

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        # Gradients by the concentration are those of the quantile (Figurnov et al. 2018).
        value = standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        least = facula.finfo(value.dtype).tiny
        return facula.where(value.detach() > 0, value, least)

    def log_prob(self, value: Any) -> Any:
        value = facula.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        shape, rate, value = facula.broadcast_tensors(self.concentration, self.rate, value)
        return apart(
            (shape >= LARGE) & (value > 0),
            lambda a, rate, x: (
                facula.xlogy(a, rate) + facula.xlogy(a - 1, x) - rate * x - a.lgamma()
            ),
            lambda a, rate, x: gamma_log_density(a, rate * x, rate.log() + log_of(x)) - log_of(x),
            shape,
            rate,
            value,
        )

    def entropy(self) -> Any:
        shape = self.concentration
        return 0.5 * (2 * math.pi * shape).log() + entropy_rest(shape) - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        return (x + 1).lgamma() - (x + 1) * (-y).log()

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return facula.special.gammainc(self.concentration, self.rate * value)


class Chi2(Gamma):
    """The sum of `df` squares of standard normal numbers."""

    arg_constraints: ClassVar[Any] = {"df": constraints.positive}
    _fields = ("concentration", "rate")

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (df,) = broadcast_all(df)
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Any:
        return self.concentration * 2


class InverseGamma(TransformedDistribution):
    """1 / x of gamma distributed x of the same parameters."""

    arg_constraints: ClassVar[Any] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.positive
    has_rsample = True
    _fields = ()

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        inverse = PowerTransform(-base.rate.new_ones(()))
        super().__init__(base, inverse, validate_args=validate_args)

    @property
    def concentration(self) -> Any:
        return self.base_dist.concentration

    @property
    def rate(self) -> Any:
        return self.base_dist.rate

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return facula.special.gammaincc(self.concentration, self.rate / value)

    @property
    def mean(self) -> Any:
        shape = self.concentration
        return facula.where(shape > 1, self.rate / (shape - 1), math.inf)

    @property
    def mode(self) -> Any:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        shape = self.concentration
        value = self.rate**2 / ((shape - 1) ** 2 * (shape - 2))
        return facula.where(shape > 2, value, math.inf)

    def entropy(self) -> Any:
        shape = self.concentration
        # that of x, and twice the mean of -log x
        less = 2 * digamma_rest(shape) - 1.5 * shape.log()
        return 0.5 * math.log(2 * math.pi) + entropy_rest(shape) + less + self.rate.log()


class FisherSnedecor(Distribution):
    """The ratio of two chi-squared numbers, each over its degrees of freedom."""

    arg_constraints: ClassVar[Any] = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _fields = ("df1", "df2")

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return facula.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Any:
        value = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return facula.where(self.df1 > 2, value, math.nan)

    @property
    def variance(self) -> Any:
        df1, df2 = self.df1, self.df2
        value = 2 * df2**2 * (df1 + df2 - 2) / (df1 * (df2 - 2) ** 2 * (df2 - 4))
        return facula.where(df2 > 4, value, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        half1, half2 = self.df1.expand(shape) / 2, self.df2.expand(shape) / 2
        # By logarithms: for few degrees of freedom both numbers may be too small for the dtype.
        log = standard_log_gamma(half1) - standard_log_gamma(half2) + (half2 / half1).log()
        info = facula.finfo(log.dtype)
        return log.exp().clamp(min=info.tiny, max=info.max)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        half1, half2, value = facula.broadcast_tensors(self.df1 / 2, self.df2 / 2, value)
        inner = (half1 + half2 >= LARGE) & (value > 0)
        return apart(inner, _f_direct, _f_apart, half1, half2, value)


def _f_direct(half1: Any, half2: Any, value: Any) -> Any:
    ratio = half1 / half2
    constant = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
    powers = half1 * ratio.log() + facula.xlogy(half1 - 1, value)
    return constant + powers - (half1 + half2) * (ratio * value).log1p()


def _f_apart(half1: Any, half2: Any, value: Any) -> Any:
    """By the density of the share that the first number has of both."""
    ratio = half1 / half2 * value
    logs = -ratio.reciprocal().log1p(), -ratio.log1p()
    share, rest = 1 / (1 + ratio.reciprocal()), 1 / (1 + ratio)
    return beta_log_density(half1, half2, share, rest, *logs) - value.log()
