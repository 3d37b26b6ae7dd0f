"""Distributions over categories: Categorical, one-hot, multinomial."""

from __future__ import annotations

from typing import Any, ClassVar

import facula
from facula.distributions import constraints
from facula.distributions._counts import counts_entropy, draw_counts
from facula.distributions._densities import LARGE, dirichlet_log_density
from facula.distributions._tails import log_of, weighted
from facula.distributions.distribution import Distribution
from facula.distributions.utils import lazy_property, logits_to_probs, part_of, probs_to_logits
from facula.nn.functional import one_hot

__all__ = ["Categorical", "Multinomial", "OneHotCategorical", "OneHotCategoricalStraightThrough"]


class Categorical(Distribution):
    """Categories 0 ... n - 1, with the probabilities along the last dimension of `probs`.

    `probs` are divided by their sum; `logits` are log-probabilities up to a constant.
    """

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    has_enumerate_support = True
    _fields = ("probs", "logits")
    _kept_fields = ("_given", "_num_events")

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        if probs is not None:
            if probs.dim() < 1:
                raise ValueError("`probs` parameter must be at least one-dimensional.")
            self._given = "probs"
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            if logits.dim() < 1:
                raise ValueError("`logits` parameter must be at least one-dimensional.")
            self._given = "logits"
            self.logits = logits - facula.logsumexp(logits, -1, keepdim=True)
        self._num_events = self._param.shape[-1]
        super().__init__(self._param.shape[:-1], validate_args=validate_args)

    @property
    def _param(self) -> Any:
        return self.__dict__[self._given]

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Any:
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Any:
        return logits_to_probs(self.logits)

    def _log_probs(self) -> Any:
        """log p, of what was given; -inf of 0 without a gradient."""
        return log_of(self.probs) if self._given == "probs" else self.logits

    @property
    def param_shape(self) -> Any:
        """Shape of probs and logits."""
        return self._param.shape

    @property
    def mean(self) -> Any:
        """NaN: categories are no numbers."""
        return self._nan()

    @property
    def mode(self) -> Any:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Any:
        return self._nan()

    def _nan(self) -> Any:
        p = self._param
        return facula.full(self.batch_shape, facula.nan, dtype=p.dtype, device=p.device)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = facula.Size(sample_shape)
        with facula.no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            if shape.numel() == 0 or rows.shape[0] == 0:
                full = self._extended_shape(shape)
                return facula.zeros(full, dtype=facula.int64, device=rows.device)
            drawn = facula.multinomial(rows, shape.numel(), True)
            return drawn.mT.reshape(self._extended_shape(shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        index = value.to(facula.int64).unsqueeze(-1)
        shape = facula.broadcast_shapes(index.shape[:-1], self._param.shape[:-1])
        index = index.expand((*tuple(shape), 1))
        logs = self._log_probs().expand((*tuple(shape), self._num_events))
        return logs.gather(-1, index).squeeze(-1)

    def entropy(self) -> Any:
        return -weighted(self.probs, self._log_probs()).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = facula.arange(self._num_events, dtype=facula.int64, device=self._param.device)
        values = values.reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *tuple(self._batch_shape))) if expand else values


class OneHotCategorical(Distribution):
    """Vectors of a 1 in the place of a category, 0 elsewhere."""

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    support = constraints.one_hot
    has_enumerate_support = True
    _fields = ("_categorical",)

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args=validate_args)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    _param = part_of("_categorical", "_param")
    probs = part_of("_categorical", "probs")
    logits = part_of("_categorical", "logits")
    param_shape = part_of("_categorical", "param_shape", "Shape of probs and logits.")

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        return self._vectors(self._categorical.mode)

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def _vectors(self, categories: Any) -> Any:
        return one_hot(categories, self._event_shape[0]).to(self._param.dtype)

    def sample(self, sample_shape: Any = ()) -> Any:
        return self._vectors(self._categorical.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        n = self._event_shape[0]
        values = facula.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((n,) + (1,) * len(self._batch_shape) + (n,))
        return values.expand((n, *tuple(self._batch_shape), n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot vectors whose gradient is that of `probs` (Bengio, Leonard & Courville 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Any:
        drawn = self.sample(sample_shape)
        return drawn + (self.probs - self.probs.detach())


class Multinomial(Distribution):
    """Counts of each category among `total_count` draws."""

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    _fields = ("_categorical",)
    _kept_fields = ("total_count",)

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError(
                f"inhomogeneous total_count is not supported: give an int, not {total_count!r}"
            )
        if total_count < 0:
            raise ValueError(f"total_count must be at least 0, not {total_count}")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits, validate_args=validate_args)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    probs = part_of("_categorical", "probs")
    logits = part_of("_categorical", "logits")
    param_shape = part_of("_categorical", "param_shape", "Shape of probs and logits.")

    @property
    def mean(self) -> Any:
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Any:
        with facula.no_grad():
            probs = self.probs.expand(self._extended_shape(sample_shape))

            def each(count: int) -> Any:
                return self._categorical.sample((count, *tuple(sample_shape)))

            return draw_counts(self.total_count, probs, each)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logs, value = facula.broadcast_tensors(self._categorical._log_probs(), value)
        large = value.sum(-1, True) >= LARGE
        few, many = facula.where(large, 1.0, value), facula.where(large, value, 1.0)
        choices = (few.sum(-1) + 1).lgamma() - (few + 1).lgamma().sum(-1)
        # an impossible category that was not drawn says nothing
        direct = choices + weighted(few, logs).sum(-1)
        density = dirichlet_log_density(many, logs.exp(), logs)
        repeats = facula.where(many > 0, many, 1.0).log().sum(-1)
        apart = density + many.sum(-1).log() - repeats
        return facula.where(large.squeeze(-1), apart, direct)

    def entropy(self) -> Any:
        return counts_entropy(self.total_count, self.probs)
