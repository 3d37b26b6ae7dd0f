"""Divergences of two distributions of one family."""

from __future__ import annotations

import math
from typing import Any

import facula
from facula.distributions._stirling import deviance, divergence_rest
from facula.distributions._tails import log_ratio, weighted
from facula.distributions.bernoulli import Bernoulli, Binomial, Geometric
from facula.distributions.categorical import Categorical, OneHotCategorical
from facula.distributions.cauchy import Cauchy
from facula.distributions.dirichlet import Beta, Dirichlet
from facula.distributions.exp_family import ExponentialFamily, normalizer_gradient
from facula.distributions.exponential import Exponential, Laplace
from facula.distributions.extreme_value import Gumbel, Pareto
from facula.distributions.gamma import Gamma
from facula.distributions.independent import Independent
from facula.distributions.kl import kl_divergence, register_kl
from facula.distributions.multivariate_normal import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    half_log_det,
    low_rank_length,
    solve_lower,
    squared_length,
)
from facula.distributions.normal import HalfNormal, Normal
from facula.distributions.poisson import Poisson
from facula.distributions.transformed_distribution import TransformedDistribution
from facula.distributions.uniform import ContinuousBernoulli, Uniform
from facula.distributions.utils import euler_constant, holds, sum_rightmost


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    return _of_trials(p, q)


def _of_trials(p: Any, q: Any) -> Any:
    """That of one trial: 0 where p is, infinite where q alone is 0."""
    terms = zip(p._both(), p._logs(), q._logs(), strict=True)
    own, rest = (weighted(chance, ours - theirs) for chance, ours, theirs in terms)
    return own + rest


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    if not holds(p.total_count >= q.total_count):
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented:"
            f" {p.total_count} and {q.total_count}"
        )
    value = weighted(p.total_count, _of_trials(p, q))
    return facula.where(p.total_count > q.total_count, math.inf, value)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return _of_trials(p, q) / p.probs  # the mean number of trials


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    return weighted(p.probs, p._log_probs() - q._log_probs()).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return weighted(p.rate, log_ratio(p.rate, q.rate)) - (p.rate - q.rate)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    own, other = p.concentration, q.concentration
    # by what Stirling's formula leaves: the gamma functions of large concentrations cancel
    whole, whole_other = own.sum(-1, True), other.sum(-1, True)
    log = log_ratio(other, own) + log_ratio(whole, whole_other)
    main = deviance(other, own / whole * whole_other, log) + divergence_rest(own, other)
    return main.sum(-1) - divergence_rest(whole, whole_other).squeeze(-1)


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    fits = (ratio > facula.finfo(ratio.dtype).tiny) & ratio.isfinite()
    mean = facula.where(fits, p.concentration * ratio, p.concentration / p.rate * q.rate)
    log = log_ratio(q.concentration, p.concentration) + log_ratio(p.rate, q.rate)
    own = divergence_rest(p.concentration, q.concentration)
    return deviance(q.concentration, mean, log) + own


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    return q.rate / p.rate - 1 - log_ratio(q.rate, p.rate)


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale) ** 2
    shift = ((p.loc - q.loc) / q.scale) ** 2
    return 0.5 * (ratio + shift - 1) - log_ratio(p.scale, q.scale)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Any:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    shift = (p.loc - q.loc).abs()
    log = log_ratio(p.scale, q.scale)
    tail = facula.where(ratio.isfinite(), ratio * (-shift / p.scale).exp(), 0.0)
    large = facula.where(ratio.isfinite(), -math.inf, log - shift / p.scale).exp()
    return shift / q.scale + tail + large - 1 - log


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    # Chyzak & Nielsen 2019: log(1 + u^2 + v^2), by logarithms where the squares are too large
    with facula.no_grad():
        mean = p.scale.sqrt() * q.scale.sqrt()
        size = ((p.scale - q.scale).abs() + (p.loc - q.loc).abs()) / mean
        far = size > 2 / math.sqrt(facula.finfo(size.dtype).eps)
    scale, shift = p.scale - q.scale, p.loc - q.loc
    root = 2 * p.scale.sqrt() * q.scale.sqrt()
    u, v = (facula.where(far, 0.0, x) / root for x in (scale, shift))
    length = facula.hypot(facula.where(far, scale, 1.0), facula.where(far, shift, 0.0))
    tail = 2 * length.log() - math.log(4) - p.scale.log() - q.scale.log()
    return facula.where(far, tail, (u * u + v * v).log1p())


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    shift = (p.loc - q.loc) / q.scale
    tail = (-shift + (1 + ratio).lgamma()).exp()
    log = log_ratio(p.scale, q.scale)
    value = -log + shift + ratio * euler_constant + tail - (1 + euler_constant)
    return facula.where(tail.isinf() | shift.isinf() | ratio.isinf(), math.inf, value)


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Any:
    value = (
        q.alpha * log_ratio(p.scale, q.scale)
        - log_ratio(q.alpha, p.alpha)
        + (q.alpha / p.alpha - 1)
    )
    return facula.where(p.scale < q.scale, math.inf, value)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    value = log_ratio(q.high - q.low, p.high - p.low)
    return facula.where((q.low > p.low) | (q.high < p.high), math.inf, value)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Any:
    own = p.mean * (p.logits - q.logits)
    norms = p._cont_bern_log_norm() - q._cont_bern_log_norm()
    return own + norms + (-p.probs).log1p() - (-q.probs).log1p()


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: Any, q: Any) -> Any:
    """The Bregman divergence of the log-normalizer, for two of one class (Nielsen & Nock 2010)."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed:"
            f" {type(p).__name__} and {type(q).__name__}"
        )
    own, log_norm, means = normalizer_gradient(p)
    other = q._natural_params
    result = q._log_normalizer(*other) - log_norm
    for theta_p, theta_q, mean in zip(own, other, means, strict=True):
        own_dims = theta_p.dim() - len(p.batch_shape)  # those of a parameter, not of an event
        result = result - sum_rightmost((theta_q - theta_p) * mean, own_dims)
    return result


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "both need the same reinterpreted_batch_ndims, they have"
            f" {p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}"
        )
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    """That of the bases, where the transforms are equal."""
    if p.transforms != q.transforms:
        raise NotImplementedError(f"the transforms differ: {p.transforms} and {q.transforms}")
    if p.event_shape != q.event_shape:
        raise NotImplementedError(
            f"the event shapes differ: {tuple(p.event_shape)} and {tuple(q.event_shape)}"
        )
    more = len(p.event_shape) - len(p.base_dist.event_shape)
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), max(more, 0))


def _check_events(p: Any, q: Any) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between normal vectors of different event shapes"
            f" {tuple(p.event_shape)} and {tuple(q.event_shape)} cannot be computed"
        )


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p: Any, q: Any) -> Any:
    _check_events(p, q)
    own, other = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    trace = (solve_lower(other, own) ** 2).sum((-2, -1))
    square = squared_length(other, q.loc - p.loc)
    n = p.event_shape[0]
    return half_log_det(other) - half_log_det(own) + 0.5 * (trace + square - n)


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _to_low_rank(p: Any, q: Any) -> Any:
    _check_events(p, q)
    own = p._unbroadcasted_scale_tril
    return _low_rank(p, q, half_log_det(own), [own])


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _both_low_rank(p: Any, q: Any) -> Any:
    _check_events(p, q)
    roots = [p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()]
    return _low_rank(p, q, p._log_det() / 2, roots)


def _low_rank(p: Any, q: Any, own_log_det: Any, roots: list[Any]) -> Any:
    """For q of low rank; `roots` are matrices A, of which the A A^T add up to p's covariance."""
    factor, diag, tril = (
        q._unbroadcasted_cov_factor,
        q._unbroadcasted_cov_diag,
        q._capacitance_tril,
    )
    square = low_rank_length(factor, diag, q.loc - p.loc, tril)
    scaled = factor.mT / diag.unsqueeze(-2)
    trace: Any = 0
    for root in roots:
        inner = solve_lower(tril, scaled @ root)
        trace = trace + (root**2 / diag.unsqueeze(-1)).sum((-2, -1)) - (inner**2).sum((-2, -1))
    return q._log_det() / 2 - own_log_det + 0.5 * (trace + square - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _from_low_rank(p: Any, q: Any) -> Any:
    _check_events(p, q)
    other = q._unbroadcasted_scale_tril
    trace = (solve_lower(other, p._unbroadcasted_cov_factor) ** 2).sum((-2, -1))
    roots = p._unbroadcasted_cov_diag.sqrt().diag_embed()
    trace = trace + (solve_lower(other, roots) ** 2).sum((-2, -1))
    square = squared_length(other, q.loc - p.loc)
    return half_log_det(other) - p._log_det() / 2 + 0.5 * (trace + square - p.event_shape[0])
