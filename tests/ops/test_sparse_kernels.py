"""Products with compressed rows, which no sample can say: their row starts must not fall."""

from __future__ import annotations

import facula
import numpy as np
import pytest
import scipy.sparse
from facula import _C

product, sampled = _C._ops._csr_product, _C._ops._csr_sampled
group = _C._ops._group_indices

# (rows, columns, density, columns of the other matrix)
CASES = [(5, 7, 0.4, 3), (1, 1, 1.0, 1), (4, 6, 0.0, 2), (30, 20, 0.2, 67), (3, 5, 0.5, 0)]


def matrix(rows: int, columns: int, density: float) -> scipy.sparse.csr_array:
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((rows, columns)) * (rng.random((rows, columns)) < density)
    return scipy.sparse.csr_array(dense)


def tensors(m: scipy.sparse.csr_array, index: str = "int64") -> list[facula.Tensor]:
    return [facula.tensor(p.astype(index)) for p in (m.indptr, m.indices)]


@pytest.mark.parametrize("index", ["int64", "int32"])
@pytest.mark.parametrize(("rows", "columns", "density", "k"), CASES)
def test_products(rows: int, columns: int, density: float, k: int, index: str) -> None:
    m = matrix(rows, columns, density)
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((rows, k)), rng.standard_normal((columns, k))
    crow, col = tensors(m, index)
    for dtype, tolerance in (("float64", 1e-13), ("float32", 1e-5), ("complex128", 1e-13)):
        kind = getattr(facula, dtype)
        found = product(crow, col, facula.tensor(m.data).to(kind), facula.tensor(b).to(kind))
        assert found.dtype == kind
        np.testing.assert_allclose(found.numpy(), m @ b, tolerance, tolerance)
        found = sampled(crow, col, facula.tensor(a).to(kind), facula.tensor(b).to(kind))
        lines = np.repeat(np.arange(rows), np.diff(m.indptr))
        np.testing.assert_allclose(
            found.numpy(), (a[lines] * b[m.indices]).sum(1), tolerance, tolerance
        )


def test_strided_operands() -> None:
    m = matrix(5, 7, 0.4)
    b = np.random.default_rng(1).standard_normal((6, 14))
    crow, col = tensors(m)
    values = facula.tensor(np.repeat(m.data, 2))[::2]
    wide = facula.tensor(b)[::2, ::2].t()
    np.testing.assert_allclose(product(crow, col, values, wide).numpy(), m @ b[::2, ::2].T, 1e-13)


@pytest.mark.parametrize(("rows", "columns", "density", "k"), CASES)
def test_derivatives(rows: int, columns: int, density: float, k: int) -> None:
    if rows * columns * k > 200:
        rows, columns, k = 4, 3, 2
    m = matrix(rows, columns, density)
    crow, col = tensors(m)
    rng = np.random.default_rng(1)
    values = facula.tensor(m.data, requires_grad=True)
    a = facula.tensor(rng.standard_normal((rows, k)), requires_grad=True)
    b = facula.tensor(rng.standard_normal((columns, k)), requires_grad=True)
    options = {"check_forward_ad": True}
    for f, args in ((product, (values, b)), (sampled, (a, b))):
        assert facula.autograd.gradcheck(lambda *x, f=f: f(crow, col, *x), args, **options)
        assert facula.autograd.gradgradcheck(lambda *x, f=f: f(crow, col, *x), args)


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize(("count", "groups"), [(0, 3), (1, 1), (200, 7), (50, 1000)])
def test_groups(count: int, groups: int, dtype: str) -> None:
    index = np.random.default_rng(0).integers(0, groups, count)
    starts, order = group(facula.tensor(index.astype(dtype)), groups)
    expected = np.argsort(index, kind="stable")
    np.testing.assert_array_equal(order.numpy(), expected)
    np.testing.assert_array_equal(
        starts.numpy(), np.searchsorted(index[expected], np.arange(groups + 1))
    )


def test_decompositions() -> None:
    """What devices without the kernels run."""
    m = matrix(5, 7, 0.4)
    crow, col = tensors(m)
    rng = np.random.default_rng(1)
    values = facula.tensor(m.data)
    a, b = facula.tensor(rng.standard_normal((5, 3))), facula.tensor(rng.standard_normal((7, 3)))
    calls = {
        "_csr_product": lambda: product(crow, col, values, b),
        "_csr_sampled": lambda: sampled(crow, col, a, b),
        "_group_indices": lambda: facula.stack([t[:9] for t in group(col, 8)]),
    }
    for name, call in calls.items():
        expected = call()
        kernel = _C._swap_cpu_kernel(name, 0)
        try:
            found = call()
        finally:
            _C._swap_cpu_kernel(name, kernel)
        np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-13)


def test_no_memory_beyond_is_read() -> None:
    crow, col = facula.tensor([0, 1, 2]), facula.tensor([0, 1])
    values, dense = facula.ones(2), facula.ones(2, 3)
    for bad in ([0, 3, 2], [0, 1, 9], [-1, 1, 2], [0, 2, 1]):
        for call in (
            lambda c: product(c, col, values, dense),
            lambda c: sampled(c, col, facula.ones(2, 3), dense),
        ):
            with pytest.raises(IndexError, match="crow must not fall"):
                call(facula.tensor(bad))
    for k in (1, 3, 40):
        for bad in ([0, 2], [-1, 0]):
            with pytest.raises(IndexError, match="column"):
                product(crow, facula.tensor(bad), values, facula.ones(2, k))
            with pytest.raises(IndexError, match="column"):
                sampled(crow, facula.tensor(bad), facula.ones(2, k), facula.ones(2, k))
    for bad in ([0, 5], [-1, 0]):
        with pytest.raises(IndexError, match="not within the 3 groups"):
            group(facula.tensor(bad), 3)
    misfit = (RuntimeError, TypeError, ValueError)
    with pytest.raises(misfit, match="expected one dim"):
        product(facula.tensor([[0, 1]]), col, values, dense)
    with pytest.raises(misfit, match="same dtype"):
        product(crow, col, values, dense.double())
    with pytest.raises(misfit, match="is empty"):
        product(facula.zeros(0, dtype=facula.int64), col, values, dense)


def test_entries_of_no_row_count_for_nothing() -> None:
    crow, col = facula.tensor([1, 2, 2]), facula.tensor([0, 1, 1])
    dense = facula.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert product(crow, col, facula.ones(3), dense).tolist() == [[3.0, 4.0], [0.0, 0.0]]
    assert sampled(crow, col, dense, dense).tolist() == [0.0, 11.0, 0.0]


# ---- products of two ----

starts_of, both, both_sampled = (
    _C._ops._csr_csr_starts,
    _C._ops._csr_csr_product,
    _C._ops._csr_csr_sampled,
)
# (rows, inner, columns, density)
PAIRS = [
    (5, 7, 4, 0.4),
    (1, 1, 1, 1.0),
    (4, 6, 3, 0.0),
    (0, 3, 2, 0.5),
    (3, 0, 2, 1.0),
    (400, 300, 500, 0.05),
]


def pair(
    rows: int, inner: int, columns: int, density: float, index: str = "int64"
) -> tuple[list[facula.Tensor], list[facula.Tensor], scipy.sparse.csr_array]:
    a, b = matrix(rows, inner, density), matrix(columns, inner, density).T.tocsr()
    made = [[*tensors(m, index), facula.tensor(m.data)] for m in (a, b)]
    expected = (a @ b).tocsr()
    expected.sort_indices()
    return made[0], made[1], expected


def product_of(a: list[facula.Tensor], b: list[facula.Tensor], columns: int) -> list[facula.Tensor]:
    starts = starts_of(*a[:2], *b[:2], columns)
    values, places = both(*a, *b, columns, starts, int(starts[-1]))
    return [starts, places, values]


@pytest.mark.parametrize("index", ["int64", "int32"])
@pytest.mark.parametrize("sizes", PAIRS)
def test_products_of_two(sizes: tuple[int, int, int, float], index: str) -> None:
    a, b, expected = pair(*sizes, index)
    for dtype, tolerance in (("float64", 1e-13), ("float32", 1e-4), ("complex128", 1e-13)):
        kind = getattr(facula, dtype)
        starts, places, values = product_of(
            [*a[:2], a[2].to(kind)], [*b[:2], b[2].to(kind)], sizes[2]
        )
        np.testing.assert_array_equal(starts.numpy(), expected.indptr)
        np.testing.assert_array_equal(places.numpy(), expected.indices)
        np.testing.assert_allclose(values.numpy(), expected.data, tolerance, tolerance)
        assert values.dtype == kind


def test_places_of_a_product() -> None:
    a, b, expected = pair(30, 20, 40, 0.2)
    mask = matrix(30, 40, 0.3)
    found = both_sampled(*a, *b, 40, *tensors(mask))
    lines = np.repeat(np.arange(30), np.diff(mask.indptr))
    np.testing.assert_allclose(found.numpy(), expected.toarray()[lines, mask.indices], 1e-13, 1e-13)


def test_derivatives_of_products_of_two() -> None:
    a, b, _ = pair(4, 5, 3, 0.5)
    mask = tensors(matrix(4, 3, 0.7))
    x, y = a[2].requires_grad_(), b[2].requires_grad_()
    calls = (
        lambda v, w: product_of([*a[:2], v], [*b[:2], w], 3)[2],
        lambda v, w: both_sampled(*a[:2], v, *b[:2], w, 3, *mask),
    )
    for call in calls:
        assert facula.autograd.gradcheck(call, (x, y), check_forward_ad=True)
        assert facula.autograd.gradgradcheck(call, (x, y))
        z = [(t.detach() * (1 + 0.5j)).requires_grad_() for t in (x, y)]
        assert facula.autograd.gradcheck(call, z, check_forward_ad=True)


@pytest.mark.parametrize("sizes", PAIRS[:5])
def test_decompositions_of_products_of_two(sizes: tuple[int, int, int, float]) -> None:
    a, b, _ = pair(*sizes)
    mask = tensors(matrix(sizes[0], sizes[2], 0.6))
    calls = {
        "_csr_csr_starts": lambda: [starts_of(*a[:2], *b[:2], sizes[2])],
        "_csr_csr_product": lambda: product_of(a, b, sizes[2]),
        "_csr_csr_sampled": lambda: [both_sampled(*a, *b, sizes[2], *mask)],
    }
    for name, call in calls.items():
        expected = call()
        kernel = _C._swap_cpu_kernel(name, 0)
        try:
            found = call()
        finally:
            _C._swap_cpu_kernel(name, kernel)
        for f, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(f.numpy(), e.numpy(), 1e-13, 1e-13)


def test_products_of_two_read_no_memory_beyond() -> None:
    a = [facula.tensor([0, 1, 2]), facula.tensor([0, 1]), facula.ones(2)]
    starts = starts_of(*a[:2], *a[:2], 2)
    for bad in ([0, 3, 2], [0, 1, 9], [-1, 1, 2], [0, 2, 1]):
        for first, second in (([facula.tensor(bad), *a[1:]], a), (a, [facula.tensor(bad), *a[1:]])):
            with pytest.raises(IndexError, match="crow must not fall"):
                starts_of(*first[:2], *second[:2], 2)
            with pytest.raises(IndexError, match=r"crow must not fall|starts has"):
                both(*first, *second, 2, starts, 2)
            with pytest.raises(IndexError, match="crow must not fall"):
                both_sampled(*first, *second, 2, *a[:2])
    for bad in ([0, 5], [-1, 0]):
        with pytest.raises(IndexError, match="column"):
            starts_of(*a[:2], a[0], facula.tensor(bad), 2)
        with pytest.raises(IndexError, match="column"):
            both_sampled(*a, *a, 2, a[0], facula.tensor(bad))
    for bad in ([0, 2, 2], [0, 0, 1], [1, 2, 3], [-1, 0, 1]):
        with pytest.raises(IndexError, match="starts has"):
            both(*a, *a, 2, facula.tensor(bad), 2)
    misfit = (RuntimeError, TypeError, ValueError)
    with pytest.raises(misfit, match="same dtype"):
        both(*a, *a[:2], a[2].double(), 2, starts, 2)
    with pytest.raises(misfit, match="both begin the same rows"):
        both_sampled(*a, *a, 2, facula.tensor([0, 2]), a[1])
