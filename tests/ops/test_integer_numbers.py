"""Integers beside numbers between and beyond them: powers, comparisons, places, roundings."""

from __future__ import annotations

import operator
from fractions import Fraction
from math import inf, nan
from typing import Any

import facula as fa
import numpy as np
import pytest

INTS = ("uint8", "int8", "int16", "int32", "int64")
NO_POWER = "integers have no negative integer powers"


def dtype(name: str) -> fa.dtype:
    return getattr(fa, name)


# ---- powers ----


@pytest.mark.parametrize("name", INTS)
def test_an_integer_to_a_float_power_is_a_float(name: str) -> None:
    x = fa.tensor([100, 3], dtype=dtype(name))
    for exponent, want in (
        (2.0, [10000.0, 9.0]),
        (0.5, [10.0, 3**0.5]),
        (0.0, [1.0, 1.0]),
        (-1.0, [0.01, 1 / 3]),
    ):
        for got in (
            x**exponent,
            fa.pow(x, exponent),
            x.pow(fa.tensor(exponent)),
            fa.pow(x, fa.full((2,), exponent)),
        ):
            assert got.dtype == fa.float32
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
    assert (x ** (2 + 0j)).dtype == fa.complex64
    assert (2.0**x).dtype == fa.float32
    assert (x**True).dtype == x.dtype
    assert (x**2).dtype == x.dtype
    with pytest.raises(RuntimeError, match="cannot hold it"):
        x **= 2.0
    with pytest.raises(RuntimeError, match="cannot hold it"):
        fa.pow(x, 2.0, out=fa.empty(2, dtype=x.dtype))
    assert x.tolist() == [100, 3]
    assert fa.pow(x, 2.0, out=fa.empty(0)).tolist() == [10000.0, 9.0]


def test_bool_powers() -> None:
    b = fa.tensor([True, False])
    assert (b**2).dtype == fa.int64
    assert (b**2.0).dtype == fa.float32
    assert (b**True).tolist() == [True, False]
    both = fa.tensor([[True], [False]]) ** b
    assert both.tolist() == [[True, True], [False, True]]


@pytest.mark.parametrize("name", INTS[1:])
@pytest.mark.parametrize("base", [2, 1, -1, 0])
def test_negative_powers_of_integers_raise(name: str, base: int) -> None:
    """As NumPy has it: of 1 and -1 too, whatever form the exponent has."""
    t = dtype(name)
    x = fa.full((3,), base, dtype=t)
    exponents: list[Any] = [
        -1,
        fa.tensor(-1),
        fa.tensor(-1, dtype=t),
        fa.tensor([1, 2, -3], dtype=t),
    ]
    for exponent in (*exponents, fa.tensor([[2], [-2]], dtype=t)):
        with pytest.raises(RuntimeError, match=NO_POWER):
            x**exponent
        with pytest.raises(RuntimeError, match=NO_POWER):
            fa.pow(x, exponent, out=fa.empty(0, dtype=t))
    for exponent in exponents:
        with pytest.raises(RuntimeError, match=NO_POWER):
            x.clone().pow_(exponent)
    with pytest.raises(RuntimeError, match=NO_POWER):
        base ** fa.tensor([1, -1], dtype=t)
    with pytest.raises(RuntimeError, match=NO_POWER):
        fa.full((50_000,), base, dtype=t) ** fa.full((50_000,), -1, dtype=t)
    with pytest.raises(RuntimeError, match=NO_POWER):
        fa.full((4, 6), base, dtype=t)[:, ::2] ** fa.tensor([-1, 1, 1], dtype=t)
    assert (fa.tensor([2, 3]) ** fa.tensor([3, 2])).tolist() == [
        8,
        9,
    ]  # the fault is not remembered


def test_negative_powers_without_elements() -> None:
    empty = fa.empty(0, dtype=fa.int64)
    assert (empty ** fa.tensor([-1])).shape == (0,)
    with pytest.raises(RuntimeError, match=NO_POWER):
        fa.ones(2, dtype=fa.int64, device="meta") ** -1


# ---- comparisons: exactly, as Python compares ----

SIGNS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
FLOATS = [
    3.5, -0.5, 0.0, -0.0, 127.0, 128.0, 255.0, 256.5, -129.0, 2.0**53, 2.0**53 + 2, -(2.0**53),
    2.0**62, 2.0**63,
    -(2.0**63), 2.0**64, -(2.0**64), 1e300, inf, -inf, nan,
]  # fmt: skip


@pytest.mark.parametrize("name", INTS)
@pytest.mark.parametrize("sign", SIGNS)
def test_integers_compare_with_numbers_by_value(name: str, sign: Any) -> None:
    info = np.iinfo(name)
    values = {info.min, info.max, info.max - 1, 0, 3, 4, 127} & set(range(-128, 256)) | {
        info.min,
        info.max,
    }
    if name == "int64":
        values |= {2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**62 + 1}
    elements = sorted(values)
    x = fa.tensor(elements, dtype=dtype(name))
    for number in (*FLOATS, -1, 300, 2**40, -(2**40), True):
        want = [sign(v, number) for v in elements]
        assert sign(x, number).tolist() == want, number
        assert sign(number, x).tolist() == [sign(number, v) for v in elements], number
        assert sign(x.reshape(-1, 1), number).reshape(-1).tolist() == want
        into = fa.empty(len(elements), dtype=fa.bool)
        if not isinstance(number, bool):
            getattr(fa, sign.__name__)(x, number, out=into)
            assert into.tolist() == want


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("name", ["bool", *INTS])
def test_places_among_integers(name: str, right: bool) -> None:
    """The place of a number counts the elements before it; NaN comes last."""
    elements = [False, True] if name == "bool" else [0, 1, 1, 3, 100]
    x = fa.tensor(elements, dtype=dtype(name))
    for number in (*FLOATS, -1, 1, 2, 300, 2**40):
        before = (lambda v, n=number: v <= n) if right else (lambda v, n=number: v < n)
        want = len(elements) if number != number else sum(map(before, elements))
        assert fa.searchsorted(x, number, right=right).item() == want, number
        assert fa.searchsorted(x, number, side="right" if right else "left").item() == want, number
        assert fa.bucketize(number, x, right=right).item() == want, number
        assert fa.searchsorted(x, number, right=right, out_int32=True).dtype == fa.int32


@pytest.mark.parametrize("name", INTS)
def test_isin_of_a_number(name: str) -> None:
    x = fa.tensor([[1, 2], [3, 2]], dtype=dtype(name))
    for number in (2, 2.0, 2.5, -1, 300, nan, True, 2 + 0j):
        for invert in (False, True):
            want = np.isin(np.asarray([[1, 2], [3, 2]]), number, invert=invert)
            assert fa.isin(x, number, invert=invert).tolist() == want.tolist(), number
            assert fa.isin(x, number, invert=invert, assume_unique=True).tolist() == want.tolist()
            within = fa.isin(number, x, invert=invert)
            assert within.shape == ()
            assert within.item() == np.isin(number, [[1, 2], [3, 2]], invert=invert)
    assert fa.isin(1, fa.empty(0)).item() is False
    assert fa.isin(fa.empty(0), 1).shape == (0,)
    with pytest.raises(TypeError):
        fa.isin(1, 2)


# ---- rounding ----


@pytest.mark.parametrize("name", INTS)
def test_rounding_keeps_integers(name: str) -> None:
    info = np.iinfo(name)
    elements = [0, 4, 5, 6, 14, 15, 25, 26, 50, 95, 100, 105, 115, 125]
    if info.min:
        elements += [-v for v in elements]
    x = fa.tensor(elements, dtype=dtype(name))
    for decimals in (3, 0, -1, -2, -3, -18, -19, -20, -400):
        got = fa.round(x, decimals=decimals)
        assert got.dtype == x.dtype
        unit = 10 ** max(0, -decimals)
        want = [round(Fraction(v, unit)) * unit for v in elements]  # half to even
        assert got.tolist() == [(w - info.min) % 2**info.bits + info.min for w in want], decimals
        held = x.clone()
        assert held.round_(decimals=decimals) is held
        assert held.equal(got)
    for function in (fa.floor, fa.ceil, fa.trunc, fa.round, fa.sign, fa.abs):
        assert function(x).dtype == x.dtype
    assert x.clip(1, 3).dtype == x.dtype


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_rounding_to_decimals_beyond_the_range(name: str) -> None:
    t = dtype(name)
    large = float(fa.finfo(t).max)
    x = fa.tensor([1.25, -2.5, 0.0, large, inf, -inf, nan], dtype=t)
    for decimals in (40, 310, 400, 10**9):
        np.testing.assert_array_equal(fa.round(x, decimals=decimals).numpy(), x.numpy())
    for decimals in (-310, -400, -(10**9)):
        got = fa.round(x, decimals=decimals).tolist()
        assert got[:4] == [0.0, 0.0, 0.0, 0.0]
        assert got[4:6] == [inf, -inf]
    assert fa.round(fa.tensor([large], dtype=t), decimals=2).tolist() == [large]
    assert fa.round(
        fa.tensor([1.23456789e-300], dtype=fa.float64), decimals=305
    ).item() == pytest.approx(1.23457e-300)
    assert fa.round(fa.tensor([1.26e-44]), decimals=45).item() == pytest.approx(1.3e-44, rel=0.1)


# ---- differences ----


def test_diff_of_order_zero() -> None:
    """NumPy's rule: the input as it is, whatever would go before and after it."""
    x = fa.tensor([1.0, 4.0, 9.0], requires_grad=True)
    got = fa.diff(x, n=0, prepend=fa.tensor([0.0]), append=fa.tensor([16.0]))
    assert got.tolist() == np.diff([1.0, 4.0, 9.0], n=0, prepend=[0.0], append=[16.0]).tolist()
    got.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]
    assert fa.diff(fa.tensor([True, False]), n=0).tolist() == [True, False]
    with pytest.raises(IndexError):
        fa.diff(x, n=0, dim=1)
    with pytest.raises(RuntimeError):
        fa.diff(fa.tensor(1.0), n=0)
