"""Continuous relaxations of discrete distributions, with gradients.

Maddison, Mnih & Teh 2017, "The Concrete Distribution"; Jang, Gu & Poole 2017, "Categorical
Reparameterization with Gumbel-Softmax".
"""

from __future__ import annotations

from typing import Any, ClassVar

import facula
from facula.distributions import constraints
from facula.distributions._tails import log1p_exp
from facula.distributions.bernoulli import _Chance
from facula.distributions.categorical import Categorical
from facula.distributions.distribution import Distribution
from facula.distributions.transformed_distribution import TransformedDistribution
from facula.distributions.transforms import ExpTransform, SigmoidTransform
from facula.distributions.utils import new_empty, open_unit, part_of

__all__ = [
    "ExpRelaxedCategorical",
    "LogitRelaxedBernoulli",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
]


class LogitRelaxedBernoulli(_Chance):
    """Numbers whose sigmoid is RelaxedBernoulli: (logits + logistic noise) / temperature."""

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.real
    has_rsample = True
    _fields = ("probs", "logits")
    _kept_fields = ("_given", "temperature")

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self._set_chance(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        like = self._param
        unit = open_unit(facula.rand(shape, dtype=like.dtype, device=like.device))
        return (unit.log() - (-unit).log1p() + self.logits) / self.temperature

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = facula.broadcast_tensors(self.logits, value)
        diff = logits - value * self.temperature
        log_temperature = facula.as_tensor(self.temperature, dtype=diff.dtype).log()
        return log_temperature + diff - 2 * log1p_exp(diff)


class RelaxedBernoulli(TransformedDistribution):
    """Numbers in (0, 1) that near 0 and 1 as `temperature` nears 0."""

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.unit_interval
    has_rsample = True
    _fields = ()

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    temperature = part_of("base_dist", "temperature")
    logits = part_of("base_dist", "logits")
    probs = part_of("base_dist", "probs")


class ExpRelaxedCategorical(Distribution):
    """Logarithms of RelaxedOneHotCategorical: log_softmax((logits + Gumbel) / temperature)."""

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    # Not all of them: the logarithm of a simplex, which is no region of its own.
    support = constraints.real_vector
    has_rsample = True
    _fields = ("_categorical",)
    _kept_fields = ("temperature",)

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    param_shape = part_of("_categorical", "param_shape", "Shape of probs and logits.")
    logits = part_of("_categorical", "logits")
    probs = part_of("_categorical", "probs")

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        gumbel = -new_empty(shape, self._categorical._param).exponential_().log()
        return facula.log_softmax((self.logits + gumbel) / self.temperature, -1)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n = self.event_shape[0]
        logits, value = facula.broadcast_tensors(self.logits, value)
        temperature = facula.as_tensor(self.temperature, dtype=logits.dtype)
        scale = facula.full_like(temperature, float(n)).lgamma() + (n - 1) * temperature.log()
        score = logits - value * temperature
        score = (score - facula.logsumexp(score, -1, keepdim=True)).sum(-1)
        return score + scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Vectors on a simplex that near one-hot ones as `temperature` nears 0."""

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    support = constraints.simplex
    has_rsample = True
    _fields = ()

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    temperature = part_of("base_dist", "temperature")
    logits = part_of("base_dist", "logits")

    @property
    def probs(self) -> Any:
        return self.base_dist.probs
