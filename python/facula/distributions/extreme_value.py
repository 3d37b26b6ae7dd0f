"""Distributions of extremes and of what exceeds a bound: Gumbel, Weibull, Pareto."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import facula
from facula.distributions import constraints
from facula.distributions._tails import log1mexp, log_ratio, weighted
from facula.distributions.distribution import Distribution
from facula.distributions.exponential import Exponential
from facula.distributions.transformed_distribution import TransformedDistribution
from facula.distributions.transforms import AffineTransform, ExpTransform, PowerTransform
from facula.distributions.uniform import Uniform
from facula.distributions.utils import broadcast_all, euler_constant

__all__ = ["GeneralizedPareto", "Gumbel", "Pareto", "Weibull"]


class Gumbel(TransformedDistribution):
    """The limit of largest of many: cdf exp(-exp(-(x - loc) / scale))."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    _fields = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        info = facula.finfo(self.loc.dtype)
        base = Uniform(
            facula.full_like(self.loc, info.tiny),
            facula.full_like(self.loc, 1 - info.eps),
            validate_args=validate_args,
        )
        steps = [
            ExpTransform().inv,
            AffineTransform(loc=0, scale=-facula.ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(loc=self.loc, scale=-self.scale),
        ]
        super().__init__(base, steps, validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        y = ((self.loc - value) / self.scale).clamp(max=facula.finfo(self.scale.dtype).max)
        return y - y.exp() - self.scale.log()

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return (-((self.loc - value) / self.scale).exp()).exp()

    def icdf(self, value: Any) -> Any:
        return self.loc - self.scale * (-value.log()).log()

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Any:
        return self.stddev**2

    def entropy(self) -> Any:
        return self.scale.log() + (1 + euler_constant)


class Weibull(TransformedDistribution):
    """Positive numbers of cdf 1 - exp(-(x / scale)^concentration)."""

    arg_constraints: ClassVar[Any] = {
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    support = constraints.positive
    _fields = ("scale", "concentration", "concentration_reciprocal")

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(facula.ones_like(self.scale), validate_args=validate_args)
        steps = [
            PowerTransform(exponent=self.concentration_reciprocal),
            AffineTransform(loc=0, scale=self.scale),
        ]
        super().__init__(base, steps, validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        c = self.concentration
        log = log_ratio(value, self.scale)
        return c.log() - self.scale.log() + (c - 1) * log - self._exponent(value)

    def _exponent(self, value: Any) -> Any:
        return (value / self.scale).pow(self.concentration)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return -(-self._exponent(value)).expm1()

    @property
    def mean(self) -> Any:
        return self.scale * (1 + self.concentration_reciprocal).lgamma().exp()

    @property
    def mode(self) -> Any:
        """0 where concentration <= 1."""
        inner = ((self.concentration - 1) / self.concentration).clamp(min=0)
        return self.scale * inner**self.concentration_reciprocal

    @property
    def variance(self) -> Any:
        reciprocal = self.concentration_reciprocal
        first, second = (1 + reciprocal).lgamma(), (1 + 2 * reciprocal).lgamma()
        return self.scale**2 * (second.exp() - (2 * first).exp())

    def entropy(self) -> Any:
        reciprocal = self.concentration_reciprocal
        return euler_constant * (1 - reciprocal) + (self.scale * reciprocal).log() + 1


class Pareto(TransformedDistribution):
    """Numbers above `scale`, of density proportional to x^-(alpha + 1)."""

    arg_constraints: ClassVar[Any] = {"alpha": constraints.positive, "scale": constraints.positive}
    _fields = ("scale", "alpha")

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        steps = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, steps, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    def _log_excess(self, value: Any) -> Any:
        """log(value / scale), to the last digit next to the scale."""
        near = value < 2 * self.scale
        above = facula.where(near, value - self.scale, 0.0) / self.scale
        far = log_ratio(facula.where(near, self.scale, value), self.scale)
        return facula.where(near, above.log1p(), far)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self.alpha.log() - self.alpha * self._log_excess(value) - value.log()

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return -(-self.alpha * self._log_excess(value)).expm1()

    @property
    def mean(self) -> Any:
        """Infinite where alpha <= 1."""
        a = self.alpha.clamp(min=1)
        return self.scale * (a / (a - 1))

    @property
    def mode(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        """Infinite where alpha <= 2."""
        a = self.alpha.clamp(min=2)
        return (self.scale / (a - 1)) ** 2 * (a / (a - 2))

    def entropy(self) -> Any:
        return log_ratio(self.scale, self.alpha) + (1 + self.alpha.reciprocal())


class GeneralizedPareto(Distribution):
    """What exceeds a bound: cdf 1 - (1 + c z)^(-1/c), z = (x - loc) / scale, c the concentration.

    For c = 0 it is the exponential distribution; for c < 0 it ends at loc - scale / c.
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    _fields = ("loc", "scale", "concentration")

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        end = self.loc - self.scale / self.concentration
        upper = facula.where(self.concentration < 0, end, math.inf)
        return constraints.interval(self.loc, upper)

    def _log_survival(self, z: Any) -> Any:
        """-log(1 + c z) / c, by its series where c z is next to 0."""
        u = self.concentration * z
        small = u.abs() < facula.finfo(u.dtype).eps
        c = facula.where(small, 1.0, self.concentration)
        curved = facula.where(small, 0.0, u).log1p() / c
        return facula.where(small, -z * (1 - u / 2), -curved)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(facula.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        log = self._log_survival((value - self.loc) / self.scale)
        return weighted(1 + self.concentration, log) - self.scale.log()

    def log_survival_function(self, value: Any) -> Any:
        """log of the probability of more than `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return self._log_survival((value - self.loc) / self.scale)

    def log_cdf(self, value: Any) -> Any:
        """log of the cdf."""
        return log1mexp(self.log_survival_function(value))

    def cdf(self, value: Any) -> Any:
        return -self.log_survival_function(value).expm1()

    def icdf(self, value: Any) -> Any:
        log = -(-value).log1p()
        u = self.concentration * log
        small = u.abs() < facula.finfo(u.dtype).eps
        c = facula.where(small, 1.0, self.concentration)
        curved = facula.where(small, 0.0, u).expm1() / c
        return self.loc + self.scale * facula.where(small, log * (1 + u / 2), curved)

    def _moment(self, value: Any, bound: float) -> Any:
        return facula.where(self.concentration < bound, value, math.inf)

    @property
    def mean(self) -> Any:
        """Infinite where c >= 1."""
        return self._moment(self.loc + self.scale / (1 - self.concentration), 1)

    @property
    def variance(self) -> Any:
        """Infinite where c >= 1/2."""
        c = self.concentration
        return self._moment(self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c)), 0.5)

    @property
    def mode(self) -> Any:
        return self.loc

    def entropy(self) -> Any:
        return self.scale.log() + self.concentration + 1
