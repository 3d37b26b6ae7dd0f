"""The Poisson distribution."""

from __future__ import annotations

from typing import Any, ClassVar

import facula
from facula.distributions import constraints
from facula.distributions._densities import LARGE, apart, gamma_log_density
from facula.distributions._tails import log_of
from facula.distributions.exp_family import ExponentialFamily
from facula.distributions.utils import broadcast_all

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """Counts of events that come at random, `rate` of them on average."""

    arg_constraints: ClassVar[Any] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _fields = ("rate",)

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate

    @property
    def mode(self) -> Any:
        return self.rate.floor()

    @property
    def variance(self) -> Any:
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Any:
        with facula.no_grad():
            return facula.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return apart(
            value >= LARGE,
            lambda k, rate: facula.xlogy(k, rate) - rate - (k + 1).lgamma(),
            lambda k, rate: gamma_log_density(k, rate, log_of(rate)) - k.log(),
            value,
            rate,
        )

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        return x.exp()
