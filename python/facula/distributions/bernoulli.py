"""Distributions of trials of one chance: Bernoulli, geometric, binomial, negative binomial."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import facula
from facula.distributions import constraints
from facula.distributions._counts import counts_entropy
from facula.distributions._densities import LARGE, apart, beta_log_density
from facula.distributions._draws import binomial, standard_gamma
from facula.distributions._tails import log1p_exp, log_of, log_rest, weighted
from facula.distributions.distribution import Distribution
from facula.distributions.exp_family import ExponentialFamily
from facula.distributions.utils import (
    broadcast_all,
    holds,
    in_all_calls,
    lazy_property,
    logits_to_probs,
    new_empty,
    probs_to_logits,
)
from facula.nn.functional import logsigmoid

__all__ = ["Bernoulli", "Binomial", "Geometric", "NegativeBinomial"]


class _Chance(Distribution):
    """With `probs` or `logits`, of which one is given and the other follows."""

    _kept_fields = ("_given",)

    def _set_chance(self, probs: Any, logits: Any, *others: Any) -> tuple[Any, ...]:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        self._given = "probs" if logits is None else "logits"
        *rest, value = broadcast_all(*others, probs if logits is None else logits)
        setattr(self, self._given, value)
        return tuple(rest)

    @property
    def _param(self) -> Any:
        return self.__dict__[self._given]

    @property
    def param_shape(self) -> Any:
        """Shape of probs and logits."""
        return self._param.shape

    @lazy_property
    def logits(self) -> Any:
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        return logits_to_probs(self.logits, is_binary=True)

    def _logs(self) -> tuple[Any, Any]:
        """log p and log(1 - p), of what was given; -inf of 0 without a gradient."""
        if self._given == "probs":
            return log_of(self.probs), log_rest(self.probs)
        return logsigmoid(self.logits), logsigmoid(-self.logits)

    def _both(self) -> tuple[Any, Any]:
        """p and 1 - p."""
        if self._given == "probs":
            return self.probs, 1 - self.probs
        return self.probs, facula.sigmoid(-self.logits)

    def _trial_entropy(self) -> Any:
        """Entropy of one trial."""
        both = zip(self._both(), self._logs(), strict=True)
        own, rest = (weighted(p, log) for p, log in both)
        return -(own + rest)


class Bernoulli(_Chance, ExponentialFamily):
    """1 with probability `probs`, else 0. `logits` are log(probs / (1 - probs)).

    Of `probs` the logarithms are exact at any size, -inf (with the gradient 0) where one is 0.
    """

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0
    _fields = ("probs", "logits")

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._set_chance(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        """NaN where both are as likely."""
        mode = (self.probs >= 0.5).to(self.probs.dtype)
        return facula.where(self.probs == 0.5, math.nan, mode)

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        with facula.no_grad():
            return facula.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        log, log_rest = self._logs()
        value = value.to(log.dtype)
        return weighted(value, log) + weighted(1 - value, log_rest)

    def entropy(self) -> Any:
        return self._trial_entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        return _counted(2, self._param, self._batch_shape, expand)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (facula.logit(self.probs),)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        return log1p_exp(x)


def _counted(count: int, like: Any, batch_shape: Any, expand: bool) -> Any:
    values = facula.arange(count, dtype=like.dtype, device=like.device)
    values = values.reshape((-1,) + (1,) * len(batch_shape))
    return values.expand((-1, *tuple(batch_shape))) if expand else values


class Geometric(_Chance):
    """Failures before the first success, from 0; each trial succeeds with probability `probs`."""

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _fields = ("probs", "logits")

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._set_chance(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not holds(self.probs > 0):
            raise ValueError(
                f"Expected parameter probs of distribution {self!r} to be positive, but found"
                f" invalid values:\n{self.probs}"
            )

    @property
    def mean(self) -> Any:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Any:
        return facula.zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Any = ()) -> Any:
        # floor of an exponential number over -log(1 - p)
        with facula.no_grad():
            p = self.probs.expand(self._extended_shape(sample_shape))
            noise = new_empty(p.shape, p).exponential_()
            return (noise / -(-p).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        log, log_rest = self._logs()
        return weighted(value, log_rest) + log

    def entropy(self) -> Any:
        return self._trial_entropy() / self.probs


class Binomial(_Chance):
    """Successes among `total_count` trials of probability `probs`."""

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    _fields = ("total_count", "probs", "logits")

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        (count,) = self._set_chance(probs, logits, total_count)
        self.total_count = count.to(self._param.dtype)
        super().__init__(self._param.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        mode = ((self.total_count + 1) * self.probs).floor()
        return facula.minimum(mode, self.total_count)

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with facula.no_grad():
            return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n, k, *both = facula.broadcast_tensors(
            self.total_count, value, *self._both(), *self._logs()
        )
        inner = (n >= LARGE) & (k > 0) & (k < n)
        return apart(inner, _binomial_direct, _binomial_apart, n, k, *both)

    def entropy(self) -> Any:
        count = int(in_all_calls(self.total_count).max())
        if not holds(self.total_count == count):
            raise NotImplementedError(
                "Inhomogeneous total count not supported by `entropy`: total_count is"
                f" {self.total_count}"
            )
        return counts_entropy(count, facula.stack(self._both(), -1))

    def enumerate_support(self, expand: bool = True) -> Any:
        count = int(in_all_calls(self.total_count).max())
        if not holds(self.total_count == count):
            raise NotImplementedError(
                "Inhomogeneous total count not supported by `enumerate_support`: total_count is"
                f" {self.total_count}"
            )
        return _counted(1 + count, self._param, self._batch_shape, expand)


class NegativeBinomial(_Chance):
    """Successes, each of probability `probs`, before `total_count` failures.

    `total_count` may be any number that is not negative.
    """

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _fields = ("total_count", "probs", "logits")

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        (count,) = self._set_chance(probs, logits, total_count)
        self.total_count = count.to(self._param.dtype)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Any:
        return self.mean / facula.sigmoid(-self.logits)

    def sample(self, sample_shape: Any = ()) -> Any:
        # Poisson of a gamma distributed rate
        shape = self._extended_shape(sample_shape)
        with facula.no_grad():
            rate = standard_gamma(self.total_count.expand(shape)) * self.logits.exp()
            return facula.poisson(rate)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        n, k, *both = facula.broadcast_tensors(n, value, *self._both(), *self._logs())
        inner = (n + k >= LARGE) & (n > 0) & (k > 0)
        return apart(inner, _failures_direct, _failures_apart, n, k, *both)


def _binomial_direct(n: Any, k: Any, p: Any, q: Any, log: Any, log_rest: Any) -> Any:
    choices = (n + 1).lgamma() - (k + 1).lgamma() - (n - k + 1).lgamma()
    return choices + weighted(k, log) + weighted(n - k, log_rest)


def _binomial_apart(n: Any, k: Any, p: Any, q: Any, log: Any, log_rest: Any) -> Any:
    rest = facula.where(k < n, n - k, 1.0)
    return beta_log_density(k, rest, p, q, log, log_rest) - k.log() + (n / rest).log()


def _failures_direct(n: Any, k: Any, p: Any, q: Any, log: Any, log_rest: Any) -> Any:
    own = weighted(n, log_rest) + weighted(k, log)
    choices = (n + k).lgamma() - (1 + k).lgamma() - n.lgamma()
    # of no failures nothing but 0 is possible
    return own + facula.where(n + k == 0, 0.0, choices)


def _failures_apart(n: Any, k: Any, p: Any, q: Any, log: Any, log_rest: Any) -> Any:
    return beta_log_density(k, n, p, q, log, log_rest) - k.log()
