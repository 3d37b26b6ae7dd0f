"""What pointwise operators are in exact arithmetic: expressions in mpmath over the names of their arguments.

An operator of floats whose formula calls a function of the vocabulary has its value here; `test_exact.py` holds it to
the limits of the key `ulp`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp

# One argument; holomorphic ones serve complex numbers too.
UNARY: dict[str, Callable[[Any], Any]] = {
    "acos": mp.acos,
    "acosh": mp.acosh,
    "asin": mp.asin,
    "asinh": mp.asinh,
    "atan": mp.atan,
    "atanh": mp.atanh,
    "celu": lambda x: x if x > 0 else mp.expm1(x),
    "cos": mp.cos,
    "cosh": mp.cosh,
    "digamma": lambda x: mp.psi(0, x),
    "elu": lambda x: x if x > 0 else mp.expm1(x),
    "entr": lambda x: -x * mp.log(x),
    "erf": mp.erf,
    "erfc": mp.erfc,
    "erfinv": mp.erfinv,
    "exp": mp.exp,
    "exp2": lambda x: mp.exp(x * mp.ln2),
    "expm1": mp.expm1,
    "gelu": lambda x: x * mp.ncdf(x),
    "i0": lambda x: mp.besseli(0, x),
    "i0e": lambda x: mp.besseli(0, x) * mp.exp(-abs(x)),
    "i1": lambda x: mp.besseli(1, x),
    "i1e": lambda x: mp.besseli(1, x) * mp.exp(-abs(x)),
    "lgamma": lambda x: mp.re(mp.loggamma(x)),
    "log": mp.log,
    "log10": lambda x: mp.log(x) / mp.ln10,
    "log1p": mp.log1p,
    "log1pexp": lambda x: mp.log1p(mp.exp(x)),
    "log2": lambda x: mp.log(x) / mp.ln2,
    "logit": lambda x: mp.log(x / (1 - x)),
    "logsigmoid": lambda x: -mp.log1p(mp.exp(-x)),
    "mish": lambda x: x * mp.tanh(mp.log1p(mp.exp(x))),
    "ndtr": mp.ncdf,
    "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "selu": lambda x: (
        mp.mpf(1.0507009873554805) * x if x > 0 else mp.mpf(1.7580993408473766) * mp.expm1(x)
    ),
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "silu": lambda x: x / (1 + mp.exp(-x)),
    "sin": mp.sin,
    "sinc": lambda x: mp.sinpi(x) / (mp.pi * x) if x != 0 else mp.mpf(1),
    "sinh": mp.sinh,
    "softsign": lambda x: x / (1 + abs(x)),
    "sqrt": mp.sqrt,
    "tan": mp.tan,
    "tanh": mp.tanh,
    "tanhshrink": lambda x: x - mp.tanh(x),
}
HOLOMORPHIC = (
    "acos acosh asin asinh atan atanh cos cosh exp exp2 expm1 log log10 log1p log2 reciprocal rsqrt"
    " sigmoid silu sin sinc sinh sqrt tan tanh"
).split()
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "atan2": lambda y, x: mp.atan2(y, x),
    "hypot": lambda x, y: mp.sqrt(x * x + y * y),
    "ldexp": lambda x, y: x * mp.mpf(2) ** y,
    "logaddexp": lambda x, y: mp.log(mp.exp(x) + mp.exp(y)),
    "logaddexp2": lambda x, y: mp.log(mp.mpf(2) ** x + mp.mpf(2) ** y) / mp.ln2,
    "pow.tensor": lambda x, y: mp.power(x, y),
    "xlog1py": lambda x, y: x * mp.log1p(y) if x else mp.mpf(0),
    "xlogy": lambda x, y: x * mp.log(y) if x else mp.mpf(0),
}
# Where a sum of terms of other signs passes zero, the error is counted in places of the terms.
TERMS: dict[str, Callable[..., Any]] = {
    "digamma": lambda x: x * mp.psi(1, x) if x < 0 else 0,
    "logaddexp": lambda x, y: max(abs(x), abs(y)),
    "logaddexp2": lambda x, y: max(abs(x), abs(y), 1),
}
# Without a function that is more than a few sums and products, or whose value a test of its own holds.
PLAIN = frozenset(
    """
    _at_least _at_most _same abs angle clamp clamp_max clamp_min conj_physical copysign finite_or
    fmax fmin fmod floor_divide trunc_divide remainder frac hardshrink hardsigmoid hardswish hardtanh
    huber_elements isfinite isinf isnan isneginf isposinf leaky_relu lerp maximum minimum mul0 nextafter
    next_half next_number prelu_elements relu relu6 round round.decimals ceil floor trunc sgn sign signbit
    smooth_l1_elements softplus bessel_i bessel_ie erfinv_slope gauss one_minus_square one_plus_square sech
    sigmoid_slope sinc_slope sqrt_one_minus_square sqrt_one_plus_square polygamma
    bce_logits_elements bce_logits_weighted_elements binary_cross_entropy_elements kl_div_elements
    kl_div_log_elements
    """.split()
)
