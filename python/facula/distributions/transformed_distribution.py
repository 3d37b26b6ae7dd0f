"""Distributions of what transforms make of draws of others."""

from __future__ import annotations

from typing import Any, ClassVar

import facula
from facula.distributions import constraints
from facula.distributions.distribution import Distribution
from facula.distributions.independent import Independent
from facula.distributions.transforms import ComposeTransform, Transform
from facula.distributions.utils import sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of y = f(x), x of `base_distribution`, f one transform after another.

    log p(y) = log p(x) - log|det dy/dx|. The base is expanded, and as many of its batch dimensions
    made the event's, as the transforms need.
    """

    arg_constraints: ClassVar[Any] = {}
    _fields = ()
    _kept_fields = ("transforms",)

    def __init__(
        self, base_distribution: Any, transforms: Any, validate_args: bool | None = None
    ) -> None:
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif isinstance(transforms, list | tuple):
            self.transforms = list(transforms)
        else:
            raise ValueError(
                f"transforms must be a Transform or a list of them, not {transforms!r}"
            )
        for t in self.transforms:
            if not isinstance(t, Transform):
                raise ValueError(f"transforms must be Transforms, not {t!r}")
        whole = ComposeTransform(self.transforms)
        domain_dim, codomain_dim = whole.domain.event_dim, whole.codomain.event_dim
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        if len(base_shape) < domain_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {domain_dim}, but got"
                f" {tuple(base_shape)}."
            )
        forward_shape = facula.Size(whole.forward_shape(base_shape))
        expanded = facula.Size(whole.inverse_shape(forward_shape))
        event_dim = len(base_distribution.event_shape)
        if tuple(base_shape) != tuple(expanded):
            base_distribution = base_distribution.expand(expanded[: len(expanded) - event_dim])
        more = domain_dim - event_dim
        if more > 0:
            base_distribution = Independent(base_distribution, more)
        self.base_dist = base_distribution
        cut = len(forward_shape) - max(event_dim + codomain_dim - domain_dim, codomain_dim)
        super().__init__(forward_shape[:cut], forward_shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        shape = facula.Size(tuple(batch_shape) + tuple(self.event_shape))
        for t in reversed(self.transforms):
            shape = t.inverse_shape(shape)
        cut = len(shape) - len(self.base_dist.event_shape)
        new.base_dist = self.base_dist.expand(facula.Size(shape[:cut]))
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        codomain = self.transforms[-1].codomain
        more = len(self.event_shape) - codomain.event_dim
        return constraints.independent(codomain, more) if more > 0 else codomain

    @property
    def has_rsample(self) -> Any:  # type: ignore[override]
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Any = ()) -> Any:
        with facula.no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._transformed(self.base_dist.rsample(sample_shape))

    def _transformed(self, x: Any) -> Any:
        for t in self.transforms:
            x = t(x)
        return x

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        event_dim = len(self.event_shape)
        total: Any = 0.0
        y = value
        for t in reversed(self.transforms):
            x = t.inv(y)
            event_dim += t.domain.event_dim - t.codomain.event_dim
            own = t.log_abs_det_jacobian(x, y)
            total = total - sum_rightmost(own, event_dim - t.domain.event_dim)
            y = x
        base = self.base_dist.log_prob(y)
        return total + sum_rightmost(base, event_dim - len(self.base_dist.event_shape))

    def _rising(self, value: Any) -> Any:
        """A probability where all transforms together rise, 1 less it where they fall."""
        sign: Any = 1
        for t in self.transforms:
            sign = sign * t.sign
        if not facula.is_tensor(sign):
            return value if sign == 1 else 1 - value
        return facula.where(sign < 0, 1 - value, value)

    def cdf(self, value: Any) -> Any:
        """The base's at the inverse of `value`; for monotone transforms of numbers."""
        for t in reversed(self.transforms):
            value = t.inv(value)
        if self.base_dist._validate_args:
            self.base_dist._validate_sample(value)
        return self._rising(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        """The base's, transformed; for monotone transforms of numbers."""
        return self._transformed(self.base_dist.icdf(self._rising(value)))
