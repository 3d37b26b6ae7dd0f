"""Exponential families: entropy and divergence from the log-normalizer."""

from __future__ import annotations

from typing import Any

import facula
from facula.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Distributions of density exp(<t(x), theta> - F(theta) + k(x)).

    A subclass may give theta (`_natural_params`), F (`_log_normalizer`) and the mean of k
    (`_mean_carrier_measure`); then the entropy, and the divergence of two of its kind, follow from
    derivatives of F (Nielsen & Nock 2010).
    """

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        raise self._lacks("_natural_params")

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise self._lacks("_log_normalizer")

    @property
    def _mean_carrier_measure(self) -> float:
        raise self._lacks("_mean_carrier_measure")

    def entropy(self) -> Any:
        """F(theta) - <theta, grad F(theta)> less the mean of k."""
        params, log_norm, means = normalizer_gradient(self)
        result = log_norm - self._mean_carrier_measure
        for param, mean in zip(params, means, strict=True):
            own = param * mean
            result = result - own.reshape((*tuple(self._batch_shape), -1)).sum(-1)
        return result


def normalizer_gradient(p: Any) -> tuple[list[Any], Any, Any]:
    """theta, F(theta) and the gradient of F, with gradients where theta has them."""
    given = p._natural_params
    params = [x if x.requires_grad else x.detach().requires_grad_() for x in given]
    wanted = any(x.requires_grad for x in given)
    with facula.enable_grad():
        log_norm = p._log_normalizer(*params)
        means = facula.autograd.grad(log_norm.sum(), params, create_graph=wanted)
    if wanted:
        return params, log_norm, means
    return [x.detach() for x in params], log_norm.detach(), means
