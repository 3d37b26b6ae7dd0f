"""Products of operands with any strides and offsets: rows that overlap, repeat, or lie apart.

What folds into one matrix depends on strides; each combination of small ones is tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import facula as fa
import numpy as np
import pytest

Array = np.ndarray
OFFSET = 5
BUFFER = np.random.default_rng(5).integers(-4, 5, 400).astype(np.float64)
STRIDES = (0, 1, 2, 3, 4, 7, 12)


def both(shape: tuple[int, ...], strides: tuple[int, ...], dtype: str) -> tuple[fa.Tensor, Array]:
    """The same view of a buffer of small whole numbers, whose products are exact."""
    data = BUFFER.astype(dtype)
    bytes_ = [s * data.itemsize for s in strides]
    seen = np.lib.stride_tricks.as_strided(data[OFFSET:], shape, bytes_)
    return fa.tensor(data).as_strided(shape, strides, OFFSET), seen


def dense(shape: tuple[int, ...], dtype: str) -> tuple[fa.Tensor, Array]:
    values = np.resize(BUFFER[::-1], shape).astype(dtype)
    return fa.tensor(values), values


PRODUCTS: dict[str, tuple[tuple[int, ...], tuple[int, ...], Callable[..., fa.Tensor]]] = {
    "linear": ((2, 3, 4), (4, 5), lambda x, w: fa.nn.functional.linear(x, w.t())),
    "linear of 4 dims": ((2, 1, 3, 2), (2, 3), lambda x, w: fa.nn.functional.linear(x, w.t())),
    "matmul": ((2, 3, 4), (4, 5), fa.matmul),
    "by a vector": ((2, 3, 4), (4,), fa.matmul),
    "bmm": ((2, 3, 4), (2, 4, 3), fa.bmm),
    "mm": ((3, 4), (4, 5), fa.mm),
    "mv": ((3, 4), (4,), fa.mv),
    "dot": ((4,), (4,), fa.dot),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_left_operand_of_any_strides(name: str, dtype: str) -> None:
    shape, other, run = PRODUCTS[name]
    right, known = dense(other, dtype)
    for strides in itertools.product(STRIDES, repeat=min(len(shape), 3)):
        strides = (*strides[:1], *[6] * (len(shape) - 3), *strides[1:])
        x, seen = both(shape, strides, dtype)
        want = np.matmul(seen, known)
        np.testing.assert_array_equal(run(x, right).numpy(), want, err_msg=str(strides))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_right_operand_of_any_strides(name: str, dtype: str) -> None:
    shape, other, run = PRODUCTS[name]
    left, known = dense(shape, dtype)
    for strides in itertools.product(STRIDES, repeat=len(other)):
        x, seen = both(other, strides, dtype)
        want = np.matmul(known, seen)
        np.testing.assert_array_equal(run(left, x).numpy(), want, err_msg=str(strides))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64"])
def test_results_of_any_strides(dtype: str) -> None:
    a, b = dense((3, 4), dtype), dense((4, 5), dtype)
    want = a[1] @ b[1]
    for strides in ((5, 1), (1, 3), (9, 2), (2, 9), (1, 7), (30, 4), (11, 1)):
        place = fa.full((200,), 7, dtype=getattr(fa, dtype))
        out = place.as_strided((3, 5), strides, OFFSET)
        fa.mm(a[0], b[0], out=out)
        np.testing.assert_array_equal(out.numpy(), want)
        touched = {OFFSET + i * strides[0] + j * strides[1] for i in range(3) for j in range(5)}
        others = [k for k in range(200) if k not in touched]
        assert (place.numpy()[others] == 7).all(), strides
        out.fill_(1).addmm_(a[0], b[0], beta=2, alpha=3)
        np.testing.assert_array_equal(out.numpy(), 2 + 3 * want)
        assert (place.numpy()[others] == 7).all(), strides
    for stride in (1, 2, 5):
        place = fa.full((200,), 7, dtype=getattr(fa, dtype))
        out = place.as_strided((3,), (stride,), OFFSET)
        fa.mv(a[0], b[0][:, 1], out=out)
        np.testing.assert_array_equal(out.numpy(), want[:, 1])
        assert int((place.numpy() != 7).sum()) <= 3


@pytest.mark.parametrize("shape", [(300, 60, 260), (60, 300, 260), (17, 600, 450)])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_products_on_threads(dtype: str, shape: tuple[int, int, int]) -> None:
    """Pieces of the longer side, each by itself, as their sizes are worth it."""
    m, n, k = shape
    draw = np.random.default_rng(6)
    a, b = (
        (draw.integers(-3, 4, s) + 1j * draw.integers(-3, 4, s)).astype(dtype)
        for s in ((m, k), (k, n))
    )
    threads = fa.get_num_threads()
    try:
        for count in (1, 3):
            fa.set_num_threads(count)
            for left, right in itertools.product((a, np.asfortranarray(a)), (b, b.T.copy().T)):
                got = fa.mm(fa.from_numpy(left), fa.from_numpy(right))
                np.testing.assert_array_equal(got.numpy(), a @ b)
    finally:
        fa.set_num_threads(threads)
