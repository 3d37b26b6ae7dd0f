"""Logarithms and quantiles that keep their digits in tails, next to 0 and where squares overflow.

The arguments of a branch that is not taken are replaced before, so that gradients stay finite.
"""

from __future__ import annotations

import math
from typing import Any

import facula


def log_ratio(a: Any, b: Any) -> Any:
    """log(a / b) of numbers that are not negative, also where a / b is no normal number."""
    with facula.no_grad():
        ratio = a / b
        info = facula.finfo(ratio.dtype)
        fits = (ratio >= info.tiny) & (ratio <= info.max)
    near = facula.where(fits, a, 1.0) / facula.where(fits, b, 1.0)
    far = facula.where(fits, 1.0, a).log() - facula.where(fits, 1.0, b).log()
    return facula.where(fits, near.log(), far)


def log1p_square(distance: Any, scale: Any) -> Any:
    """log(1 + (distance / scale)^2)."""
    with facula.no_grad():
        z = distance / scale
        # from here on the 1 is lost to rounding
        far = z.abs() > 2 / math.sqrt(facula.finfo(z.dtype).eps)
    near = facula.where(far, 0.0, distance) / scale
    tail = 2 * (facula.where(far, distance, 1.0).abs().log() - scale.log())
    return facula.where(far, tail, (near * near).log1p())


def log1mexp(t: Any) -> Any:
    """log(1 - exp(t)) of t < 0 (Maechler 2012, "Accurately computing log(1 - exp(-|a|))")."""
    near = t > -math.log(2)
    above, below = facula.where(near, t, -1.0), facula.where(near, -1.0, t)
    return facula.where(near, (-above.expm1()).log(), (-below.exp()).log1p())


def log1p_exp(x: Any) -> Any:
    """log(1 + exp(x)); unlike softplus, which is x from 20 on, to the last digit."""
    return -facula.nn.functional.logsigmoid(-x)


def log_of(p: Any) -> Any:
    """log(p) of probabilities; at 0 it is -inf with the gradient 0."""
    none = p == 0
    return facula.where(none, -math.inf, facula.where(none, 1.0, p).log())


def log_rest(p: Any) -> Any:
    """log(1 - p) of probabilities; at 1 it is -inf with the gradient 0."""
    whole = p == 1
    return facula.where(whole, -math.inf, (-facula.where(whole, 0.0, p)).log1p())


def weighted(weight: Any, log: Any) -> Any:
    """weight * log, 0 where the weight is."""
    return weight * facula.where(weight == 0, 0.0, log)


def log_gamma_half_step(x: Any) -> tuple[Any, Any]:
    """log(Gamma(x + 1/2) / Gamma(x)) - log(x) / 2, and psi(x + 1/2) - psi(x), of x > 0.

    From x = 64 on by their asymptotic series (Tricomi & Erdelyi 1951): there the terms cancel.
    """
    large = x >= 64
    own = facula.where(large, 1.0, x)
    direct = (own + 0.5).lgamma() - own.lgamma() - 0.5 * own.log()
    direct_slope = (own + 0.5).digamma() - own.digamma()
    u = 1 / facula.where(large, x, 64.0)
    w = u * u
    series = -u * (1 / 8 - w * (1 / 192 - w * (1 / 640 - w * (17 / 14336))))
    slope = u * (0.5 + u * (1 / 8 - w * (1 / 64 - w * (1 / 128 - w * (17 / 2048)))))
    return facula.where(large, series, direct), facula.where(large, slope, direct_slope)
