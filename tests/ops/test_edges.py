"""Pointwise formulas at the edges of their dtypes, against their references in wider precision.

Zeros of both signs, infinities, NaN, subnormal numbers, the smallest normal and the largest one,
numbers beside one, halves and ties, numbers beyond the ends of domains, the extremes of integers.
A zero must have the right sign, and what leaves the range must do so where it should.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import facula as fa
import numpy as np
import pytest
from exact_values import UNARY
from facula.testing._samples import OpRecord, Sample, operators
from harness import COMPLEX, FLOATS, FORMATS, INTS, call, off, reference, to_numpy

FORMULAS = [
    op
    for op in operators()
    if op.scalar and op.reference and not op.derived_from and "within(" not in str(op.scalar)
]
Array = np.ndarray


def _fmod_remainder(self: Array, other: Array) -> Array:
    """A whole multiple leaves a zero with the sign of `other`, as in Python and NumPy."""
    rest = np.fmod(self, other)
    moved = np.where((rest < 0) != (other < 0), rest + other, rest)
    return np.where(rest == 0, np.copysign(rest, other), moved)


def _sign(self: Array) -> Array:
    return np.where(np.isnan(self), 0, np.sign(self))


def _hypot_slope(self: Array, other: Array) -> Array:
    slope = np.where((self == 0) & (other == 0), 0, self / np.hypot(self, other))
    return np.where(np.isinf(self) & np.isfinite(other), np.sign(self), slope)


def _atan2_slope(self: Array, other: Array) -> Array:
    slope = np.where((self == 0) & (other == 0), 0, other / (self * self + other * other))
    far = (np.isinf(self) | np.isinf(other)) & ~(np.isnan(self) | np.isnan(other))
    return np.where(far, 0, slope)


def _power_term(factor: Array, self: Array, exponent: Array) -> Array:
    power = self**exponent
    none = (factor == 0) | ((power == 0) & np.isinf(factor))
    return np.where(none, 0, factor * power)


def _sinc(self: Array, n: int = 0) -> Array:
    value = np.sinc(self) if n == 0 else (np.cos(np.pi * self) - np.sinc(self)) / self
    return np.where(np.isinf(self), 0, value)


def _gated(gate: Callable[[Array], Array]) -> Callable[..., Array]:
    """A product with a gate that is 0 at -inf, which counts."""
    return lambda self, **_: np.where(self == -np.inf, -0.0, self * gate(self))


def _gelu(self: Array, approximate: str) -> Array:
    inner = self / np.sqrt(2) if approximate == "none" else (self + 0.044715 * self**3)
    half = _special("erf", inner) if approximate == "none" else np.tanh(np.sqrt(2 / np.pi) * inner)
    return np.where(self == -np.inf, -0.0, 0.5 * self * (1 + half)).astype(np.float64)


def _round_units(self: Array, unit: int) -> Array:
    """Ties to even; what leaves the dtype wraps."""
    exact = [
        round(int(v) / unit) if abs(int(v)) < 1 << 50 else _nearest(int(v), unit) for v in self
    ]
    size = np.iinfo(self.dtype).bits
    return np.array([v * unit % (1 << size) for v in exact], np.uint64).astype(self.dtype)


def _nearest(v: int, unit: int) -> int:
    low, rest = divmod(v, unit)
    return low + (2 * rest > unit or (2 * rest == unit and low % 2 == 1))


# What is right where the NumPy expression of the schema is not: at infinities that meet, at NaN
# where the operator has another rule, and where the expression itself loses all digits.
RIGHT: dict[str, Callable[..., Any]] = {
    "mul0": lambda self, other: np.where(self == 0, 0, self * other),
    "remainder": _fmod_remainder,
    "sign": _sign,
    "sgn": _sign,
    "lerp": lambda self, end, weight: np.where(
        weight == 0, self, np.where(weight == 1, end, self + weight * (end - self))
    ),
    "heaviside": lambda self, values: np.where(np.isnan(self), 0, np.heaviside(self, values)),
    "angle": lambda self: np.where(np.isnan(self), self, np.where(self < 0, np.pi, 0)),
    "hypot_slope": _hypot_slope,
    "power_term": _power_term,
    "atan2_slope": _atan2_slope,
    "sinc": _sinc,
    "sinc_slope": _sinc,
    "gelu": _gelu,
    "silu": _gated(lambda self: 1 / (1 + np.exp(-self))),
    "mish": _gated(lambda self: np.tanh(np.log1p(np.exp(self)))),
    "hardswish": _gated(lambda self: np.clip(self + 3, 0, 6) / 6),
    "softsign": lambda self: np.where(np.isinf(self), np.sign(self), self / (1 + np.abs(self))),
    "round_units": _round_units,
    "i0": lambda self: np.where(np.isinf(self), np.inf, _special("i0", self)),
    "i1": lambda self: np.where(np.isinf(self) | (self == 0), self, _special("i1", self)),
    "modified_bessel_i0": lambda self: np.where(np.isinf(self), np.inf, _special("i0", self)),
    "modified_bessel_i1": lambda self: np.where(
        np.isinf(self) | (self == 0), self, _special("i1", self)
    ),
    "i1e": lambda self: np.where(self == 0, self, _special("i1e", self)),
    "erfinv": lambda self: np.where(self == 0, self, _special("erfinv", self)),
    "lgamma": lambda self: np.where(np.isinf(self), np.inf, _special("gammaln", self)),
    "relu": lambda self: np.where(self <= 0, 0, self),
    "relu6": lambda self: np.where(self <= 0, 0, np.minimum(self, 6)),
    "log1pexp": lambda self: np.where(self > 99, self, np.log1p(np.exp(self))),
    "logsigmoid": lambda self: np.where(self < -99, self, -np.log1p(np.exp(-self))),
}


def _small_or_vast(self: Array, other: Array) -> Array:
    near_one = (self < 1) & (np.abs(other - 1) < 1e-9)  # where SciPy's has 13 digits
    return ((np.abs(self) < 1e-30) & (self != 0)) | (np.maximum(self, other) > 1e30) | near_one


# Where no expression at hand is right: as many places of these arguments are for other tests.
BESIDE: dict[str, Callable[..., Any]] = {
    "sinc": lambda self: np.abs(self - np.rint(self)) < 1e-3,
    "sinc_slope": lambda self, **_: np.abs(self - np.rint(self)) < 1e-3,
    "bessel_i": lambda self, **_: (np.abs(self) > 1e3) | (np.abs(self) < 1e-30),
    "bessel_ie": lambda self, **_: np.abs(self) > 1e30,
    "polygamma": lambda self, **_: self == -np.inf,
    "gelu": lambda self, **_: (self < -5) & np.isfinite(self),
    "tanhshrink": lambda self: np.abs(self) < 1e-3,
    "softshrink": lambda self, **_: self == 0,
    "ldexp": lambda self, other: (self == 0) | (np.abs(other) > 1e4),
    "_scaled_quotient": lambda x, n, **_: (np.abs(n) < 1) | (np.abs(x) > 1e30),
    "_norm_unit": lambda x, n, **_: (np.abs(n) < 1) | (np.abs(x) > 1e30),
    "digamma": lambda self: np.abs(self + 1) < 1e-9,
    # test_special_functions.py has them all over their domain.
    **dict.fromkeys(("bessel_j0", "bessel_y0", "bessel_y1"), lambda self: np.abs(self) > 1e15),
    "bessel_j1": lambda self: (np.abs(self) > 1e15) | (np.abs(self) < 1e-30),
    "_scaled_down": lambda self, places: ~((np.abs(places) < 1e4) & (places == np.rint(places))),
    "airy_ai": lambda self: np.abs(self) > 1e3,
    "log_ndtr": lambda self: self > 5,
    "zeta": lambda self, other: np.isnan(self) | (np.maximum(self, np.abs(other)) > 1e30),
    # SciPy's are 0 or 1 for concentrations next to 0; test_sampler_properties.py has small ones.
    **dict.fromkeys(("gammainc", "gammaincc"), lambda self, other: _small_or_vast(self, other)),
    **dict.fromkeys(
        ("gamma_log_slope", "_standard_gamma_grad", "gamma_density"),
        lambda self, other: np.ones_like(self, bool),
    ),
    **dict.fromkeys(
        [f"{kind}modified_bessel_k{n}" for kind in ("", "scaled_") for n in (0, 1)],
        lambda self: (self > 0) & (self < 1e-307),
    ),
    "ndtri_slope": lambda self: (self < 1e-30) | (self > 1 - 1e-9),
    "erfinv_slope": lambda self: np.abs(self) > 1 - 1e-9,
    "lgamma": lambda self: (np.abs(self) < 1e-300) | (np.abs(self - 1) < 1e-9),
}
# The same of integers that float64 does not hold, and of complex numbers on cuts and beside zeros.
BESIDE_INTEGERS: dict[str, Callable[..., Any]] = {
    "heaviside": lambda self, values: np.abs(values // 2) > 1 << 51,
    "trunc_divide": lambda self, other: np.abs(self // 2) > 1 << 51,
}
BESIDE_COMPLEX: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("sinc", "sinc_slope"), lambda self, **_: np.abs(self - np.rint(self)) < 1e-3),
    **dict.fromkeys(
        "sqrt_one_minus_square atan_slope asinh_slope acosh_slope".split(),
        lambda self: (self.real == 0) | (self.imag == 0),
    ),
    "log1p": lambda self: np.abs(self) < 1e-30,
    "logaddexp": lambda self, other: np.maximum(np.abs(self.imag), np.abs(other.imag)) > 1,
    "pow.tensor": lambda self, exponent: np.abs(self) < 1e-30,
    "power_term": lambda factor, self, exponent: np.abs(self) < 1e-30,
    "lerp": lambda self, end, weight: np.abs(end) < 1e-30,
}
# Either zero, where both are among the arguments.
EITHER = "lerp maximum minimum fmax fmin _at_least _at_most clamp".split()
# Sums: places of the largest term count.
TERMS = "addcmul addcdiv logaddexp logaddexp2 lerp".split()
# SciPy's lose digits where these do not; test_special_functions.py has them.
POLYNOMIALS = [
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    *(f"{kind}chebyshev_polynomial_{k}" for kind in ("", "shifted_") for k in "tuvw"),
]
# Of one dtype's neighbours, which wider ones have not.
OTHERS = ["next_number", "next_half", *POLYNOMIALS]


def _special(name: str, x: Array) -> Array:
    import scipy.special

    return np.asarray(getattr(scipy.special, name)(x.astype(np.float64)))


def line(dtype: str) -> Array:
    """The edges of a dtype."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype in INTS:
        ends = np.iinfo(dtype)
        some = (0, 1, 2, 3, 5, 7, 8, 31, 64, 100, 127, -1, -2, -3, -7)
        all_ = (*some, ends.max, ends.max - 1, ends.min, ends.min + 1)
        return np.array(sorted({v for v in all_ if ends.min <= v <= ends.max}), dtype)
    digits, least = FORMATS[dtype]
    if dtype in COMPLEX:
        parts = np.array([0.0, -0.0, 2.0**least, 0.5, -0.5, 1.0, -1.0, 3.0, -2.5])
        return (parts[:, None] + 1j * parts[None, :]).ravel().astype(dtype)
    unit, largest = 2.0**-digits, 2.0 ** (15 if dtype == "float16" else -least + 1)
    some = [0.0, 2.0 ** (least - digits), 2.0**least, 0.25, 0.5, 1 - unit / 2, 1.0, 1 + unit, 1.5]
    some += [2.0, 2.5, 3.0, 3.5, 6.0, 10.0, 24.0, (2 - unit) * largest, np.inf]
    return np.array([*some, *(-v for v in some), np.nan])


def tensor(values: Array, dtype: str) -> fa.Tensor:
    return fa.tensor(values).to(getattr(fa, dtype))


def arguments(op: OpRecord, dtype: str) -> tuple[dict[str, Array], dict[str, Any]]:
    """Tensor arguments with every combination of edges, and the others' values of a sample."""
    names = [a["name"] for a in op.data["arguments"] if a["type"] == "Tensor"]
    edges = line(dtype)
    if len(names) > 2:
        edges = edges[:: 3 if len(names) == 3 else 6]
    grid = [g.ravel() for g in np.meshgrid(*[edges] * len(names), indexing="ij")]
    given = {n: g > 0 if n in (op.masks or []) else g for n, g in zip(names, grid, strict=True)}
    others: dict[str, Any] = {}
    for sample in op.samples():
        others = {k: v for k, v in op.bound(sample).items() if k not in names}
        if not any(isinstance(v, np.ndarray) for v in others.values()):
            break
    return given, others


def computed(op: OpRecord, given: dict[str, Array], others: dict[str, Any], dtype: str) -> Any:
    tensors = {n: fa.tensor(g) if g.dtype == bool else tensor(g, dtype) for n, g in given.items()}
    return to_numpy(call(op, [], {**tensors, **others}))


def wide(op: OpRecord, given: dict[str, Array], others: dict[str, Any], dtype: str) -> Any:
    """The reference, in longdouble where it can be."""
    kinds: Iterator[Any] = iter((np.float64,))
    if dtype in FLOATS:
        kinds = iter((np.longdouble, np.float64) if dtype == "float64" else (np.float64,))
    elif dtype in COMPLEX:
        kinds = iter((np.clongdouble, np.complex128))
    else:
        return _evaluated(op, given, others)
    for kind in kinds:
        cast = {n: g if g.dtype == bool else g.astype(kind) for n, g in given.items()}
        try:
            return _evaluated(op, cast, others)
        except TypeError:  # a function of SciPy
            continue
    raise AssertionError(f"{op.name}: the reference takes no {dtype}")


def _evaluated(op: OpRecord, given: dict[str, Array], others: dict[str, Any]) -> Any:
    right = RIGHT.get(op.name)
    kinds = {g.dtype.kind for g in given.values()}
    if right is not None and kinds <= set("iu" if op.name == "round_units" else "f"):
        with np.errstate(all="ignore"):
            return right(**given, **others)
    names = [a["name"] for a in op.data["arguments"]]
    return reference(op, Sample([], {**given, **{k: v for k, v in others.items() if k in names}}))


def check(op: OpRecord, dtype: str) -> None:
    given, others = arguments(op, dtype)
    integers = dtype in (*INTS, "bool")
    if integers and dtype != "bool" and any(sign in str(op.scalar) for sign in ("**", "pow(")):
        given = {n: np.where(g < 0, 0, g) for n, g in given.items()}
    try:
        got = computed(op, given, others, dtype)
    except ZeroDivisionError:  # what divides raises; test_integer_division.py says where
        good = list(given.values())[-1] != 0
        given = {n: g[good] for n, g in given.items()}
        got = computed(op, given, others, dtype)
    except OverflowError:
        assert dtype == "uint8"  # a number of the sample is negative
        return
    want = wide(op, given, others, dtype)
    table = BESIDE_COMPLEX if dtype in COMPLEX else BESIDE_INTEGERS if integers else BESIDE
    beside = table.get(op.name)
    with np.errstate(all="ignore"):
        left = beside(**given, **others) if beside is not None else False
    sizes = [np.where(np.isfinite(g), np.abs(g), 0) for g in given.values() if g.dtype.kind in "fc"]
    terms = np.max(sizes, axis=0) if op.name in TERMS and sizes else 0.0
    pairs = zip(got, want, strict=True) if isinstance(got, list) else [(got, want)]
    for g, w in pairs:
        w = np.broadcast_to(np.asarray(w), g.shape)
        wrong = disagree(op, g, w, dtype, terms) & ~np.asarray(left)
        if wrong.any():
            at = int(np.argmax(wrong))
            shown = ", ".join(f"{n}={v[at]!r}" for n, v in given.items())
            raise AssertionError(f"{op.name}({shown}) in {dtype} is {g[at]!r}, not {w[at]!r}")


def disagree(op: OpRecord, got: Array, want: Array, dtype: str, terms: Any) -> Array:
    if got.dtype.kind not in "fc":
        with np.errstate(all="ignore"):
            return np.asarray(got != want.astype(got.dtype))
    stored = dtype if dtype in FLOATS[2:] and got.dtype == np.float32 else str(got.dtype)
    most = (op.ulp or {}).get(stored, 4 if FORMATS[stored][0] < 52 else 8)
    precise = want.dtype.itemsize > got.dtype.itemsize
    if not precise and op.name in UNARY:
        most = 1 << 20  # the reference is rough; test_exact.py counts places
    with np.errstate(all="ignore"):
        if got.dtype.kind == "f":
            want = want.real
            beyond = np.asarray(np.isinf(got) & (np.abs(want) >= _most(stored)) & (got * want > 0))
        else:
            beyond = np.isnan(want) | np.isinf(want) | (np.abs(want) > 1e30)
        wrong = np.asarray(off(got.astype(want.dtype), want, stored, terms) > most) & ~beyond
        if got.dtype.kind == "f" and op.name not in EITHER:
            wrong |= (got == 0) & (want == 0) & (np.signbit(got) != np.signbit(want))
    return wrong


def _most(stored: str) -> Any:
    """Where numbers begin to round to infinity."""
    digits, least = FORMATS[stored]
    top = np.longdouble(2) ** (16 if stored == "float16" else 2 - least)
    return top * (1 - np.longdouble(2) ** -(digits + 2)) * (1 - np.longdouble(2) ** -digits)


@pytest.mark.parametrize(
    "op", [op for op in FORMULAS if op.name not in OTHERS], ids=lambda o: o.name
)
def test_edges(op: OpRecord) -> None:
    classes = {"bool": ("bool",), "int": INTS, "float": FLOATS, "complex": COMPLEX}
    for group in op.dtypes or ["float"]:
        for dtype in classes[group]:
            check(op, dtype)
