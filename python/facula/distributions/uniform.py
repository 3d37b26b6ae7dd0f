"""The uniform distribution and the continuous Bernoulli distribution on the unit interval."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import facula
from facula.distributions import constraints
from facula.distributions.distribution import Distribution
from facula.distributions.exp_family import ExponentialFamily
from facula.distributions.utils import (
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from facula.nn.functional import binary_cross_entropy_with_logits

__all__ = ["ContinuousBernoulli", "Uniform"]


class Uniform(Distribution):
    """Numbers in [low, high), all alike."""

    has_rsample = True
    _fields = ("low", "high")

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._validate_args and not (self.low < self.high).all():
            raise ValueError(
                f"Uniform is not defined when low >= high: low is {low}, high is {high}"
            )

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {
            "low": constraints.less_than(self.high),
            "high": constraints.greater_than(self.low),
        }

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Any:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Any:
        """No number is the mode: NaN."""
        return facula.full_like(self.high, math.nan)

    @property
    def stddev(self) -> Any:
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Any:
        return (self.high - self.low) ** 2 / 12

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        unit = facula.rand(shape, dtype=self.low.dtype, device=self.low.device)
        return self.low + unit * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        inside = (self.low <= value) & (value < self.high)
        return facula.where(inside, -(self.high - self.low).log(), -math.inf)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Any) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        return (self.high - self.low).log()


def _inside(probs: Any) -> Any:
    """Probabilities but for 0 and 1, for which there is no density."""
    info = facula.finfo(probs.dtype)
    return probs.clamp(min=info.tiny, max=1 - info.eps / 2)


class ContinuousBernoulli(ExponentialFamily):
    """Numbers in [0, 1] of density C probs^x (1 - probs)^(1 - x) (Loaiza-Ganem & Cunningham 2019).

    Between the two `lims`, around 1/2, where the closed forms divide 0 by 0, Taylor series stand.
    """

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _fields = ("probs", "logits")
    _kept_fields = ("_lims",)

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
            if (
                validate_args is not None
                and not self.arg_constraints["probs"].check(self.probs).all()
            ):
                raise ValueError("The parameter probs has invalid values")
            self.probs = _inside(self.probs)
        else:
            (self.logits,) = broadcast_all(logits)
        self._lims = lims
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def _param(self) -> Any:
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self) -> Any:
        """Shape of probs and logits."""
        return self._param.shape

    @lazy_property
    def logits(self) -> Any:
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        return _inside(logits_to_probs(self.logits, is_binary=True))

    def _regular(self) -> Any:
        """Where the closed forms hold."""
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _regular_probs(self) -> Any:
        """probs where the closed forms hold, else the lower limit, for which they are finite."""
        return facula.where(self._regular(), self.probs, self._lims[0])

    def _cont_bern_log_norm(self) -> Any:
        """log C."""
        p = self._regular_probs()
        # log of 2 atanh(1 - 2 p) / (1 - 2 p), which is even around 1/2
        ratio = ((-p).log1p() - p.log()) / (1 - 2 * p)
        x = (self.probs - 0.5) ** 2
        series = math.log(2.0) + (4 / 3 + 104 / 45 * x) * x
        return facula.where(self._regular(), ratio.log(), series)

    @property
    def mean(self) -> Any:
        p = self._regular_probs()
        value = p / (2 * p - 1) + 1 / ((-p).log1p() - p.log())
        x = self.probs - 0.5
        series = 0.5 + (1 / 3 + 16 / 45 * x * x) * x
        return facula.where(self._regular(), value, series)

    @property
    def variance(self) -> Any:
        p = self._regular_probs()
        value = p * (p - 1) / (1 - 2 * p) ** 2 + 1 / ((-p).log1p() - p.log()) ** 2
        x = (self.probs - 0.5) ** 2
        series = 1 / 12 - (1 / 15 - 128 / 945 * x) * x
        return facula.where(self._regular(), value, series)

    @property
    def stddev(self) -> Any:
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Any:
        with facula.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(facula.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = facula.broadcast_tensors(self.logits, value)
        loss = binary_cross_entropy_with_logits(logits, value, reduction="none")
        return self._cont_bern_log_norm() - loss

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        p = self._regular_probs()
        # in terms of the density's slope, so that small values keep their digits
        slope = p.log() - (-p).log1p()
        cdf = (1 - p) * (value.clamp(min=0, max=1) * slope).expm1() / (2 * p - 1)
        cdf = facula.where(self._regular(), cdf, value)
        return facula.where(value <= 0, 0.0, facula.where(value >= 1, 1.0, cdf))

    def icdf(self, value: Any) -> Any:
        p = self._regular_probs()
        slope = p.log() - (-p).log1p()
        # exp(slope x) = 1 + value (2p - 1) / (1 - p); its other form where that cancels
        rise = value * (2 * p - 1) / (1 - p)
        cancels = rise < -0.5
        low = facula.where(cancels, 0.0, rise).log1p()
        ratio = (p + (1 - value) * (1 - 2 * p)) / (1 - p)
        high = facula.where(cancels, ratio, 1.0).log()
        return facula.where(self._regular(), facula.where(cancels, high, low) / slope, value)

    def entropy(self) -> Any:
        p = self.probs
        return self.mean * ((-p).log1p() - p.log()) - self._cont_bern_log_norm() - (-p).log1p()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        """log of (exp(x) - 1) / x, by its series where probs is between the limits."""
        bound = self._lims[1] - 0.5
        small = (facula.sigmoid(x) - 0.5).abs() <= bound
        safe = facula.where(small, 1.0, x)
        series = x / 2 + x * x / 24
        # of large x without overflow
        log = facula.where(
            safe > 0, safe + (-(-safe.abs()).expm1()).log(), (-(-safe.abs()).expm1()).log()
        )
        return facula.where(small, series, log - safe.abs().log())
