"""What pointwise operators are in exact arithmetic: functions of mpmath numbers.

An operator of floats whose formula calls a function of the vocabulary has its value here;
`test_exact.py` holds it to the limits of the key `ulp`.
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
    "entr": lambda x: -x * mp.log(x) if x > 0 else mp.ninf if x else mp.mpf(0),
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


def without_rests(derivatives: list[Any]) -> list[Any]:
    """Without what differences leave of zeros."""
    least = max(map(abs, derivatives[-4:])) * mp.mpf("1e-40")
    return [d if abs(d) > least else mp.mpf(0) for d in derivatives]


def _bessel(n: int, k: int, x: Any) -> Any:
    """The derivative of order k of besseli(n, x), a sum of neighbouring orders."""
    return mp.fsum(mp.binomial(k, j) * mp.besseli(n - k + 2 * j, x) for j in range(k + 1)) / 2**k


def _leibniz(n: int, k: int, x: Any) -> Any:
    """The derivative of order k of besseli(n, x) exp(-x), for x > 0."""
    parts = (mp.binomial(k, j) * _bessel(n, j, x) * (-1) ** (k - j) for j in range(k + 1))
    return mp.fsum(parts) * mp.exp(-x)


def _even(n: int, x: Any) -> list[Any]:
    return [_leibniz(n, k, abs(x)) * (mp.sign(x) ** (k + n)) for k in range(5)]


def _erfinv(x: Any) -> list[Any]:
    y = mp.erfinv(x)
    p = mp.sqrt(mp.pi) / 2 * mp.exp(y * y)  # and p' = 2 y p^2
    return [
        y, p, 2 * y * p**2, (2 + 8 * y**2) * p**3, (28 * y + 48 * y**3) * p**4
    ]  # fmt: skip


def _after(value: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    def derivatives(x: Any) -> list[Any]:
        later = mp.taylor(slope, x, 3, chop=False)
        return [value(x), *without_rests([c * mp.factorial(k) for k, c in enumerate(later)])]

    return derivatives


def _bell(x: Any) -> Any:
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


# Of orders 0 to 4, by textbook formulas where numerical ones are slow or too coarse.
DERIVATIVES: dict[str, Callable[[Any], list[Any]]] = {
    "digamma": lambda x: [mp.psi(k, x) for k in range(5)],
    "lgamma": lambda x: [mp.re(mp.loggamma(x)), *(mp.psi(k, x) for k in range(4))],
    "i0": lambda x: [_bessel(0, k, x) for k in range(5)],
    "i1": lambda x: [_bessel(1, k, x) for k in range(5)],
    "i0e": lambda x: _even(0, x),
    "i1e": lambda x: _even(1, x),
    "erf": _after(mp.erf, lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x)),
    "erfc": _after(mp.erfc, lambda x: -2 / mp.sqrt(mp.pi) * mp.exp(-x * x)),
    "ndtr": _after(mp.ncdf, _bell),
    "gelu": lambda x: [
        x * mp.ncdf(x), mp.ncdf(x) + x * _bell(x), (2 - x * x) * _bell(x),
        (x**3 - 4 * x) * _bell(x), (7 * x * x - 4 - x**4) * _bell(x),
    ],
    "erfinv": _erfinv,
}  # fmt: skip


def _decay(x: Any) -> Any:
    return mp.exp(-abs(x))


# First derivatives by the textbook, of arguments of any size.
TEXTBOOK: dict[str, Callable[[Any], Any]] = {
    "acos": lambda x: -1 / mp.sqrt(1 - x * x),
    "acosh": lambda x: 1 / mp.sqrt(x * x - 1),
    "asin": lambda x: 1 / mp.sqrt(1 - x * x),
    "asinh": lambda x: 1 / mp.sqrt(1 + x * x),
    "atan": lambda x: 1 / (1 + x * x),
    "atanh": lambda x: 1 / (1 - x * x),
    "celu": lambda x: mp.mpf(1) if x > 0 else mp.exp(x),
    "cos": lambda x: -mp.sin(x),
    "cosh": mp.sinh,
    "digamma": lambda x: mp.psi(1, x),
    "elu": lambda x: mp.mpf(1) if x > 0 else mp.exp(x),
    "entr": lambda x: -mp.log(x) - 1,
    "erf": lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x),
    "erfc": lambda x: -2 / mp.sqrt(mp.pi) * mp.exp(-x * x),
    "erfinv": lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(mp.erfinv(x) ** 2),
    "exp": mp.exp,
    "exp2": lambda x: mp.ln2 * mp.exp(x * mp.ln2),
    "expm1": mp.exp,
    "gelu": lambda x: mp.ncdf(x) + x * _bell(x),
    "i0": lambda x: mp.besseli(1, x),
    "i0e": lambda x: _decay(x) * (mp.besseli(1, x) - mp.sign(x) * mp.besseli(0, x)),
    "i1": lambda x: (mp.besseli(0, x) + mp.besseli(2, x)) / 2,
    "i1e": lambda x: (
        _decay(x) * ((mp.besseli(0, x) + mp.besseli(2, x)) / 2 - mp.sign(x) * mp.besseli(1, x))
    ),
    "lgamma": lambda x: mp.psi(0, x),
    "log": lambda x: 1 / x,
    "log10": lambda x: 1 / (x * mp.ln10),
    "log1p": lambda x: 1 / (1 + x),
    "log1pexp": lambda x: 1 / (1 + mp.exp(-x)),
    "log2": lambda x: 1 / (x * mp.ln2),
    "logit": lambda x: 1 / (x * (1 - x)),
    "logsigmoid": lambda x: 1 / (1 + mp.exp(x)),
    "mish": lambda x: (
        mp.tanh(mp.log1p(mp.exp(x))) + x * mp.sech(mp.log1p(mp.exp(x))) ** 2 / (1 + mp.exp(-x))
    ),
    "ndtr": _bell,
    "reciprocal": lambda x: -1 / (x * x),
    "rsqrt": lambda x: -1 / (2 * x * mp.sqrt(x)),
    "selu": lambda x: (
        mp.mpf(1.0507009873554805) if x > 0 else mp.mpf(1.7580993408473766) * mp.exp(x)
    ),
    "sigmoid": lambda x: _decay(x) / (1 + _decay(x)) ** 2,
    "silu": lambda x: (1 + x * mp.exp(-x) / (1 + mp.exp(-x))) / (1 + mp.exp(-x)),
    "sin": mp.cos,
    "sinc": lambda x: (mp.cospi(x) - mp.sinpi(x) / (mp.pi * x)) / x,
    "sinh": mp.cosh,
    "softsign": lambda x: 1 / (1 + abs(x)) ** 2,
    "sqrt": lambda x: 1 / (2 * mp.sqrt(x)),
    "tan": lambda x: mp.sec(x) ** 2,
    "tanh": lambda x: mp.sech(x) ** 2,
    "tanhshrink": lambda x: mp.tanh(x) ** 2,
}
# Numbers so small or large that sums lose them need as many digits, these functions apart.
FEW_DIGITS = frozenset("digamma lgamma erf erfc erfinv ndtr gelu i0 i0e i1 i1e".split())
# Products with the argument, whose other factor is a subnormal number first.
PRODUCTS = frozenset(("gelu", "mish", "silu"))
# Where a sum of terms of other signs passes zero, errors are counted in places of the terms.
TERMS: dict[str, Callable[..., Any]] = {
    "digamma": lambda x: x * mp.psi(1, x) if x < -20 else 0,
    "logaddexp": lambda x, y: max(abs(x), abs(y)),
    "logaddexp2": lambda x, y: max(abs(x), abs(y), 1),
}
# Without a function that is more than a few sums and products, or held by a test of its own.
PLAIN = frozenset(
    """
    _at_least _at_most _same abs angle clamp clamp_max clamp_min conj_physical copysign finite_or
    fmax fmin fmod floor_divide trunc_divide remainder frac hardshrink hardsigmoid hardswish
    hardtanh huber_elements isfinite isinf isnan isneginf isposinf leaky_relu lerp maximum minimum
    mul0 nextafter next_half next_number prelu_elements relu relu6 round round.decimals ceil floor
    trunc sgn sign signbit smooth_l1_elements softplus bessel_i bessel_ie erfinv_slope gauss
    one_minus_square atan2_slope ndtri_slope sec sech sigmoid_slope sinc_slope sqrt_one_minus_square
    atan_slope asinh_slope acosh_slope hypot_slope polygamma bce_logits_elements
    bce_logits_weighted_elements binary_cross_entropy_elements kl_div_elements kl_div_log_elements
    gaussian_nll_elements gammainc gammaincc gamma_density gamma_log_slope _standard_gamma_grad
    _scaled_down modified_bessel_i0 modified_bessel_i1 spherical_bessel_j0 log_ndtr power_term
    """.split()
)
