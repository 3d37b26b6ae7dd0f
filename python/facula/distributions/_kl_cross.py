"""Divergences of distributions of different families.

KL(p || q) is -H(p) less the mean of log q(x) under p. So each q needs a few means under p: of x, of
its square, of log x, of exp(-x / t). Where q cannot give what p gives it is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import facula
from facula.distributions._tails import log1mexp, log_ratio, weighted
from facula.distributions.bernoulli import Bernoulli, Binomial
from facula.distributions.dirichlet import Beta
from facula.distributions.distribution import broadcast_shape
from facula.distributions.exponential import Exponential, Laplace
from facula.distributions.extreme_value import Gumbel, Pareto
from facula.distributions.gamma import Gamma
from facula.distributions.kl import register_kl
from facula.distributions.normal import Normal
from facula.distributions.poisson import Poisson
from facula.distributions.uniform import ContinuousBernoulli, Uniform
from facula.distributions.utils import euler_constant, xlogx

_UNIT = (Beta, ContinuousBernoulli)


def _infinite(p: Any, q: Any) -> Any:
    like = p.mean if p.mean.is_floating_point() else q.mean
    shape = broadcast_shape(p.batch_shape, q.batch_shape)
    return facula.full(shape, math.inf, dtype=like.dtype, device=like.device)


def _for_all(sources: Any, target: type) -> Callable[[Any], Any]:
    """Enters one function for several classes of p."""

    def enter(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        for source in sources:
            register_kl(source, target)(function)
        return function

    return enter


_OUTSIDE = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}
for _source, _targets in _OUTSIDE.items():
    for _target in _targets:
        register_kl(_source, _target)(_infinite)


def _where_inside(inside: Any, value: Any) -> Any:
    return facula.where(inside, value, math.inf)


# ---- means under p ----


def _mean_log(p: Any) -> Any:
    """Of log x."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Exponential):
        return -euler_constant - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return (xlogx(p.high) - xlogx(p.low)) / (p.high - p.low) - 1  # of Uniform


def _mean_exp(p: Any, loc: Any, scale: Any) -> Any:
    """Of exp(-(x - loc) / scale), with one exponent, so that nothing is inf times 0."""
    if isinstance(p, Exponential):
        return (loc / scale - (1 / (scale * p.rate)).log1p()).exp()
    if isinstance(p, Gamma):
        return (loc / scale - p.concentration * (1 / (scale * p.rate)).log1p()).exp()
    if isinstance(p, Normal):
        return ((loc - p.loc + 0.5 * p.scale * (p.scale / scale)) / scale).exp()
    width = p.high - p.low  # of Uniform
    below = log1mexp(-width / scale) - log_ratio(width, scale)
    return ((loc - p.low) / scale + below).exp()


# ---- q by q ----


@_for_all((Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform, Pareto), Normal)
def _to_normal(p: Any, q: Any) -> Any:
    square = (p.stddev / q.scale) ** 2 + ((p.mean - q.loc) / q.scale) ** 2
    value = -p.entropy() + 0.5 * math.log(2 * math.pi) + q.scale.log() + 0.5 * square
    if isinstance(p, Pareto):
        return _where_inside(p.alpha > 2, value)
    return value


@_for_all((Beta, ContinuousBernoulli, Gamma, Uniform, Pareto), Exponential)
def _to_exponential(p: Any, q: Any) -> Any:
    value = -p.entropy() - q.rate.log() + q.rate * p.mean
    if isinstance(p, Uniform):
        return _where_inside(p.low >= 0, value)
    if isinstance(p, Pareto):
        return _where_inside(p.alpha > 1, value)
    return value


@_for_all((Beta, Exponential, Uniform, Pareto), Gamma)
def _to_gamma(p: Any, q: Any) -> Any:
    shape = q.concentration
    constant = shape.lgamma() - shape * q.rate.log()
    value = -p.entropy() + constant - (shape - 1) * _mean_log(p) + q.rate * p.mean
    if isinstance(p, Uniform):
        return _where_inside(p.low >= 0, value)
    if isinstance(p, Pareto):
        return _where_inside(p.alpha > 1, value)
    return value


@_for_all((Exponential, Gamma, Normal, Uniform), Gumbel)
def _to_gumbel(p: Any, q: Any) -> Any:
    shift = (p.mean - q.loc) / q.scale
    tail = _mean_exp(p, q.loc, q.scale)
    value = -p.entropy() + q.scale.log() + shift + tail
    return facula.where(tail.isinf() | shift.isinf(), math.inf, value)


@register_kl(Normal, Laplace)
def _normal_to_laplace(p: Any, q: Any) -> Any:
    # The mean of a folded normal number (Leone, Nelson & Nottingham 1961).
    shift = p.loc - q.loc
    z = shift / (p.scale * math.sqrt(2))
    folded = p.scale * math.sqrt(2 / math.pi) * (-z * z).exp() + shift * z.erf()
    return -p.entropy() + (2 * q.scale).log() + folded / q.scale


@_for_all(_UNIT, Uniform)
def _unit_to_uniform(p: Any, q: Any) -> Any:
    value = -p.entropy() + (q.high - q.low).log()
    return _where_inside((q.low <= 0) & (q.high >= 1), value)


@_for_all((Beta, Uniform), ContinuousBernoulli)
def _to_continuous_bernoulli(p: Any, q: Any) -> Any:
    value = -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm()
    if isinstance(p, Uniform):
        return _where_inside((p.low >= 0) & (p.high <= 1), value)
    return value


@register_kl(Uniform, Beta)
def _uniform_to_beta(p: Any, q: Any) -> Any:
    width = p.high - p.low
    mean_log = _mean_log(p)
    mean_log_rest = (xlogx(1 - p.low) - xlogx(1 - p.high)) / width - 1
    constant = q._dirichlet._log_beta()
    value = (
        constant
        - width.log()
        - (q.concentration1 - 1) * mean_log
        - (q.concentration0 - 1) * mean_log_rest
    )
    return _where_inside((p.low >= 0) & (p.high <= 1), value)


@register_kl(Uniform, Pareto)
def _uniform_to_pareto(p: Any, q: Any) -> Any:
    constant = q.alpha.log() + q.alpha * q.scale.log()
    value = -p.entropy() - constant + (q.alpha + 1) * _mean_log(p)
    return _where_inside(p.low >= q.scale, value)


@register_kl(Bernoulli, Poisson)
def _bernoulli_to_poisson(p: Any, q: Any) -> Any:
    return -p.entropy() - (weighted(p.probs, q.rate.log()) - q.rate)
