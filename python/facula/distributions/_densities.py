"""Log densities made of gamma functions, where these cancel: of large shapes and counts.

They are sums of deviances and of what Stirling's formula leaves (Loader 2000, "Fast and Accurate
Computation of Binomial Probabilities").
"""

from __future__ import annotations

import math
from typing import Any

import facula
from facula.distributions._stirling import deviance, stirling_rest

LARGE = 64  # from here on what is in this module has more digits than the sum of log gammas


def apart(large: Any, direct: Any, other: Any, *values: Any) -> Any:
    """`other` of the values where `large`, else `direct` of them; each sees none of the other's."""
    small = direct(*(facula.where(large, 1.0, v) for v in values))
    return facula.where(
        large, other(*(facula.where(large, v, float(LARGE)) for v in values)), small
    )


def gamma_log_density(shape: Any, x: Any, log_x: Any) -> Any:
    """log of x^shape exp(-x) / Gamma(shape); `log_x` is log x."""
    return _own(shape) - deviance(shape, x, shape.log() - log_x)


def beta_log_density(a: Any, b: Any, x: Any, rest: Any, log_x: Any, log_rest: Any) -> Any:
    """log of x^a rest^b / B(a, b) where x + rest = 1, whose logarithms are given."""
    total = a + b
    return _part(a, total, x, log_x) + _part(b, total, rest, log_rest) - _own(total)


def dirichlet_log_density(a: Any, x: Any, log_x: Any) -> Any:
    """log of Gamma(sum a) prod x^a / Gamma(a) along the last dim, where sum x = 1.

    An `a` of 0 stands for a category that does not count.
    """
    total = a.sum(-1, True)
    return _part(a, total, x, log_x).sum(-1) - _own(total.squeeze(-1))


def _own(shape: Any) -> Any:
    return 0.5 * (shape / (2 * math.pi)).log() - stirling_rest(shape)


def _part(a: Any, total: Any, x: Any, log_x: Any) -> Any:
    drawn = a > 0
    own = facula.where(drawn, a, 1.0)
    return facula.where(drawn, _own(own), 0.0) - deviance(a, total * x, (own / total).log() - log_x)


def sum_less_one(x: Any) -> Any:
    """sum x - 1 along the last dim, with the rounding errors of the sum (Knuth's two-sum)."""
    error: Any = 0.0
    x = facula.cat([x, -facula.ones_like(x[..., :1])], -1)
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        a, b, odd = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        s = a + b
        back = s - a
        error = error + ((a - (s - back)) + (b - back)).sum(-1)
        x = facula.cat([s, odd], -1)
    return x[..., 0] + error
