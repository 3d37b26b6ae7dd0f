"""The uniform distribution and the continuous Bernoulli distribution on the unit interval."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import facula
from facula.distributions import constraints
from facula.distributions._tails import log1p_exp
from facula.distributions.distribution import Distribution
from facula.distributions.exp_family import ExponentialFamily
from facula.distributions.utils import (
    broadcast_all,
    holds,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)

__all__ = ["ContinuousBernoulli", "Uniform"]


class Uniform(Distribution):
    """Numbers in [low, high), all alike."""

    has_rsample = True
    _fields = ("low", "high")

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._validate_args and not holds(self.low < self.high):
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
        value = self.low + unit * (self.high - self.low)
        # What was rounded up to `high`, which is no value of the distribution.
        with facula.no_grad():
            beyond = value - facula.nextafter(self.high, self.low)
        return facula.where(value < self.high, value, value - beyond)

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


_SMALL = 0.5
# Of the mean less 1/2, as a series of odd powers of the slope: B_2n / (2n)!, Bernoulli's numbers.
_MEAN = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
)


def _inside(probs: Any) -> Any:
    """Probabilities but for 0 and 1, for which there is no density."""
    info = facula.finfo(probs.dtype)
    return probs.clamp(min=info.tiny, max=1 - info.eps / 2)


class ContinuousBernoulli(ExponentialFamily):
    """Numbers in [0, 1] of density C probs^x (1 - probs)^(1 - x) (Loaiza-Ganem & Cunningham 2019).

    Around 1/2, where the closed forms divide 0 by 0, series stand. Torch's `lims` say between which
    chances; here they do so for `_log_normalizer` alone, and all is to the last digits.
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
            if validate_args is not None and not holds(
                self.arg_constraints["probs"].check(self.probs)
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

    @property
    def _slope(self) -> Any:
        """That of the log-density: the logits, also next to a chance of 1/2 to the last digit."""
        if "probs" not in self.__dict__:
            return self.__dict__["logits"]
        p = self.__dict__["probs"]
        near = (p - 0.5).abs() < 0.25
        middle = 2 * facula.atanh(2 * facula.where(near, p, 0.5) - 1)
        outer = facula.where(near, 0.25, p)
        return facula.where(near, middle, outer.log() - (-outer).log1p())

    def _cont_bern_log_norm(self) -> Any:
        """log C, C = t / tanh(t / 2) of the slope t."""
        t, small, safe = self._split(0.1)
        w = (t / 2) ** 2
        series = (w * (1 / 3 - w * (1 / 45 - w * (2 / 945 - w / 4725)))).log1p() + math.log(2)
        return facula.where(small, series, (safe / (safe / 2).tanh()).log())

    def _split(self, bound: float) -> tuple[Any, Any, Any]:
        """The slope where it is below a bound and 0 elsewhere, where that is, and the others."""
        t = self._slope
        small = t.abs() < bound
        return facula.where(small, t, 0.0), small, facula.where(small, 1.0, t)

    @property
    def mean(self) -> Any:
        t, small, safe = self._split(0.5)
        w, series = t * t, 0.0
        for c in reversed(_MEAN):
            series = c + w * series
        direct = 0.5 / (safe / 2).tanh() - 1 / safe
        return 0.5 + facula.where(small, t * series, direct)

    @property
    def variance(self) -> Any:
        # the derivative of the mean by the slope
        t, small, safe = self._split(0.5)
        w, series = t * t, 0.0
        for n, c in reversed([*enumerate(_MEAN)]):
            series = (2 * n + 1) * c + w * series
        direct = 1 / safe**2 - 0.25 / (safe / 2).sinh() ** 2
        return facula.where(small, series, direct)

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
        t = self._slope
        return t * value - log1p_exp(t) + self._cont_bern_log_norm()

    def cdf(self, value: Any) -> Any:
        x = value.clamp(min=0, max=1)
        t, small, safe = self._split(_SMALL * facula.finfo(self._param.dtype).eps ** 0.5)
        fall = -safe.abs()
        cdf = (x * fall).expm1() / fall.expm1() * facula.where(safe > 0, (1 - x) * fall, 0.0).exp()
        return facula.where(small, x + t * x * (x - 1) / 2, cdf)

    def icdf(self, value: Any) -> Any:
        t, small, safe = self._split(_SMALL * facula.finfo(self._param.dtype).eps ** 0.5)
        # slope x = log(1 + value (exp(slope) - 1)), in the form that neither cancels nor overflows
        rise = value * safe.clamp(max=40).expm1()
        high = safe > 40
        cancels = (rise < -0.5) & ~high
        plain = facula.where(high | cancels, 0.0, rise).log1p()
        rest = facula.where(cancels, 1 - value + value * safe.clamp(max=0).exp(), 1.0).log()
        top = facula.where(high, value + (1 - value) * (-safe.clamp(min=0)).exp(), 1.0).log()
        found = plain + rest + facula.where(high, safe, 0.0) + top
        return facula.where(small, value + t * value * (1 - value) / 2, found / safe)

    def entropy(self) -> Any:
        t = self._slope
        return log1p_exp(t) - self.mean * t - self._cont_bern_log_norm()

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
