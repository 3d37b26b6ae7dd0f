"""Counts of many trials: their draws and entropy, at a cost that the number of trials hardly moves.

Loader 2000, "Fast and Accurate Computation of Binomial Probabilities": a probability is a product
of deviances, which are small, and of what Stirling's formula leaves, where factorials would cancel.
"""

from __future__ import annotations

import math
from typing import Any

import facula
from facula.distributions._draws import binomial
from facula.distributions._stirling import deviance, stirling_rest
from facula.distributions._tails import log_of, log_rest, weighted

_MANY = 1024  # trials from which on counts are drawn by themselves
_STEPS = 400  # counts on each side of the mean that entropies sum over


def log_binomial(k: Any, n: Any, p: Any) -> Any:
    """log of the probability of k among n trials of probability p, 0 <= k <= n."""
    inner = (k > 0) & (k < n)
    at, rest = facula.where(inner, k, 1.0), facula.where(inner, n - k, 1.0)
    most = at + rest
    log = stirling_rest(most) - stirling_rest(at) - stirling_rest(rest)
    log = log - deviance(at, n * p) - deviance(rest, n * (1 - p))
    log = log - 0.5 * (math.log(2 * math.pi) + at.log() + (rest / most).log())
    end = weighted(k, log_of(p)) + weighted(n - k, log_rest(p))
    return facula.where(inner, log, end)


def draw_counts(total: int, probs: Any, each: Any) -> Any:
    """Counts of `total` draws of the categories along the last dimension of `probs`.

    Of many draws by binomial numbers of how many fall into one half of a range of categories; of
    few by `each(total)`, which draws categories along a first dimension.
    """
    if total <= _MANY:
        index = each(total).movedim(0, -1)
        ones = facula.ones(index.shape, dtype=probs.dtype, device=probs.device)
        counts = facula.zeros(probs.shape, dtype=probs.dtype, device=probs.device)
        return counts.scatter_add(-1, index, ones)
    size = probs.shape[-1]
    levels = max(size - 1, 0).bit_length()
    padding = probs.new_zeros((*tuple(probs.shape[:-1]), (1 << levels) - size))
    sums = [facula.cat([probs, padding], -1).double()]
    for _ in range(levels):
        sums.append(sums[-1].unflatten(-1, (-1, 2)).sum(-1))
    counts = facula.full_like(sums.pop(), float(total))
    while sums:
        left, right = sums.pop().unflatten(-1, (-1, 2)).unbind(-1)
        both = left + right
        share = facula.where(both > 0, left / both, 0.0).clamp(max=1.0)
        first = binomial(counts, share)
        counts = facula.stack([first, counts - first], -1).flatten(-2)
    return counts[..., :size].to(probs.dtype)


def counts_entropy(n: int, probs: Any) -> Any:
    """Entropy of the counts of n draws of the categories along the last dimension of `probs`.

    With Stirling's formula for the factorials what is left to sum are means of deviances and of
    log(x) / 2, over the counts that occur: those within 12 standard deviations, and some. Of wide
    distributions every so many counts are enough, eight to a standard deviation: sums of smooth
    bells do not depend on the step.
    """
    if n == 0:
        return 0 * probs.sum(-1)
    p = probs.double()
    mean = n * p
    middle, spread = mean.detach(), (mean * (1 - p)).detach().clamp(min=0).sqrt()
    stride = facula.clamp((spread / 8).floor(), min=1)
    steps = facula.arange(0, min(n, 2 * _STEPS + 1), dtype=p.dtype, device=p.device)
    first, last = (middle - stride * _STEPS).floor(), facula.clamp(n - 2 * stride * _STEPS, min=1)
    start = facula.minimum(first.clamp(min=1), last)
    x = start + stride * steps.reshape((-1,) + (1,) * p.dim())
    weight = log_binomial(x, facula.full_like(x, float(n)), p).exp()
    weight = facula.where(x > n, 0.0, weight)
    weight = weight * stride
    terms = deviance(x, mean) + 0.5 * (2 * math.pi * x).log() + stirling_rest(x)
    none = (n * log_rest(p)).exp() * mean  # the deviance of a count of 0
    total = (weighted(weight, terms).sum(0) + none).sum(-1)
    whole = 0.5 * math.log(2 * math.pi * n) + float(
        stirling_rest(facula.tensor(float(n), dtype=p.dtype))
    )
    return (total - whole).to(probs.dtype)
