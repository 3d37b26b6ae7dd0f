"""Signs and infinities of remainders and of complex functions, and numbers beyond int64."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest

INF, NAN = np.inf, np.nan


def test_a_zero_remainder_has_the_sign_of_the_divisor() -> None:
    a, b = np.array([-0.0, 0.0, 6.0, -6.0, 5.0]), np.array([2.0, -2.0, -3.0, 3.0, np.inf])
    got = fa.remainder(fa.tensor(a), fa.tensor(b)).numpy()
    want = np.array([x % y for x, y in zip(a.tolist(), b.tolist(), strict=True)])
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def test_complex_expm1_at_the_ends() -> None:
    """As the Array API standard states."""
    z = [
        complex(INF, 0),
        complex(-INF, INF),
        complex(INF, INF),
        complex(-INF, NAN),
        complex(NAN, 0),
    ]
    got = fa.tensor(z, dtype=fa.complex128).expm1().numpy()
    real, imag = [INF, -1, INF, -1, NAN], [0, 0, NAN, 0, 0]
    np.testing.assert_array_equal(got.real, real)
    np.testing.assert_array_equal(got.imag, imag)
    assert fa.tensor(complex(INF, 2.0)).tanh().item() == 1


def test_ranges_beyond_int64() -> None:
    top = 2**63
    got = fa.arange(top - 1, top + 3, 2)
    assert got.dtype is fa.uint64 and got.tolist() == [top - 1, top + 1]
    assert fa.arange(top - 3, top).dtype is fa.int64
    assert fa.arange(top + 2, top - 1, -2, dtype=fa.uint64).tolist() == [top + 2, top]
    with pytest.raises(OverflowError, match="does not fit into int64"):
        fa.arange(top, top + 2, dtype=fa.int64)


def test_what_has_no_derivative_says_so() -> None:
    x = fa.eye(3, dtype=fa.float64).requires_grad_()
    with pytest.raises(NotImplementedError, match="has no derivative"):
        fa.geqrf(x)[0].sum().backward()
    with pytest.raises(NotImplementedError, match="has no derivative"):
        fa.linalg.ldl_factor(x)[0].sum().backward()
    factor, pivots = fa.linalg.ldl_factor(fa.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=fa.float64))
    b = fa.tensor([[1.0], [2.0]], dtype=fa.float64, requires_grad=True)
    assert fa.autograd.gradcheck(lambda t: fa.linalg.ldl_solve(factor, pivots, t), (b,))


def test_sums_of_narrow_integers() -> None:
    a, b = np.full((1, 2, 3), 200, np.uint8), np.full(3, 3, np.uint8)
    got = fa.einsum("...ik,...j->ij", fa.tensor(a), fa.tensor(b))
    np.testing.assert_array_equal(got.numpy(), np.full((2, 3), 1800))
    assert fa.square(fa.tensor([True, False])).tolist() == [True, False]
    assert fa.unravel_index(fa.tensor([5], dtype=fa.uint8), (2, 3))[0].dtype is fa.int64
    with pytest.raises(ValueError, match="at least 1"):
        places = fa.zeros(1, 1, 2, 2, dtype=fa.int64)
        fa.nn.functional.max_unpool2d(fa.ones(1, 1, 2, 2), places, 2, -2)
