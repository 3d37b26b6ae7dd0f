"""Slopes of powers at bases beside zero, where factors leave the range, and at infinities."""

from __future__ import annotations

from collections.abc import Iterator

import facula as fa
import mpmath as mp
import numpy as np
import pytest

SMALL = {"float32": (1e-45, 1e-42, 1e-40, 1.1e-38), "float64": (5e-324, 1e-320, 1e-310, 2e-308)}
EXPONENTS = (0.3, -0.5, -1.5, 0.99, 1e-3, 1e-6, 1e-9, 1e-20, 1.0, 2.0, -1e-9)


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    with mp.workdps(60):
        yield


def rounded(value: mp.mpf, dtype: str) -> float:
    with np.errstate(over="ignore"):
        return float(np.dtype(dtype).type(float(value)))


@pytest.mark.parametrize("by", ["number", "tensor"])
@pytest.mark.parametrize("dtype", SMALL)
def test_slopes_at_subnormal_bases(dtype: str, by: str) -> None:
    eps = float(np.finfo(dtype).eps)
    for v in SMALL[dtype]:
        for e in EXPONENTS:
            x = fa.tensor([v], dtype=getattr(fa, dtype), requires_grad=True)
            y = fa.tensor([e], dtype=x.dtype, requires_grad=True)
            base, exponent = mp.mpf(x.item()), mp.mpf(y.item())
            value = x**y if by == "tensor" else x ** y.item()
            (got,) = fa.autograd.grad(value.sum(), x, retain_graph=True)
            want = rounded(exponent * base ** (exponent - 1), dtype)
            # the exponent of the slope is rounded
            room = (64 + float(abs(mp.log(base)))) * eps * abs(want)
            room += float(np.finfo(dtype).tiny) * eps
            assert got.item() == want or abs(got.item() - want) <= room, (v, e, got, want)
            if by == "tensor":
                (got,) = fa.autograd.grad(value.sum(), y)
                want = rounded(base**exponent * mp.log(base), dtype)
                least = float(np.finfo(dtype).smallest_subnormal)  # a place of the power
                room = 64 * eps * abs(want) + least * float(abs(mp.log(base)))
                assert got.item() == want or abs(got.item() - want) <= room, (v, e)


@pytest.mark.parametrize("dtype", SMALL)
def test_second_slopes_at_small_bases(dtype: str) -> None:
    eps, v = float(np.finfo(dtype).eps), 1e-25 if dtype == "float32" else 1e-200
    for e in (0.5, 1e-15, 1.7, 2.0, -0.3):
        x = fa.tensor([v], dtype=getattr(fa, dtype), requires_grad=True)
        (slope,) = fa.autograd.grad((x**e).sum(), x, create_graph=True)
        (got,) = fa.autograd.grad(slope.sum(), x)
        want = rounded(mp.mpf(e) * (mp.mpf(e) - 1) * mp.mpf(x.item()) ** (mp.mpf(e) - 2), dtype)
        assert got.item() == pytest.approx(want, rel=64 * eps)


def test_roots_and_quotients_at_subnormals() -> None:
    for dtype, values in SMALL.items():
        for v in values:
            x = fa.tensor([v], dtype=getattr(fa, dtype), requires_grad=True)
            for function, slope in (
                (fa.sqrt, lambda b: mp.mpf(0.5) / mp.sqrt(b)),
                (fa.rsqrt, lambda b: mp.mpf(-0.5) / mp.sqrt(b) ** 3),
                (fa.reciprocal, lambda b: -1 / b**2),
            ):
                (got,) = fa.autograd.grad(function(x).sum(), x)
                want = rounded(slope(mp.mpf(x.item())), dtype)
                assert got.item() == pytest.approx(want, rel=16 * float(np.finfo(dtype).eps))


INF = float("inf")
# Base, exponent, power, slope by the base (its limit as the exponent grows), slope by the exponent.
INFINITE = [
    (0.0, INF, 0.0, 0.0, 0.0),
    (0.5, INF, 0.0, 0.0, 0.0),
    (0.5, -INF, INF, -INF, -INF),
    (1.0, INF, 1.0, INF, 0.0),
    (2.0, INF, INF, INF, INF),
    (2.0, -INF, 0.0, 0.0, 0.0),
    (INF, INF, INF, INF, INF),
    (INF, -INF, 0.0, 0.0, 0.0),
    (-0.5, INF, 0.0, 0.0, 0.0),
    (-2.0, -INF, 0.0, 0.0, 0.0),
    (INF, 0.5, INF, 0.0, INF),
    (INF, 1.0, INF, 1.0, INF),
    (INF, 2.0, INF, INF, INF),
    (INF, -1.0, 0.0, 0.0, 0.0),
    (-INF, 2.0, INF, -INF, None),
    (INF, 0.0, 1.0, 0.0, INF),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_at_infinities(dtype: str) -> None:
    for base, exponent, power, by_base, by_exponent in INFINITE:
        x, y = (
            fa.tensor([v], dtype=getattr(fa, dtype), requires_grad=True) for v in (base, exponent)
        )
        value = x**y
        dx, dy = fa.autograd.grad(value.sum(), (x, y))
        assert value.item() == power, (base, exponent)
        assert dx.item() == by_base, (base, exponent)
        assert by_exponent is None or dy.item() == by_exponent, (base, exponent)


def test_complex_bases_beside_zero() -> None:
    z = fa.tensor([1e-310 + 1e-310j], dtype=fa.complex128, requires_grad=True)
    (z**1e-9).real.sum().backward()
    base = mp.mpc(1e-310, 1e-310)
    want = mp.mpf(1e-9) * base ** (mp.mpf(1e-9) - 1)
    got = complex(z.grad.item())
    assert abs(got.conjugate() - complex(want)) <= 1e-12 * abs(complex(want))
