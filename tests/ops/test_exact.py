"""Pointwise operators and their derivatives against mpmath, to the ends of their domains.

The limits are those of the key `ulp`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import facula as fa
import mpmath as mp
import numpy as np
import pytest
from exact_values import (
    BINARY,
    DERIVATIVES,
    FEW_DIGITS,
    HOLOMORPHIC,
    PLAIN,
    PRODUCTS,
    TERMS,
    TEXTBOOK,
    UNARY,
    without_rests,
)
from facula.testing._samples import operators
from harness import run_python

OPERATORS = {op.name: op for op in operators()}
VALUES: dict[str, Callable[..., Any]] = {**UNARY, **BINARY}
# Subnormals, the smallest normal numbers, where functions have zeros, poles, branch points and
# changes of method, and where their results leave the range.
MAGNITUDES = [
    *(
        5e-324,
        1e-310,
        2.3e-308,
        1e-160,
        1e-45,
        1.2e-38,
        1e-20,
        1e-9,
        1e-5,
        7e-4,
        0.01,
        0.11,
        0.25,
        0.3,
        0.45,
        0.5,
    ),
    *(
        0.51,
        0.65,
        0.8,
        0.97,
        1 - 1e-5,
        1 - 1e-9,
        1 - 1e-13,
        1 - 2**-53,
        1.0,
        1 + 2**-52,
        1 + 1e-9,
        1 + 1e-4,
        1.2,
    ),
    *(
        1.46163214,
        1.4616321449683623,
        1.57079632679,
        2.0,
        2.5,
        3 - 1e-8,
        3.1415926535,
        4.9,
        5.86,
        6.3,
        7.9,
        8.3,
    ),
    *(
        10.0,
        12.5,
        17.3,
        19.9,
        26.2,
        29.9,
        36.6,
        38.2,
        40.0,
        80.0,
        87.3,
        88.72,
        89.5,
        100.0,
        103.0,
        127.9,
        149.0,
    ),
    *(300.0, 700.0, 709.7, 711.5, 713.9, 744.0, 1023.9, 1e5, 1e8, 1e15, 1e19, 1e38, 1e155, 1e300),
]
POINTS = np.unique([0.0, *MAGNITUDES, *(-m for m in MAGNITUDES), *(k + 1e-8 for k in (-3, -2, -1))])
ORDINARY = [
    1e-12,
    1e-6,
    1e-3,
    0.05,
    0.24,
    0.26,
    0.4,
    0.7,
    0.95,
    1.3,
    1.7,
    2.4,
    3.6,
    6.1,
    9.3,
    15.2,
    20.0,
    25.0,
    40.0,
]
SLOPES = np.array([0.0, *ORDINARY, *(-x for x in ORDINARY)])
PAIRS = [0.0, 1e-300, 1e-9, 0.3, 1.0, 1 + 1e-9, 2.0, 3.5, 30.0, 700.0, 1e18]
ODD = frozenset(
    "asin asinh atan atanh erf erfinv expm1 i1 i1e log1p sin sinh softsign sqrt tan tanh"
    " tanhshrink".split()
)
CUBES = frozenset(("tanhshrink",))  # begin with x^3
UNITS = {"complex64": "float32", "complex128": "float64"}


def limit(name: str, dtype: str) -> float:
    """What the schema allows, in units of the last place."""
    return float(OPERATORS[name].data.get("ulp", {}).get(dtype, 8 if dtype == "gradient" else 4))


def digits(name: str, values: tuple[Any, ...]) -> int:
    """Enough for sums of numbers that differ as much, and for many turns of an angle."""
    sizes = [abs(mp.log10(abs(v))) for v in values if v and mp.isfinite(v)]
    return (
        40
        if name in FEW_DIGITS
        else 40 + int((3 if name in CUBES else 1.1) * max(sizes, default=0))
    )


@functools.cache
def exact(name: str, values: tuple[Any, ...]) -> Any:
    """The value, or None where there is none; NaN for what is not real."""
    numbers = tuple(mp.mpmathify(v) for v in values)
    with mp.workdps(digits(name, numbers)):
        try:
            result = VALUES[name](*numbers)
        except (ZeroDivisionError, ValueError, OverflowError, mp.libmp.ComplexResult):
            return None
        if isinstance(result, mp.mpc) and not isinstance(values[0], complex):
            return mp.nan if result.imag else result.real
        return result


def error(got: Any, want: Any, dtype: str, terms: Any = 0) -> float:
    """Distance in units of the last place of the result, of the larger part of a complex one."""
    info = np.finfo(UNITS.get(dtype, dtype))
    if isinstance(want, mp.mpc):
        size = max(abs(want.real), abs(want.imag))
        if size > float(info.max):
            return 0.0
        return max(
            error(getattr(got, part), getattr(want, part), UNITS[dtype], size)
            for part in ("real", "imag")
        )
    if mp.isnan(want) or np.isnan(got):
        return 0.0 if mp.isnan(want) and np.isnan(got) else np.inf
    most = mp.mpf(float(info.max))
    if np.isinf(got) or abs(want) > most:  # what rounds to infinity may be just below it
        return (
            0.0
            if abs(want) > most * (1 - 4 * float(info.eps)) and (got > 0) == (want > 0)
            else np.inf
        )
    size = max(abs(want), abs(terms), mp.mpf(float(info.tiny)))
    exponent = int(mp.floor(mp.log(size, 2)))
    return float(abs(mp.mpf(float(got)) - want) / mp.mpf(2) ** (exponent - info.nmant))


def points(name: str, dtype: str) -> list[np.ndarray]:
    """The arguments, as many arrays as the operator has."""
    with np.errstate(all="ignore"):
        if name in BINARY:
            line = np.array([*PAIRS, *(-p for p in PAIRS[1:])])
            grid = np.array(np.meshgrid(line, line)).reshape(2, -1)
            kept = np.isfinite(grid.astype(dtype)).all(axis=0)
            return list(grid[:, kept].astype(dtype) + 0)  # without -0
        x = np.unique(POINTS.astype(dtype))
        return [x[np.isfinite(x)]]


def plane(dtype: str) -> np.ndarray:
    line = np.array([1e-9, 0.3, 1 - 1e-9, 1 + 1e-9, 1.7, 9.5, 40.0])
    x, y = np.meshgrid([*line, *-line], [*line, *-line])
    return (x + 1j * y).ravel().astype(dtype)


def check_values(name: str, dtype: str, step: int = 1) -> None:
    args = [a[::step] for a in ([plane(dtype)] if dtype in UNITS else points(name, dtype))]
    got = OPERATORS[name].function()(*(fa.tensor(a) for a in args)).numpy()
    most = limit(name, dtype)
    for result, *values in zip(got, *args, strict=True):
        given = tuple(v.item() for v in values)
        want = exact(name, given)
        if want is None:
            continue
        terms = TERMS[name](*map(mp.mpf, given)) if name in TERMS else 0
        if name in PRODUCTS:
            terms = abs(mp.mpmathify(given[0])) * float(np.finfo(dtype).tiny)
        off = error(result, want, dtype, terms)
        assert off <= most, (
            f"{name}{given} in {dtype} is {result!r}, not {mp.nstr(want, 17)}: {off:.3g} ulp"
        )


def check_all() -> None:
    """Some real values of each function, for a level of instructions."""
    for name in VALUES:
        for dtype in ("float64", "float32"):
            check_values(name, dtype, step=3)


def test_every_function_has_an_exact_value() -> None:
    """A new formula of floats comes with its value in exact_values.py."""
    known = set(VALUES) | PLAIN
    words = set(UNARY) | {n.split(".")[0] for n in BINARY} | {"normal_cdf", "polygamma", "mul0"}
    words |= {"gammainc", "gammaincc", "gamma_log_slope"}
    for op in OPERATORS.values():
        if op.kind != "pointwise" or op.derived_from or "float" not in (op.dtypes or ["float"]):
            continue
        called = {w for text in op.data["scalar"].values() for w in words if f"{w}(" in text}
        assert not called or op.name in known, f"{op.name} calls {called}"


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    for dtype in ("float64", "float32"):
        check_values(name, dtype)


@pytest.mark.parametrize("name", HOLOMORPHIC)
def test_complex_values(name: str) -> None:
    for dtype in UNITS:
        check_values(name, dtype)


@pytest.mark.parametrize("level", ["baseline", "v3"])
def test_values_at_other_levels(level: str) -> None:
    run_python("import test_exact; test_exact.check_all()", FACULA_ISA=level)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", VALUES)
def test_half_types_are_rounded_once(name: str, dtype: str) -> None:
    args = [fa.tensor(a).to(getattr(fa, dtype)) for a in points(name, "float32")]
    function = OPERATORS[name].function()
    got, single = function(*args), function(*(a.float() for a in args))
    same = (got == single.to(got.dtype)) | (got.isnan() & single.isnan())
    assert same.all()


@pytest.mark.parametrize("name", VALUES)
def test_ends(name: str) -> None:
    """NaN stays; odd functions keep the sign of zero."""
    function = OPERATORS[name].function()
    parameters = len(inspect.signature(VALUES[name]).parameters) if name in BINARY else 1
    assert function(*[fa.tensor([np.nan])] * parameters).isnan().all()
    if name in ODD:
        zeros = function(fa.tensor([-0.0, 0.0])).numpy()
        assert not zeros.any() and np.signbit(zeros).tolist() == [True, False]


# ---- derivatives ----


@functools.cache
def taylor(name: str, x: Any, known: Any) -> list[Any] | None:
    """Derivatives of orders 0 to 4 at a point where the function is smooth, else None."""
    function = VALUES[name] if known is None else lambda v: VALUES[name](*known[0], v, *known[1])
    with mp.workdps(50 if name in DERIVATIVES else 80):
        try:
            found = (
                DERIVATIVES[name](mp.mpf(x))
                if name in DERIVATIVES
                else [
                    c * mp.factorial(k) for k, c in enumerate(mp.taylor(function, x, 4, chop=False))
                ]
            )
        except (ZeroDivisionError, ValueError, OverflowError, mp.libmp.ComplexResult):
            return None
        if not isinstance(x, complex):
            if any(isinstance(c, mp.mpc) and c.imag for c in found):
                return None
            found = [mp.re(c) for c in found]
        if not all(mp.isfinite(c) and abs(c) < 1e60 for c in found):
            return None
        return found if name in DERIVATIVES else without_rests(found)


KINKS = {  # where a function is not smooth, and where mpmath continues it beyond its real domain
    **dict.fromkeys(("i0e", "i1e", "softsign", "elu", "selu", "celu"), lambda x: x == 0),
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt", "entr"), lambda x: x <= 0),
    **dict.fromkeys(("lgamma", "digamma", "reciprocal"), lambda x: x == 0),
    **dict.fromkeys(("asin", "acos", "atanh", "erfinv"), lambda x: abs(x) >= 1),
    "acosh": lambda x: x <= 1,
    "log1p": lambda x: x <= -1,
    "logit": lambda x: x <= 0 or x >= 1,
}


# Derivatives that are made of the rounded result alone, which is all that is kept: the input may be
# written to. The largest change of the derivative, for a relative one of the result.
OF_RESULT = {"sigmoid": 1, "tanh": 2}


def check_slopes(name: str, x: np.ndarray, function: Callable[..., Any], known: Any = None) -> None:
    """Three derivatives, relative to their size, or to how much they change when x does.

    Those made of the result: or to how much they change when that does.
    """
    complex_ = np.iscomplexobj(x)
    wanted = [
        None if not complex_ and KINKS.get(name, lambda x: False)(v) else taylor(name, v, known)
        for v in x.tolist()
    ]
    point = fa.tensor(x, requires_grad=True)
    result, most = function(point), limit(name, "gradient")
    for order in (1, 2, 3):
        if not result.requires_grad:
            result = point * 0
        (result,) = fa.autograd.grad(
            result, point, fa.ones_like(result), create_graph=True, allow_unused=True
        )
        result = point * 0 if result is None else result
        for got, v, want in zip(result.detach().numpy(), x.tolist(), wanted, strict=True):
            if want is None:
                continue
            truth = mp.conj(want[order]) if complex_ else want[order]
            size = max(abs(truth), abs(want[order + 1] * v), mp.mpf(1e-290))
            if name in OF_RESULT:
                size = max(size, abs(want[order + 1] / want[1] * want[0]))
            off = abs(mp.mpmathify(got.item()) - truth) / size / np.finfo(np.float64).eps
            said = f"{got!r}, not {mp.nstr(truth, 17)}: {float(off):.3g} eps"
            assert off <= most * 2 ** (order - 1), f"{name}, {order}, at {v}, {known}: {said}"


@pytest.mark.parametrize("name", UNARY)
def test_derivatives(name: str) -> None:
    check_slopes(name, SLOPES, OPERATORS[name].function())


SIZES = {
    "float64": (-300, -200, -153, -60, -30, -12, -5, 5, 12, 30, 60, 153, 200, 300),
    "float32": (-38, -30, -20, -10, -5, 5, 10, 20, 30, 38),
}


@pytest.mark.parametrize("name", UNARY)
def test_derivatives_of_any_size(name: str) -> None:
    """Arguments over the whole range; what is below the smallest normal number may be zero."""
    for dtype, sizes in SIZES.items():
        info = np.finfo(dtype)
        x = np.array([sign * 1.37 * 10.0**k for k in sizes for sign in (1, -1)], dtype)
        point = fa.tensor(x, requires_grad=True)
        (got,) = fa.autograd.grad(OPERATORS[name].function()(point).sum(), point)
        for v, g in zip(x.tolist(), got.tolist(), strict=True):
            want = slope(name, v)
            if want is None:
                continue
            if abs(want) > float(info.max):
                assert g == (np.inf if want > 0 else -np.inf), (name, dtype, v, g)
                continue
            off = abs(mp.mpf(g) - want) / max(abs(want), mp.mpf(float(info.tiny)))
            allowed = max(limit(name, "gradient") * float(info.eps), abs(want) < float(info.tiny))
            said = f"{g!r}, not {mp.nstr(want, 17)}"
            if name in OF_RESULT and abs(g - want) <= OF_RESULT[name] * float(info.eps):
                continue
            assert off <= allowed, f"{name} at {v} in {dtype}: {said}"


@functools.cache
def slope(name: str, v: float) -> Any:
    """The exact derivative, or None where there is none, or it turns many times in a unit of v."""
    if KINKS.get(name, lambda x: False)(v) or (name in ("lgamma", "digamma") and v < -1e3):
        return None
    few = name in FEW_DIGITS and name[:1] != "i"  # terms of bessel functions cancel
    with mp.workdps(60 if few else 60 + int(2.2 * abs(mp.log10(abs(v))))):
        try:
            found = TEXTBOOK[name](mp.mpf(v))
        except (ZeroDivisionError, ValueError, OverflowError, mp.libmp.ComplexResult):
            return None
        return None if isinstance(found, mp.mpc) and found.imag else mp.re(found)


@pytest.mark.parametrize("name", HOLOMORPHIC)
def test_complex_derivatives(name: str) -> None:
    z = np.array(
        [0.3 + 0.4j, -0.7 + 1e-6j, 1e-7 - 1e-7j, 1 + 1e-6j, 1e-6 + (1 - 1e-7) * 1j, 2 - 3j, -9 + 1j]
    )
    check_slopes(name, z, OPERATORS[name].function())


LOGARITHMS = ("pow.tensor", "xlogy", "xlog1py")


def smooth(name: str, first: bool, x: float, other: float) -> bool:
    """Whether the function has derivatives at `x`, its other argument being `other`."""
    if name in LOGARITHMS:  # of a base, or of the second argument
        base = x if first == (name == "pow.tensor") else other
        return base > 0
    if name in ("atan2", "hypot"):  # a kink, and a cut
        return (x, other) != (0, 0) and (name == "hypot" or (x if first else other) != 0)
    return True


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", BINARY)
def test_derivatives_by_each_argument(name: str, first: bool) -> None:
    function = OPERATORS[name].function()
    for other in (0.0, 0.7, 1.0, -2.0, 3.0):
        at = [
            x
            for x in (0.0, 1e-9, -1e-3, 0.3, 1.0, -1.5, 2.0, 12.0)
            if smooth(name, first, x, other)
        ]
        if (name, other) == ("hypot", 0.0):
            at = []  # the absolute value
        fixed, number = fa.tensor(other, dtype=fa.float64), mp.mpf(other)

        def mine(t: fa.Tensor, fixed: fa.Tensor = fixed) -> fa.Tensor:
            return function(t, fixed) if first else function(fixed, t)

        check_slopes(name, np.array(at), mine, ((), (number,)) if first else ((number,), ()))


def test_digamma_beside_its_zeros() -> None:
    """Relative to the value, however small it is, between all poles down to -20."""
    for n in range(20):
        with mp.workdps(40):
            zero = float(mp.findroot(lambda v: mp.psi(0, v), (-n - 0.9, -n - 0.1), solver="ridder"))
        near = [*range(-3, 4), -1000, 1000, 10**7, -(10**10), 10**13]
        x = [zero + k * np.spacing(zero) for k in near]
        x += [zero + d for d in (-0.26, -0.24, -0.1, 0.03, 0.2, 0.24, 0.26)]
        for kind in ("float64", "float32"):
            given = np.array(x, kind)
            got = fa.digamma(fa.tensor(given)).numpy()
            for v, g in zip(given.tolist(), got, strict=True):
                with mp.workdps(60):
                    off = error(g, mp.psi(0, mp.mpf(v)), kind)
                assert off <= 8, f"digamma({v!r}) in {kind} is {g!r}: {off:.3g} ulp"


@pytest.mark.parametrize("dtype", UNITS)
def test_complex_quotients(dtype: str) -> None:
    """Whatever the sides' sizes, while the quotient is in the range."""
    info = np.finfo(UNITS[dtype])
    sizes = [info.smallest_subnormal * 5, info.tiny, info.tiny / info.eps, 1e-9, 1.0]
    sizes += [1.0 / s for s in sizes[:4] if np.isfinite(1.0 / s)] + [info.max / 2, info.max]
    line = np.array([a * s for s in sizes for a in (1, -0.7, 0) if a or s == 1], UNITS[dtype])
    re, im = np.meshgrid(line, line)
    plane = (re + 1j * im).ravel().astype(dtype)
    plane = plane[plane != 0]
    pairs = np.array(np.meshgrid(plane[:: len(plane) // 40], plane)).reshape(2, -1)
    b, a = (fa.tensor(v, requires_grad=True) for v in pairs)
    got, inverse = a / b, b.reciprocal()
    slopes = fa.autograd.grad(got, (a, b), fa.ones_like(got))
    found = [v.detach().numpy() for v in (got, inverse, *slopes)]
    # With more digits and a wider range than either dtype: its own error is 0.002 units at most.
    exact = np.finfo(np.longdouble)
    assert exact.nmant >= 63 and exact.maxexp > 16000
    y, x = pairs.astype(np.clongdouble)
    quotients, inverses = x / y, 1 / y
    wanted = (quotients, inverses, inverses.conj(), -(quotients / y).conj())
    for value, want, most in zip(found, wanted, (6, 6, 6, 12), strict=True):
        size = np.maximum(np.abs(want.real), np.abs(want.imag))
        inside = (size > info.tiny) & (size < info.max / 4)
        if most == 12:  # a product with the quotient, which has to be in the range too
            inside &= (np.abs(quotients) > info.tiny) & (np.abs(quotients) < info.max / 4)
        assert inside.mean() > 0.2
        unit = np.ldexp(np.longdouble(1), np.frexp(size)[1] - 1 - info.nmant)
        with np.errstate(invalid="ignore"):
            off = np.maximum(np.abs(value.real - want.real), np.abs(value.imag - want.imag)) / unit
        off[~inside] = 0
        at = np.argmax(np.where(np.isnan(off), np.inf, off))
        assert off[at] <= most, (
            f"{pairs[1][at]!r} and {pairs[0][at]!r} give {value[at]!r}: {off[at]:.3g} ulp"
        )


@pytest.mark.parametrize("order", [1, 2, 3])
def test_polygamma(order: int) -> None:
    """Beside poles too; between those, where the terms cancel, a change of x counts."""
    near = [k + d for k in (0, -1, -4) for d in (1e-8, -1e-8, 1e-4)]
    x = [*near, 0.2, 0.5, 0.99, 1.0, 1.5, 2.0, 7.3, 9.9, 10.1, 25.0, -0.5, -3.3, -9.7]
    got = fa.special.polygamma(order, fa.tensor(x, dtype=fa.float64)).tolist()
    for v, g in zip(x, got, strict=True):
        want = mp.psi(order, v)
        size = max(abs(want), abs(v * mp.psi(order + 1, v)) if v < 0 else 0)
        assert abs(g - want) <= 16 * np.finfo(np.float64).eps * size, (v, g, want)


@pytest.mark.parametrize("order", [1, 2, 3, 20, 100, 170, 171, 300])
def test_polygamma_far_out(order: int) -> None:
    """Where powers, or the factorial, leave the range, though the result does not."""
    x = [0.7, 3.0, 30.0, 200.0, 1e3, 1e14, 1e17, 1e30, 1e80, 1e110, 1e200]
    got = fa.special.polygamma(order, fa.tensor(x, dtype=fa.float64)).tolist()
    for v, g in zip(x, got, strict=True):
        want = mp.psi(order, mp.mpf(v))
        if abs(want) > np.finfo(np.float64).max:
            assert abs(g) == np.inf, (v, g)
        else:
            assert abs(g - want) <= 64 * np.finfo(np.float64).eps * abs(want) + 1e-307, (v, g, want)
