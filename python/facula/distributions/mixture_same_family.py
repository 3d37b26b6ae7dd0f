"""Mixtures of distributions of one family."""

from __future__ import annotations

from typing import Any, ClassVar

import facula
from facula.distributions import constraints
from facula.distributions.categorical import Categorical
from facula.distributions.distribution import Distribution

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """Draws of a component that a Categorical chooses.

    The last batch dimension of `component_distribution` are the components, as many as
    `mixture_distribution` has categories; what is before it must broadcast with the batch of that.
    """

    arg_constraints: ClassVar[Any] = {}
    has_rsample = False
    _fields = ()
    _kept_fields = ("_num_component", "_event_ndims")

    def __init__(
        self,
        mixture_distribution: Any,
        component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                "The mixture distribution needs to be an instance of"
                f" facula.distributions.Categorical, not {type(mixture_distribution).__name__}"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The component distribution needs to be an instance of"
                f" facula.distributions.Distribution, not {type(component_distribution).__name__}"
            )
        batch = component_distribution.batch_shape
        if len(batch) == 0:
            raise ValueError(
                "`component_distribution.batch_shape` is empty, its last dimension must be the"
                " components"
            )
        for own, other in zip(
            reversed(tuple(mixture_distribution.batch_shape)),
            reversed(tuple(batch[:-1])),
            strict=False,
        ):
            if own != 1 and other not in (1, own):
                raise ValueError(
                    "`mixture_distribution.batch_shape`"
                    f" ({tuple(mixture_distribution.batch_shape)}) is not compatible with"
                    f" `component_distribution.batch_shape` ({tuple(batch)})"
                )
        count = mixture_distribution.logits.shape[-1]
        if batch[-1] != count:
            raise ValueError(
                f"`mixture_distribution` has {count} categories,"
                f" `component_distribution.batch_shape[-1]` is {batch[-1]}; they must be equal"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        self._num_component = count
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(batch[:-1], event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        shape = tuple(batch_shape)
        new._mixture_distribution = self._mixture_distribution.expand(facula.Size(shape))
        new._component_distribution = self._component_distribution.expand(
            facula.Size((*shape, self._num_component))
        )
        return new

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        """The Categorical that chooses."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components, along the last batch dimension."""
        return self._component_distribution

    def _weights(self) -> Any:
        probs = self._mixture_distribution.probs
        return probs.reshape(tuple(probs.shape) + (1,) * self._event_ndims)

    def _mixed(self, values: Any) -> Any:
        return (self._weights() * values).sum(-1 - self._event_ndims)

    @property
    def mean(self) -> Any:
        return self._mixed(self._component_distribution.mean)

    @property
    def variance(self) -> Any:
        means = self._component_distribution.mean
        centre = self.mean.unsqueeze(-1 - self._event_ndims)
        # the mean of variances and the variance of means
        return self._mixed(self._component_distribution.variance) + self._mixed(
            (means - centre) ** 2
        )

    def cdf(self, value: Any) -> Any:
        cdf = self._component_distribution.cdf(self._padded(value))
        return (cdf * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        own = self._component_distribution.log_prob(self._padded(value))
        weights = facula.log_softmax(self._mixture_distribution.logits, -1)
        return facula.logsumexp(own + weights, -1)

    def sample(self, sample_shape: Any = ()) -> Any:
        with facula.no_grad():
            chosen = self._mixture_distribution.expand(self.batch_shape).sample(sample_shape)
            draws = self._component_distribution.sample(sample_shape)
            dim = draws.dim() - 1 - self._event_ndims
            index = chosen.reshape(tuple(chosen.shape) + (1,) * (1 + self._event_ndims))
            index = index.expand((*tuple(chosen.shape), 1, *tuple(self.event_shape)))
            return draws.gather(dim, index).squeeze(dim)

    def _padded(self, value: Any) -> Any:
        return value.unsqueeze(-1 - self._event_ndims)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(\n  {self._mixture_distribution},\n"
            f"  {self._component_distribution})"
        )
