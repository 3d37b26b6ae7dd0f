"""What Stirling's formula leaves of gamma functions, and deviances.

Where log-gammas of large numbers would be subtracted, and little be left, these are added.
"""

from __future__ import annotations

import math
from typing import Any

import facula
from facula.distributions._tails import log_ratio, weighted


def stirling_rest(x: Any) -> Any:
    """log Gamma(x) less ((x - 1/2) log x - x + log(2 pi) / 2), of x > 0 (DLMF 5.11.1)."""
    large = x >= 16
    own = facula.where(large, 1.0, x)
    direct = own.lgamma() - (own - 0.5) * own.log() + own - 0.5 * math.log(2 * math.pi)
    u = 1 / facula.where(large, x, 16.0)
    w = u * u
    series = u * (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w * (1 / 1188)))))
    return facula.where(large, series, direct)


def digamma_rest(x: Any) -> Any:
    """log x - psi(x), of x > 0 (DLMF 5.11.2)."""
    large = x >= 16
    own = facula.where(large, 1.0, x)
    u = 1 / facula.where(large, x, 16.0)
    w = u * u
    series = w * (1 / 12 - w * (1 / 120 - w * (1 / 252 - w * (1 / 240 - w * (1 / 132)))))
    return facula.where(large, u / 2 + series, own.log() - own.digamma())


def entropy_rest(x: Any) -> Any:
    """What is left of log Gamma(x) + (1 - x) psi(x) less its large terms."""
    return stirling_rest(x) + (x - 1) * digamma_rest(x)


def divergence_rest(x: Any, y: Any) -> Any:
    """What is left of log Gamma(y) - log Gamma(x) + (x - y) psi(x) less its large terms."""
    return stirling_rest(y) - stirling_rest(x) + (y - x) * digamma_rest(x) - 0.5 * log_ratio(y, x)


def deviance(x: Any, mean: Any, log: Any = None) -> Any:
    """x log(x / mean) + mean - x, which is at least 0, by a series where x is near the mean.

    `log` is that of x / mean, where the mean itself may be too large or too small for a number.
    """
    with facula.no_grad():
        near = (x - mean).abs() < 0.1 * (x + mean)
    own, at = facula.where(near, x, 1.0), facula.where(near, mean, 1.0)
    v = (own - at) / (own + at)
    w = v * v
    tail: Any = 1 / 17
    for odd in (15, 13, 11, 9, 7, 5, 3):
        tail = 1 / odd + w * tail
    series = (own - at) * v + 2 * own * v * w * tail
    far = facula.where(near, 1.0, x)
    if log is None:
        log = log_ratio(far, facula.where(near, 1.0, mean))
    direct = weighted(far, log) + mean - x
    return facula.where(near, series, direct)
