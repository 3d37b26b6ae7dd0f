"""One element for each place of a row, another for the next: outer products and their like."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest

from tests.grouped import grouped

DTYPES = ["uint8", "int16", "float32", "float64", "complex128"]


def _numbers(dtype: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 200, shape).astype(dtype)


@grouped(
    ("dtype", "rows"), [pytest.param(d, r, id=f"{d}-{r}") for d in DTYPES for r in (1, 2, 31, 200)]
)
def test_copies_and_outer_products(dtype: str, rows: int) -> None:
    for n in (*range(1, 37), 63, 64, 65, 255, 257, 1025):
        left, right = _numbers(dtype, rows, 1), _numbers(dtype, 1, n)
        a, b = fa.tensor(left), fa.tensor(right)
        np.testing.assert_array_equal(a.expand(rows, n).contiguous(), np.repeat(left, n, 1))
        np.testing.assert_array_equal(a * b, left * right)
        target = fa.zeros(n, rows, dtype=a.dtype)
        np.testing.assert_array_equal(fa.mul(a.t(), b.t(), out=target), (left * right).T)


def test_every_other_element_is_spread() -> None:
    """Over the inner and the outer of the dims that a box has."""
    x = np.arange(48.0).reshape(4, 3, 2, 2)
    t = fa.tensor(x)[:, ::2, :, :1]
    want = np.broadcast_to(x[:, ::2, :, :1], (4, 2, 2, 9))
    np.testing.assert_array_equal(
        t.expand(4, 2, 2, 9).clone(memory_format=fa.contiguous_format), want
    )
    y = np.arange(36.0).reshape(4, 1, 1, 9)
    np.testing.assert_array_equal(t + fa.tensor(y), want + y)


def test_per_sample_outer_products() -> None:
    for batch, m, n in ((3, 5, 7), (16, 64, 32), (200, 16, 9), (64, 64, 64)):
        left, right = np.random.default_rng(0).random((2, batch, m * n))
        left, right = left[:, :m, None], right[:, None, :n]
        np.testing.assert_array_equal(fa.tensor(left) * fa.tensor(right), left * right)
