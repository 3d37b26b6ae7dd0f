"""Indexing that reaches strips, rows and streaming stores, at one thread and at several."""

from __future__ import annotations

from collections.abc import Iterator

import facula as fa
import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = fa.get_num_threads()
    yield
    fa.set_num_threads(before)


def threads() -> Iterator[int]:
    """One thread, then several: what NumPy finds is computed once for both."""
    for count in (1, 3):
        fa.set_num_threads(count)
        yield count


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def summed(x: np.ndarray, index: np.ndarray, values: np.ndarray) -> np.ndarray:
    """x with each row of values added to the row of its index, as np.add.at of whole numbers."""
    index = index % len(x)
    order = np.argsort(index, kind="stable")
    rows, starts = np.unique(index[order], return_index=True)
    out = x.copy()
    out[rows] = x[rows] + np.add.reduceat(values[order], starts, axis=0)
    return out


def placed(x: np.ndarray, index: np.ndarray, values: np.ndarray) -> np.ndarray:
    """x with each row of values in the place of its index, the last of several."""
    last = np.full(len(x), -1)
    np.maximum.at(last, index % len(x), np.arange(len(index)))
    return np.where((last >= 0)[:, None], values[last], x)


def places(index: np.ndarray, dim: int) -> tuple:
    grid = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    grid[dim] = index
    return tuple(grid)


# The table's shape and how many indices stand along the dim.
CASES = [
    ((2048, 1100), 0, 2048),
    ((2048, 1100), 1, 1100),
    ((2100, 1024), 0, 500),
    ((70, 30_011), 0, 100),
    ((5, 300, 37), 1, 200),
    ((129, 1), 0, 4),
    ((3, 70_001), 1, 70_001),
]


@pytest.mark.parametrize(("shape", "dim", "count"), CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8"])
def test_gather_and_scatter(rng, shape, dim, count, dtype):
    x = rng.integers(0, 100, shape).astype(dtype)
    many = (*shape[:dim], count, *shape[dim + 1 :])
    index = rng.integers(0, shape[dim], many)
    values = rng.integers(0, 100, many).astype(dtype)
    t, i, v = fa.tensor(x), fa.tensor(index), fa.tensor(values)
    at = places(index, dim)
    gathered, total, largest, filled, unique = x[at], x.copy(), x.copy(), x.copy(), x.copy()
    np.add.at(total, at, values)
    np.maximum.at(largest, at, values)
    filled[at] = 7
    # Places that are written once, as NumPy promises no order.
    once = rng.permuted(
        np.broadcast_to(np.arange(shape[dim]), many[:dim] + many[dim + 1 :] + shape[dim : dim + 1]),
        axis=-1,
    )
    once = np.moveaxis(once, -1, dim).take(range(min(count, shape[dim])), dim)
    o, w = fa.tensor(once.copy()), v.narrow(dim, 0, once.shape[dim])
    unique[places(once, dim)] = w.numpy()
    for _ in threads():
        np.testing.assert_array_equal(t.gather(dim, i).numpy(), gathered)
        np.testing.assert_array_equal(t.scatter_add(dim, i, v).numpy(), total)
        np.testing.assert_array_equal(t.clone().scatter_add_(dim, i, v).numpy(), total)
        np.testing.assert_array_equal(t.scatter_reduce(dim, i, v, "amax").numpy(), largest)
        np.testing.assert_array_equal(t.scatter(dim, i, 7).numpy(), filled)
        np.testing.assert_array_equal(t.scatter(dim, o, w).numpy(), unique)
        np.testing.assert_array_equal(t.numpy(), x)


def test_other_layouts(rng):
    x, values = rng.integers(0, 100, (2, 2048, 1100)).astype(np.float32)
    index = rng.integers(0, 1100, (2048, 1100))
    t, i, v = fa.tensor(x), fa.tensor(index), fa.tensor(values)
    columns = [a.t().contiguous().t() for a in (t, i, v)]
    gathered, want = x[places(index, 1)], x.copy()
    np.add.at(want, places(index, 1), values)
    for _ in threads():
        for a, b, c in [columns, (t, columns[1], v), (columns[0], i, v), (t, i, columns[2])]:
            np.testing.assert_array_equal(a.gather(1, b).numpy(), gathered)
            np.testing.assert_array_equal(a.scatter_add(1, b, c).numpy(), want)
        out = fa.empty(1100, 2048).t()
        fa.scatter_add(t, 1, i, v, out=out)
        np.testing.assert_array_equal(out.numpy(), want)
        np.testing.assert_array_equal(t.scatter_add(1, i[:1000, :70], v).numpy()[1000:], x[1000:])


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("bad", [-1, 1024])
def test_bad_index_far_in(rng, dim, bad):
    x = fa.tensor(rng.random((1024, 1024), dtype=np.float32))
    index = rng.integers(0, 1024, (1024, 1024))
    index[900, 901] = index[1000, 3] = bad
    i, before = fa.tensor(index), x.numpy().copy()
    match = f"index {bad} is out of range for dim {dim} of size 1024"
    calls = (
        lambda: x.gather(dim, i),
        lambda: x.scatter(dim, i, x.clone()),
        lambda: x.scatter(dim, i, 0),
        lambda: x.scatter_add(dim, i, x.clone()),
        lambda: x.scatter_add_(dim, i, x.clone()),
        lambda: x.scatter_reduce(dim, i, x.clone(), "mean", include_self=False),
    )
    for _ in threads():
        for call in calls:
            with pytest.raises(IndexError, match=match):
                call()
    np.testing.assert_array_equal(x.numpy(), before)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int8", "complex64", "bool"])
@pytest.mark.parametrize("width", [64, 77, 130, None])
def test_rows(rng, dtype, width):
    rows, count = 8192, 9000
    width = width or 1600 // np.dtype(dtype).itemsize  # whole lines, so many that they are streamed
    x = rng.integers(-9, 9, (rows, width)).astype(dtype)
    values = rng.integers(-9, 9, (count, width)).astype(dtype)
    index = rng.integers(-rows, rows, count)
    t, i, v = fa.tensor(x), fa.tensor(index), fa.tensor(values)
    total, last = summed(x, index, values), placed(x, index, values)
    from_zero = fa.tensor(index % rows)
    for _ in threads():
        for accumulate, want in ((True, total), (False, last)):
            np.testing.assert_array_equal(t.index_put((i,), v, accumulate=accumulate).numpy(), want)
            c = t.clone()
            c.index_put_((i,), v, accumulate=accumulate)
            np.testing.assert_array_equal(c.numpy(), want)
        np.testing.assert_array_equal(t.index_copy(0, from_zero, v).numpy(), last)
        np.testing.assert_array_equal(t.index_add(0, from_zero, v).numpy(), total)
        out = fa.zeros(rows, width + 3, dtype=t.dtype)
        fa.index_add(t, 0, from_zero, v, out=out[:, 2:-1])
        np.testing.assert_array_equal(out[:, 2:-1].numpy(), total)
        np.testing.assert_array_equal(t.numpy(), x)


def test_embedding_gradient(rng):
    index, grad = rng.integers(0, 5000, 9000), rng.integers(-9, 9, (9000, 48)).astype(np.float32)
    weight = fa.zeros(5000, 48, requires_grad=True)
    want = np.zeros((5000, 48), np.float32)
    np.add.at(want, index, grad)
    for _ in threads():
        out = fa.nn.functional.embedding(fa.tensor(index), weight)
        (got,) = fa.autograd.grad(out, weight, fa.tensor(grad))
        np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64", "complex128"])
def test_rows_in_other_orders(rng, dtype):
    # A third of the widest is still past the size from which results are streamed.
    rows = min(1700, 5600 // np.dtype(dtype).itemsize)
    x = rng.integers(0, 100, (3, rows, 1601)).astype(dtype)
    t = fa.tensor(x)
    for _ in threads():
        for dims in ([0], [1], [2], [0, 2], [0, 1, 2]):
            np.testing.assert_array_equal(t.flip(dims).numpy(), np.flip(x, dims))
        np.testing.assert_array_equal(t.permute(1, 0, 2).contiguous().numpy(), x.transpose(1, 0, 2))
        np.testing.assert_array_equal(t[:, :, ::3].contiguous().numpy(), x[:, :, ::3])
        np.testing.assert_array_equal(t[:, 1::2, 5:].contiguous().numpy(), x[:, 1::2, 5:])


def test_a_table_that_is_its_own_index():
    """What is written into it must not be read as an index."""
    for _ in threads():
        far = 10**9
        want = np.array([1, 0])
        want[want.copy()] = [far, 5]
        x = fa.tensor([1, 0])
        x[x] = fa.tensor([far, 5])
        np.testing.assert_array_equal(x.numpy(), want)
        want = np.array([1, 0])
        np.add.at(want, want.copy(), [far, far])
        for name in ("index_add_", "index_copy_"):
            x = fa.tensor([1, 0])
            getattr(x, name)(0, x, fa.tensor([far, far]))
            np.testing.assert_array_equal(x.numpy(), want if name == "index_add_" else [far, far])
        x = fa.tensor([1, 0])
        x.index_put_((x,), fa.tensor([far, far]), accumulate=True)
        np.testing.assert_array_equal(x.numpy(), want)
        x = fa.tensor([1, 0])
        x.put_(x, fa.tensor([far, far]))
        x = fa.tensor([1, 0])
        x.index_fill_(0, x, far)
        assert x.tolist() == [far, far]


def test_columns_of_any_number_are_shared_out(rng):
    for columns in (64, 65, 130, 1088, 2049, 4100):
        a, x = rng.integers(-3, 4, (33, columns)), rng.integers(-3, 4, 33)
        for dtype in (fa.float32, fa.float64, fa.bfloat16):
            want = fa.tensor(x @ a).to(dtype)
            for _ in threads():
                found = fa.tensor(x).to(dtype) @ fa.tensor(a).to(dtype)
                np.testing.assert_array_equal(found.double().numpy(), want.double().numpy())
