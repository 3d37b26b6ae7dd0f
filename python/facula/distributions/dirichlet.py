"""Distributions on simplexes and the unit interval: Dirichlet, beta, Kumaraswamy."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import facula
from facula.distributions import constraints
from facula.distributions._densities import (
    LARGE,
    apart,
    beta_log_density,
    dirichlet_log_density,
    sum_less_one,
)
from facula.distributions._draws import sample_dirichlet
from facula.distributions._stirling import digamma_rest, entropy_rest
from facula.distributions._tails import log1mexp, log_of, log_rest, weighted
from facula.distributions.exp_family import ExponentialFamily
from facula.distributions.transformed_distribution import TransformedDistribution
from facula.distributions.transforms import AffineTransform, PowerTransform
from facula.distributions.uniform import Uniform
from facula.distributions.utils import broadcast_all, euler_constant, open_unit

__all__ = ["Beta", "Dirichlet", "Kumaraswamy"]


class Dirichlet(ExponentialFamily):
    """Vectors on a simplex, of density proportional to the product of x_i^(concentration_i - 1)."""

    arg_constraints: ClassVar[Any] = {
        "concentration": constraints.independent(constraints.positive, 1)
    }
    support = constraints.simplex
    has_rsample = True
    _mean_carrier_measure = 0
    _fields = ("concentration",)

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Any:
        """Where all are at least 1; below that, the corner of the largest concentration."""
        above = (self.concentration - 1).clamp(min=0)
        mode = above / above.sum(-1, True)
        corner = facula.nn.functional.one_hot(above.argmax(-1), above.shape[-1]).to(mode.dtype)
        return facula.where((self.concentration < 1).all(-1, True), corner, mode)

    @property
    def variance(self) -> Any:
        total = self.concentration.sum(-1, True)
        share = self.concentration / total
        return share * ((total - self.concentration) / total) / (total + 1)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        own, value = facula.broadcast_tensors(self.concentration, value)
        total = own.sum(-1, True)
        large = (total >= LARGE) & ((value > 0) | (own == 1)).all(-1, True)
        small, x = facula.where(large, 1.0, own), facula.where(large, 1.0, value)
        log_beta = small.lgamma().sum(-1) - small.sum(-1).lgamma()
        direct = facula.xlogy(small - 1, x).sum(-1) - log_beta
        own = facula.where(large, own, 1.0)
        value = _off_zero(own, facula.where(large, value, 1 / own.shape[-1]))
        log = log_of(value)
        density = dirichlet_log_density(own, value, log) - log.sum(-1)
        whole = density + own.sum(-1) * sum_less_one(value)
        return facula.where(large.squeeze(-1), whole, direct)

    def _log_beta(self) -> Any:
        return self.concentration.lgamma().sum(-1) - self.concentration.sum(-1).lgamma()

    def entropy(self) -> Any:
        own, total = self.concentration, self.concentration.sum(-1)
        less = own.shape[-1] - 1
        logs = 0.5 * own.log().sum(-1) - (less + 0.5) * total.log()
        rest = entropy_rest(own).sum(-1) - entropy_rest(total) + less * digamma_rest(total)
        return logs + rest + 0.5 * less * math.log(2 * math.pi)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        # x^(a - 1) = x^a / x, whose mean log is not 0: the entropy has a form of its own.
        return (self.concentration,)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()


class Beta(ExponentialFamily):
    """Numbers of density proportional to x^(concentration1 - 1) (1 - x)^(concentration0 - 1)."""

    arg_constraints: ClassVar[Any] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True
    _fields = ("_dirichlet",)

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        both = facula.stack(broadcast_all(concentration1, concentration0), -1)
        # Its own parameters are checked below, under the names that the user knows.
        self._dirichlet = Dirichlet(both, validate_args=False)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    @property
    def concentration1(self) -> Any:
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Any:
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Any:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Any:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Any:
        total = self.concentration1 + self.concentration0
        return self.concentration1 / total * (self.concentration0 / total) / (total + 1)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        a, b, value = facula.broadcast_tensors(self.concentration1, self.concentration0, value)
        inner = ((value > 0) | (a == 1)) & ((value < 1) | (b == 1))
        return apart((a + b >= LARGE) & inner, _beta_direct, _beta_apart, a, b, value)

    def entropy(self) -> Any:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        return x.lgamma() + y.lgamma() - (x + y).lgamma()


def _beta_direct(a: Any, b: Any, x: Any) -> Any:
    powers = facula.xlogy(a - 1, x) + facula.special.xlog1py(b - 1, -x)
    return powers - (a.lgamma() + b.lgamma() - (a + b).lgamma())


def _beta_apart(a: Any, b: Any, x: Any) -> Any:
    near, far = _off_zero(a, x), _off_zero(b, 1 - x)
    log = facula.where(near > 0.5, log_rest(far), log_of(near))
    log_less = facula.where(near > 0.5, log_of(far), log_rest(near))
    return beta_log_density(a, b, near, far, log, log_less) - log - log_less


def _off_zero(a: Any, x: Any) -> Any:
    """x, or a small number where it is 0 and its power x^(a - 1) is 1."""
    return facula.where((a == 1) & (x == 0), facula.finfo(x.dtype).tiny, x)


class Kumaraswamy(TransformedDistribution):
    """Numbers in (0, 1) with the cdf 1 - (1 - x^concentration1)^concentration0 (Jones 2009)."""

    arg_constraints: ClassVar[Any] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True
    _fields = ("concentration1", "concentration0")

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        ones = facula.ones_like(self.concentration0)
        base = Uniform(0 * ones, ones, validate_args=validate_args)
        steps = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        super().__init__(base, steps, validate_args=validate_args)

    # In closed form: 1 - x^a of small x, and the powers of small numbers, are lost in the chain.

    def rsample(self, sample_shape: Any = ()) -> Any:
        like = self.concentration1
        shape = self._extended_shape(sample_shape)
        return self.icdf(open_unit(facula.rand(shape, dtype=like.dtype, device=like.device)))

    def sample(self, sample_shape: Any = ()) -> Any:
        with facula.no_grad():
            return self.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        log = value.log()
        return a.log() + b.log() + weighted(a - 1, log) + weighted(b - 1, log1mexp(a * log))

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return -(self.concentration0 * log1mexp(self.concentration1 * value.log())).expm1()

    def icdf(self, value: Any) -> Any:
        inner = -((-value).log1p() / self.concentration0).expm1()
        return inner.pow(self.concentration1.reciprocal())

    def _log_moment(self, n: int) -> Any:
        a, b = self.concentration1, self.concentration0
        power = 1 + n / a
        return b.log() + power.lgamma() + b.lgamma() - (power + b).lgamma()

    @property
    def mean(self) -> Any:
        return self._log_moment(1).exp()

    @property
    def mode(self) -> Any:
        """Where both concentrations are at least 1 and not both 1; else NaN."""
        a, b = self.concentration1, self.concentration0
        mode = ((1 - 1 / a) / (b - 1 / a)) ** (1 / a)
        inside = (a >= 1) & (b >= 1) & ((a != 1) | (b != 1))
        return facula.where(inside, mode, facula.nan)

    @property
    def variance(self) -> Any:
        return self._log_moment(2).exp() - self.mean**2

    def entropy(self) -> Any:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return 1 - 1 / b + (1 - 1 / a) * harmonic - a.log() - b.log()
