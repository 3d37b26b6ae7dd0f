"""Bessel, Airy and normal functions and orthogonal polynomials against mpmath, beside zeros too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula as fa
import mpmath as mp
import numpy as np
import pytest

DIGITS = 30


def units(got: float, want: Any, dtype: str) -> float:
    """Distance in units of the last place of the exact value."""
    info = np.finfo(dtype)
    if mp.isnan(want) or np.isnan(got):
        return 0.0 if mp.isnan(want) and np.isnan(got) else np.inf
    if mp.isinf(want) or abs(want) > mp.mpf(float(info.max)):
        return 0.0 if np.isinf(got) and (got > 0) == (want > 0) else np.inf
    size = max(abs(want), mp.mpf(float(info.tiny)))
    place = mp.mpf(2) ** (int(mp.floor(mp.log(size, 2))) - info.nmant)
    return float(abs(mp.mpf(float(got)) - want) / place)


def check(function: Any, exact: Callable[..., Any], *arguments: np.ndarray, most: float) -> None:
    for dtype, limit in (("float64", most), ("float32", 4)):
        given = [a.astype(dtype) for a in arguments]
        got = function(*map(fa.tensor, given)).numpy()
        for result, *values in zip(got, *given, strict=True):
            with mp.workdps(DIGITS):
                off = units(result, exact(*(mp.mpf(float(v)) for v in values)), dtype)
            assert off <= limit, f"at {values} in {dtype}: {result!r}, {off:.3g} units off"


def near(zeros: list[Any]) -> np.ndarray:
    """The doubles beside each zero, and some further off."""
    close = [np.nextafter(float(z), d) for z in zeros for d in (-np.inf, np.inf)]
    return np.array(close + [float(z) * (1 + e) for z in zeros for e in (0, 1e-12, -1e-7, 1e-3)])


def between(low: float, high: float, count: int = 24) -> np.ndarray:
    return np.random.default_rng(7).uniform(low, high, count)


SMALL = 10.0 ** np.linspace(-300, -3, 12)
FAR = np.array([24.99, 25.0, 25.01, 40.7, 333.3, 1e4, 123456.7])


def bessel_points(zero: Callable[[int, int], Any], order: int) -> np.ndarray:
    zeros = [zero(order, k) for k in range(1, 8)]
    return np.concatenate([SMALL, between(0, 25), near(zeros), FAR])


@pytest.mark.parametrize("order", [0, 1])
def test_bessel_functions(order: int) -> None:
    x = bessel_points(mp.besseljzero, order)
    first = getattr(fa.special, f"bessel_j{order}")
    check(first, lambda v: mp.besselj(order, v), x, most=8)
    assert first(fa.tensor([-2.5])).item() == (-1) ** order * first(fa.tensor([2.5])).item()
    second = getattr(fa.special, f"bessel_y{order}")
    check(second, lambda v: mp.bessely(order, v), bessel_points(mp.besselyzero, order), most=8)
    ends = second(fa.tensor([0.0, -1.0, np.inf]))
    assert ends[0] == -np.inf and ends[1].isnan() and ends[2] == 0


@pytest.mark.parametrize("order", [0, 1])
def test_modified_bessel_functions(order: int) -> None:
    x = np.concatenate([SMALL, between(0, 3), between(2, 700), [2.0, np.nextafter(2, 0)]])
    plain = getattr(fa.special, f"modified_bessel_k{order}")
    check(plain, lambda v: mp.besselk(order, v), x[x < 690], most=8)
    scaled = getattr(fa.special, f"scaled_modified_bessel_k{order}")
    check(scaled, lambda v: mp.besselk(order, v) * mp.exp(v), x, most=8)
    for function in (plain, scaled):
        ends = function(fa.tensor([0.0, -1.0, np.inf]))
        assert ends[0] == np.inf and ends[1].isnan() and ends[2] == 0


def test_airy_function() -> None:
    zeros = [mp.airyaizero(k) for k in range(1, 8)]
    x = np.concatenate([between(-12, 5, 80), between(-90, 100), near(zeros), [0.0, 2.0, -10.5]])
    check(fa.special.airy_ai, mp.airyai, x, most=16)
    assert fa.special.airy_ai(fa.tensor([np.inf, -np.inf])).tolist() == [0, 0]


def test_spherical_bessel_function() -> None:
    x = np.concatenate([SMALL, between(-30, 30)])
    check(fa.special.spherical_bessel_j0, lambda v: mp.sinc(v), x, most=4)
    assert fa.special.spherical_bessel_j0(fa.tensor([0.0, np.inf])).tolist() == [1, 0]


# ---- the normal distribution


def erfcx(x: Any) -> Any:
    with mp.workdps(60 + int(abs(x) ** 2 / 2) if abs(x) < 1e3 else 60):
        if x < 1e3:
            return mp.exp(x * x) * mp.erfc(x)
        return (1 - 1 / (2 * x * x) + 3 / (4 * x**4)) / (x * mp.sqrt(mp.pi))


def log_ndtr(x: Any) -> Any:
    with mp.workdps(60):
        return mp.log(mp.erfc(-x / mp.sqrt(2)) / 2) if x < 0 else mp.log1p(-mp.ncdf(-x))


def ndtri(p: Any) -> Any:
    """By Newton's method on the logarithm of the smaller tail."""
    if p == 0.5:
        return mp.mpf(0)
    tail = min(p, 1 - p)
    x = -mp.sqrt(-2 * mp.log(tail))
    for _ in range(60):
        area = mp.erfc(-x / mp.sqrt(2)) / 2
        x -= mp.log(area / tail) * area / (mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi))
    return x if p < 0.5 else -x


TAILS = 10.0 ** np.linspace(-300, -2, 25)
NORMAL: list[tuple[str, Callable[[Any], Any], np.ndarray]] = [
    ("erfcx", erfcx, np.concatenate([SMALL, between(-26, 0), between(0, 40), [1e5, 1e10]])),
    ("log_ndtr", log_ndtr, np.concatenate([between(-6, 8), between(-90, 20), [0.0, -5.0, -30.0]])),
    ("ndtri", ndtri, np.concatenate([between(0, 1, 80), TAILS, 1 - TAILS[-5:], [0.5 - 1e-9]])),
]


@pytest.mark.parametrize("name, exact, x", NORMAL)
def test_normal_functions(name: str, exact: Callable[[Any], Any], x: np.ndarray) -> None:
    function = getattr(fa.special, name)
    for dtype, most in (("float64", 8), ("float32", 4)):
        given = np.unique(x.astype(dtype))
        given = given[(given > 0) & (given < 1)] if name == "ndtri" else given
        for v, got in zip(given, function(fa.tensor(given)).numpy(), strict=True):
            with mp.workdps(DIGITS):
                off = units(got, exact(mp.mpf(float(v))), dtype)
            assert off <= most, f"{name} at {v} in {dtype}: {got!r}, {off:.3g} units off"
    assert function(fa.tensor([np.nan])).isnan()


def test_ends_of_the_quantile() -> None:
    assert fa.special.ndtri(fa.tensor([0.0, 0.5, 1.0])).tolist() == [-np.inf, 0, np.inf]
    assert fa.special.ndtri(fa.tensor([-0.1, 1.1])).isnan().all()


def slope_of_ndtri(p: Any) -> Any:
    x = ndtri(p)
    return mp.sqrt(2 * mp.pi) * mp.exp(x * x / 2)


SLOPES: list[tuple[str, Callable[[Any], Any], np.ndarray]] = [
    ("erfcx", lambda x: 2 * x * erfcx(x) - 2 / mp.sqrt(mp.pi), between(-9, 26)),
    (
        "log_ndtr",
        lambda x: mp.sqrt(2 / mp.pi) / erfcx(-x / mp.sqrt(2)),
        between(-60, 15, 60),
    ),
    ("ndtri", slope_of_ndtri, np.concatenate([between(0.001, 0.999), TAILS])),
]


@pytest.mark.parametrize("name, exact, x", SLOPES)
def test_slopes_of_normal_functions(name: str, exact: Callable[[Any], Any], x: np.ndarray) -> None:
    point = fa.tensor(x, requires_grad=True)
    (slope,) = fa.autograd.grad(getattr(fa.special, name)(point).sum(), point)
    for v, got in zip(x, slope.numpy(), strict=True):
        with mp.workdps(DIGITS):
            off = units(got, exact(mp.mpf(float(v))), "float64")
        assert off <= 16, f"slope of {name} at {v}: {got!r}, {off:.3g} units off"


# ---- orthogonal polynomials


def recurrence(first: Any, second: Any, step: Callable[[int, Any, Any], Any], n: int) -> Any:
    below, value = first, second
    if n == 0:
        return first
    for k in range(1, n):
        below, value = value, step(k, value, below)
    return value


def chebyshev(second: Callable[[Any], Any], shifted: bool) -> Callable[[Any, Any], Any]:
    def exact(x: Any, n: Any) -> Any:
        x = 2 * x - 1 if shifted else x
        return recurrence(mp.mpf(1), second(x), lambda k, a, b: 2 * x * a - b, int(n))

    return exact


FIRST: dict[str, Callable[[Any], Any]] = {
    "t": lambda x: x,
    "u": lambda x: 2 * x,
    "v": lambda x: 2 * x - 1,
    "w": lambda x: 2 * x + 1,
}
POLYNOMIALS: dict[str, Callable[[Any, Any], Any]] = {
    **{f"chebyshev_polynomial_{k}": chebyshev(f, False) for k, f in FIRST.items()},
    **{f"shifted_chebyshev_polynomial_{k}": chebyshev(f, True) for k, f in FIRST.items()},
    "hermite_polynomial_h": lambda x, n: recurrence(
        mp.mpf(1), 2 * x, lambda k, a, b: 2 * x * a - 2 * k * b, int(n)
    ),
    "hermite_polynomial_he": lambda x, n: recurrence(
        mp.mpf(1), x, lambda k, a, b: x * a - k * b, int(n)
    ),
    "laguerre_polynomial_l": lambda x, n: recurrence(
        mp.mpf(1), 1 - x, lambda k, a, b: ((2 * k + 1 - x) * a - k * b) / (k + 1), int(n)
    ),
    "legendre_polynomial_p": lambda x, n: recurrence(
        mp.mpf(1), x, lambda k, a, b: ((2 * k + 1) * x * a - k * b) / (k + 1), int(n)
    ),
}


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name: str) -> None:
    generator = np.random.default_rng(3)
    x = np.concatenate(
        [generator.uniform(-1, 1, 60), generator.uniform(-3, 3, 20), [1, -1, 0, 0.5]]
    )
    n = np.concatenate([generator.integers(0, 30, 60), generator.integers(60, 180, 24)])
    function = getattr(fa.special, name)
    with mp.workdps(200):
        want = [POLYNOMIALS[name](mp.mpf(float(a)), b) for a, b in zip(x, n, strict=True)]
        for value, got in zip(want, function(fa.tensor(x), fa.tensor(n)).tolist(), strict=True):
            assert units(got, value, "float64") <= 2
    assert function(fa.tensor([0.3]), -1).item() == 0
    assert function(fa.tensor([np.nan]), 2).isnan()
    assert function(fa.tensor([1]), 2).dtype == fa.float32


def test_orders_that_take_long() -> None:
    x, n = fa.tensor([0.5], dtype=fa.float64), 2**52
    assert abs(fa.special.chebyshev_polynomial_t(x, n).item()) <= 1  # by doubling
    assert fa.special.legendre_polynomial_p(x, 65537).isnan()


def test_zeta_has_a_slope_by_its_second_argument() -> None:
    s = fa.tensor([2.0, 3.5], dtype=fa.float64)
    q = fa.tensor([0.5, 4.0], dtype=fa.float64, requires_grad=True)
    (slope,) = fa.autograd.grad(fa.special.zeta(s, q).sum(), q)
    want = [-float(a * mp.zeta(a + 1, b)) for a, b in ((2, mp.mpf(0.5)), (mp.mpf(3.5), 4))]
    np.testing.assert_allclose(slope.numpy(), want, rtol=1e-14)


# ---- derivatives that there are not


def test_a_missing_derivative_is_an_error() -> None:
    s = fa.tensor([2.0], requires_grad=True)
    q = fa.tensor([0.5], requires_grad=True)
    with pytest.raises(NotImplementedError, match=r"zeta\(\): self has no derivative: a deriv"):
        fa.special.zeta(s, q).sum().backward()
    (slope,) = fa.autograd.grad(fa.special.zeta(s, q).sum(), q)  # that of the other argument
    assert slope.isfinite().all()
    x = fa.tensor([1.0], requires_grad=True)
    with pytest.raises(NotImplementedError, match=r"bessel_j0\(\): self has no derivative"):
        (fa.special.bessel_j0(x) + x).sum().backward()
    assert not fa.zeros_like(x).requires_grad and not x.argmax().requires_grad


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5, 8, 20, 33, 64, 65, 100, 171])
def test_polygamma_below_zero(order: int) -> None:
    """Of even orders the terms on both sides of a half cancel: those from 1 - x on are left."""
    x = [
        -0.3,
        -0.5,
        -1.5,
        -3.0000001,
        -20.3,
        -20.5,
        -25.25,
        -100.7,
        -1000.4,
        -12345.678,
        -1e7 - 0.25,
    ]
    got = fa.special.polygamma(order, fa.tensor(x, dtype=fa.float64)).tolist()
    for v, g in zip(x, got, strict=True):
        with mp.workdps(120 + order):
            number, m = mp.mpf(v), order + 1
            part = number - mp.nint(number)
            # The sum of (part + k)^-m over all whole k, less that from 1 - x on.
            around = part**-m + mp.zeta(m, 1 + part) + (-1) ** m * mp.zeta(m, 1 - part)
            beyond = (-1) ** m * mp.zeta(m, 1 - number)
            want = (-1) ** m * mp.factorial(order) * (around - beyond)
            room = 64 * np.finfo(np.float64).eps * abs(want)
            if order > 64:  # a change of x counts beside the zero
                room += (
                    64 * np.finfo(np.float64).eps * abs(number * mp.factorial(m) * part ** -(m + 1))
                )
        if abs(want) > np.finfo(np.float64).max:
            assert g == (np.inf if want > 0 else -np.inf)
        else:
            assert abs(g - want) <= room, (v, g, want)


@pytest.mark.parametrize("order", [2, 8, 50, 64, 66, 90, 120, 150])
def test_polygamma_of_even_order_beside_halves(order: int) -> None:
    """The two terms beside a half cancel; an argument that is exact loses nothing by that."""
    for k in (0, 1, 2, 9):
        for d in (0.0, 1e-12, -1e-9, 3e-5, -1e-3, 0.05):
            x = -k - 0.5 + d
            got = fa.special.polygamma(order, fa.tensor(x, dtype=fa.float64)).item()
            with mp.workdps(400):
                number, m = mp.mpf(x), order + 1
                part = number - mp.nint(number)
                around = part**-m + mp.zeta(m, 1 + part) - mp.zeta(m, 1 - part)
                want = -mp.factorial(order) * (around + mp.zeta(m, 1 - number))
                # Where all terms cancel, the zero beside a half, those of the sum count.
                room = max(abs(want), mp.factorial(order) * mp.zeta(m, 1 - number))
            most = np.finfo(np.float64).max
            assert abs(got - want) <= 1e-12 * room or abs(want) > most, (x, got, want)


def test_polygamma_at_poles() -> None:
    x = fa.tensor([0.0, -0.0, -1.0, -5.0], dtype=fa.float64)
    assert fa.special.polygamma(1, x).tolist() == [np.inf] * 4
    assert fa.special.polygamma(2, x[:2]).tolist() == [-np.inf, np.inf]
    with pytest.raises(ValueError, match="16777216"):
        fa.special.polygamma(2**24 + 1, x)
    far = fa.tensor([-1.25, -1.75], dtype=fa.float64)
    assert fa.special.polygamma(2**24, far).tolist() == [
        np.inf,
        -np.inf,
    ]  # the sign of the pole that is nearest


def test_bessel_functions_next_to_zero() -> None:
    """Logarithms and poles: half a subnormal number is none."""
    x = [5e-324, 1e-323, 1e-310, 2.3e-308, 1e-307, 1e-200]
    for name, exact in (
        ("modified_bessel_k0", lambda v: mp.besselk(0, v)),
        ("modified_bessel_k1", lambda v: mp.besselk(1, v)),
        ("scaled_modified_bessel_k0", lambda v: mp.besselk(0, v) * mp.exp(v)),
        ("scaled_modified_bessel_k1", lambda v: mp.besselk(1, v) * mp.exp(v)),
        ("bessel_y0", lambda v: mp.bessely(0, v)),
        ("bessel_y1", lambda v: mp.bessely(1, v)),
    ):
        for v, g in zip(
            x, getattr(fa.special, name)(fa.tensor(x, dtype=fa.float64)).tolist(), strict=True
        ):
            want = exact(mp.mpf(v))
            if abs(want) > np.finfo(np.float64).max:
                assert g == (np.inf if want > 0 else -np.inf), (name, v)
            else:
                assert abs(g - want) <= 8 * np.finfo(np.float64).eps * abs(want), (name, v, g)


def test_airy_far_below_zero() -> None:
    """No phase is left, but the modulus is."""
    x = -(10.0 ** np.arange(16, 308, 7))
    got = fa.special.airy_ai(fa.tensor(x)).numpy()
    assert (np.abs(got) <= 1.01 / np.sqrt(np.pi) * (-x) ** -0.25).all() and np.abs(
        got[:5]
    ).min() > 0


def test_gamma_densities() -> None:
    """The slope of gammainc by its second argument, to the ends of both ranges."""
    a = np.array([1e-300, 1e-3, 0.3, 1.0, 1.8, 2.0, 9.5, 30.0, 1e3, 1e5, 1e8, 1e300])
    x = np.array([1e-300, 1e-200, 1e-3, 0.7, 1.0, 8.0, 31.0, 1010.0, 1.001e5, 1e8, 1e300])
    shape, at = (v.ravel() for v in np.meshgrid(a, x))
    point = fa.tensor(at, requires_grad=True)
    (got,) = fa.autograd.grad(fa.special.gammainc(fa.tensor(shape), point).sum(), point)
    for s, v, g in zip(shape.tolist(), at.tolist(), got.tolist(), strict=True):
        with mp.workdps(700):
            n, m = mp.mpf(s), mp.mpf(v)
            logarithm = (n - 1) * mp.log(m) - m - mp.loggamma(n)
            want = mp.exp(logarithm) if logarithm > -1000 else mp.mpf(0)
        room = 2e-13 * abs(want) * max(1, s / 1e6, v / 1e6) + 1e-307
        assert abs(g - want) <= room or (g == np.inf and want > 1e308), (s, v, g, want)
