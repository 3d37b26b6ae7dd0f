"""Sparse tensors against SciPy's sparse arrays and NumPy's dense ones."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys

import facula
import numpy as np
import pytest
import scipy.sparse

LAYOUTS = ["coo", "csr", "csc"]


def random(m: int, n: int, density: float = 0.3, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((m, n)) * (rng.random((m, n)) < density)


def made(a: np.ndarray, layout: str = "coo") -> facula.Tensor:
    """The matrix by its components as SciPy has them."""
    s = getattr(scipy.sparse, layout + "_array")(a)
    if layout == "coo":
        return facula.sparse_coo_tensor(np.stack([s.row, s.col]), s.data, a.shape)
    make = facula.sparse_csr_tensor if layout == "csr" else facula.sparse_csc_tensor
    return make(s.indptr, s.indices, s.data, a.shape)


def same(x: facula.Tensor, a: np.ndarray, **kwargs: float) -> None:
    got = x.to_dense().detach().numpy()
    assert got.shape == np.shape(a)
    np.testing.assert_allclose(got, a, **{"rtol": 1e-12, "atol": 1e-12, **kwargs})


# ---- making and converting


@pytest.mark.parametrize("layout", LAYOUTS)
def test_components_and_conversions(layout):
    a = random(5, 7)
    x = made(a, layout)
    assert isinstance(x, facula.Tensor) and x.shape == (5, 7) and x.dtype == facula.float64
    assert str(x.layout) == "facula.sparse_" + layout
    assert x.is_sparse == (layout == "coo") and x.is_sparse_csr == (layout == "csr")
    assert x._nnz() == np.count_nonzero(a) and (x.sparse_dim(), x.dense_dim()) == (2, 0)
    same(x, a)
    for other in LAYOUTS:
        y = x.to_sparse(layout=getattr(facula, "sparse_" + other))
        assert str(y.layout) == "facula.sparse_" + other
        same(y, a)
    csr = x.to_sparse_csr()
    expected = scipy.sparse.csr_array(a)
    assert csr.crow_indices().tolist() == expected.indptr.tolist()
    assert csr.col_indices().tolist() == expected.indices.tolist()
    assert csr.values().tolist() == expected.data.tolist()
    csc = x.to_sparse_csc()
    expected = scipy.sparse.csc_array(a)
    assert csc.ccol_indices().tolist() == expected.indptr.tolist()
    assert csc.row_indices().tolist() == expected.indices.tolist()
    same(facula.tensor(a).to_sparse(layout=x.layout), a)


def test_blocks():
    a = random(4, 6, 0.2)
    for method, kind in (
        ("to_sparse_bsr", facula.sparse_bsr),
        ("to_sparse_bsc", facula.sparse_bsc),
    ):
        x = getattr(facula.tensor(a), method)((2, 3))
        assert x.layout is kind and x.values().shape[1:] == (2, 3)
        same(x, a)
        same(x.t(), a.T)
        same(x @ facula.ones(6, 2, dtype=facula.float64), a @ np.ones((6, 2)))
    expected = scipy.sparse.bsr_array(scipy.sparse.csr_array(a), blocksize=(2, 3))
    x = facula.tensor(a).to_sparse_bsr((2, 3))
    assert x.crow_indices().tolist() == expected.indptr.tolist()
    y = facula.sparse_bsr_tensor(expected.indptr, expected.indices, expected.data, a.shape)
    same(y, a)
    with pytest.raises(ValueError, match="divide"):
        facula.tensor(a).to_sparse_bsr((3, 3))


def test_several_values_in_a_place_and_dense_dims():
    i = np.array([[1, 0, 1, 1], [2, 0, 2, 0]])
    v = np.arange(8.0).reshape(4, 2)
    a = np.zeros((3, 4, 2))
    np.add.at(a, tuple(i), v)
    x = facula.sparse_coo_tensor(i, v, (3, 4, 2))
    assert not x.is_coalesced() and x._nnz() == 4 and x.dense_dim() == 1
    same(x, a)
    c = x.coalesce()
    assert c.is_coalesced() and c.indices().tolist() == [[0, 1, 1], [0, 0, 2]]
    same(c, a)
    assert c.coalesce() is c
    with pytest.raises(RuntimeError, match=r"coalesce\(\)"):
        x.values()
    assert x._values().shape == (4, 2)
    same(facula.tensor(a).to_sparse(2), a)
    assert facula.tensor(a).to_sparse(2).values().shape[1:] == (2,)
    same(facula.tensor(a).to_sparse(), a)


def test_sizes_beyond_memory():
    big = 10**9
    x = facula.sparse_coo_tensor([[5, 5, big - 1], [7, 7, 0]], [1.0, 2.0, 3.0], (big, big))
    c = x.coalesce()
    assert c.values().tolist() == [3.0, 3.0] and c.indices().tolist() == [[5, big - 1], [7, 0]]
    assert (c * 2).sum().item() == 12.0 and c.numel() == big * big
    assert facula.sparse.sum(x, 0).coalesce().values().tolist() == [3.0, 3.0]


def test_empty_and_scalar():
    x = facula.sparse_coo_tensor((3, 4))
    assert x._nnz() == 0 and x.to_dense().shape == (3, 4) and x.is_coalesced()
    same(x @ facula.ones(4, 2), np.zeros((3, 2)))
    assert facula.zeros(0, 3).to_sparse().to_dense().shape == (0, 3)
    assert facula.tensor(5.0).to_sparse().to_dense().item() == 5.0
    for layout in LAYOUTS:
        same(
            facula.zeros(2, 3).to_sparse(layout=getattr(facula, "sparse_" + layout)),
            np.zeros((2, 3)),
        )
    sized = facula.sparse_coo_tensor([[0, 2], [1, 0]], [1.0, 2.0])
    assert sized.shape == (3, 2)


def test_what_does_not_fit_is_refused():
    with pytest.raises(IndexError, match="dim 1 has size 2 and the index 5"):
        facula.sparse_coo_tensor([[0], [5]], [1.0], (2, 2))
    with pytest.raises(IndexError, match="-1"):
        facula.sparse_coo_tensor([[-1], [0]], [1.0], (2, 2))
    with pytest.raises(ValueError, match="2 columns of indices and 3 values"):
        facula.sparse_coo_tensor([[0, 1]], [1.0, 2.0, 3.0], (2,))
    with pytest.raises(ValueError, match="does not fit"):
        facula.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (2, 2))
    with pytest.raises(TypeError, match="integers"):
        facula.sparse_coo_tensor([[0.5]], [1.0], (2,))
    with pytest.raises(ValueError, match="begin with 0"):
        facula.sparse_csr_tensor([0, 2, 1], [0, 1], [1.0, 2.0], (2, 2))
    with pytest.raises(IndexError, match="col_indices"):
        facula.sparse_csr_tensor([0, 1, 2], [0, 2], [1.0, 2.0], (2, 2))
    with pytest.raises(ValueError, match="expected 4 for size"):
        facula.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0], (3, 2))
    unsorted = ([0, 2, 2], [1, 0], [1.0, 2.0], (2, 2))
    same(facula.sparse_csr_tensor(*unsorted), np.array([[2.0, 1.0], [0, 0]]))
    with pytest.raises(ValueError, match="rise"):
        facula.sparse_csr_tensor(*unsorted, check_invariants=True)
    with facula.sparse.check_sparse_tensor_invariants(), pytest.raises(ValueError, match="rise"):
        facula.sparse_csr_tensor(*unsorted)
    assert not facula.sparse.check_sparse_tensor_invariants.is_enabled()
    with pytest.raises(RuntimeError, match="strided, expected"):
        facula.ones(2, 2).indices()
    with pytest.raises(RuntimeError, match="sparse_csr"):
        made(random(2, 2)).crow_indices()
    unchecked = facula.sparse_csr_tensor(
        [0, 1, 9], [0, 1], [1.0, 2.0], (2, 2), check_invariants=False
    )
    with pytest.raises(IndexError):  # and not memory beyond
        unchecked @ facula.ones(2, 2)


# ---- products


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("columns", [0, 1, 3, 8, 70])
def test_products_with_strided_matrices(layout, columns):
    a, b = random(6, 9), random(9, columns, 1)
    x = made(a, layout)
    for product in (facula.mm, facula.matmul, facula.sparse.mm, lambda s, d: s @ d):
        same(product(x, facula.tensor(b)), a @ b)
    same(x.mm(facula.tensor(b)), a @ b)
    c = random(columns, 6, 1, 3)
    same(facula.tensor(c) @ x, c @ a)
    v = random(9, 1, 1)[:, 0]
    same(x @ facula.tensor(v), a @ v)
    same(x.mv(facula.tensor(v)), a @ v)
    same(facula.tensor(v[:6]) @ x, v[:6] @ a)
    same(x.t() @ facula.tensor(random(6, 2, 1)), a.T @ random(6, 2, 1))


def test_products_with_more():
    a, b = random(6, 9), random(9, 4, 1)
    x, i = made(a), random(6, 4, 1, 7)
    for found in (
        facula.addmm(facula.tensor(i), x, facula.tensor(b), beta=0.5, alpha=2),
        facula.sparse.addmm(facula.tensor(i), x, facula.tensor(b), beta=0.5, alpha=2),
    ):
        same(found, 0.5 * i + 2 * (a @ b))
    batch = np.stack([random(9, 2, 1, s) for s in range(3)])
    same(x @ facula.tensor(batch), a @ batch)
    whole = np.stack([random(4, 5, 0.4, s) for s in range(3)])
    other = np.stack([random(5, 2, 1, s) for s in range(3)])
    same(facula.bmm(facula.tensor(whole).to_sparse(), facula.tensor(other)), whole @ other)
    places = random(6, 4)
    for layout in LAYOUTS[:2]:
        found = facula.sparse.sampled_addmm(
            made(places, layout), facula.tensor(a), facula.tensor(b), beta=2.0, alpha=3.0
        )
        same(found, (places != 0) * (3 * (a @ b)) + 2 * places)
    with pytest.raises(ValueError, match="cannot be multiplied"):
        x @ facula.ones(5, 2, dtype=facula.float64)
    with pytest.raises(TypeError, match="dtype"):
        x @ facula.ones(9, 2)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_of_two_sparse_ones(layout):
    a, b = random(6, 9), random(9, 5)
    found = made(a, layout) @ made(b, layout)
    assert found.layout is made(a, layout).layout
    same(found, a @ b)
    expected = scipy.sparse.csr_array(a) @ scipy.sparse.csr_array(b)
    assert found._nnz() == expected.nnz


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "int8", "complex64"])
def test_products_in_other_dtypes(dtype):
    kind = getattr(facula, dtype)
    a, b = np.round(random(6, 9) * 3), np.round(random(9, 20, 1) * 2)
    x = facula.tensor(a).to(kind).to_sparse_csr()
    found = x @ facula.tensor(b).to(kind)
    assert found.dtype == kind
    np.testing.assert_array_equal(found.to(facula.complex128).real.numpy(), a @ b)


def test_reductions_of_products():
    a, b = np.abs(random(6, 9, 0.5)), random(9, 4, 1)
    a[2] = 0
    terms = [np.array([a[r, c] * b[c] for c in range(9) if a[r, c] != 0]) for r in range(6)]
    for how, f in (("sum", np.sum), ("mean", np.mean), ("amax", np.max), ("amin", np.min)):
        expected = np.stack([f(t, 0) if len(t) else np.zeros(4) for t in terms])
        for layout in ("coo", "csr"):
            same(facula.sparse.mm(made(a, layout), facula.tensor(b), how), expected)


def test_large_rows_by_many_threads():
    rng = np.random.default_rng(0)
    s = scipy.sparse.random_array(
        (3000, 2000), density=0.01, format="csr", rng=rng, dtype="float32"
    )
    d = rng.standard_normal((2000, 37), dtype=np.float32)
    x = facula.sparse_csr_tensor(s.indptr, s.indices, s.data, s.shape)
    np.testing.assert_allclose((x @ facula.tensor(d)).numpy(), s @ d, rtol=1e-4, atol=1e-4)
    before = facula.get_num_threads()
    found = x @ facula.tensor(d)
    facula.set_num_threads(1)
    try:
        assert facula.equal(x @ facula.tensor(d), found)
    finally:
        facula.set_num_threads(before)


# ---- element by element


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pointwise(layout):
    a, b = random(5, 7), random(5, 7, seed=2)
    x, y, d = made(a, layout), made(b, layout), random(5, 7, 1, 3)
    same(x + y, a + b)
    same(facula.add(x, y, alpha=3), a + 3 * b)
    same(x - y, a - b)
    same(x * y, a * b)
    same(x * 2.5, a * 2.5)
    same(3 * x, 3 * a)
    same(x / 4, a / 4)
    same(-x, -a)
    same(x * facula.tensor(2.0), a * 2)
    for mixed in (x * facula.tensor(d), facula.tensor(d) * x):
        assert mixed.layout is x.layout
        same(mixed, a * d)
    same(x * facula.tensor(d[0]), a * d[0])
    for total, expected in ((facula.tensor(d) + x, d + a), (facula.tensor(d) - x, d - a)):
        assert total.layout is facula.strided
        same(total, expected)
    same(x - facula.tensor(d), a - d)
    for name in "abs sin tanh relu sqrt expm1 sign square log1p asin floor".split():
        with np.errstate(all="ignore"):
            expected = getattr(np, {"asin": "arcsin"}.get(name, name), lambda t: np.maximum(t, 0))(
                a
            )
        same(getattr(facula, name)(x), expected)
        assert getattr(facula, name)(x).layout is x.layout
    same(x.abs().pow(2), a**2)
    same(x.clamp(-0.5, 0.5), a.clip(-0.5, 0.5))
    same(facula.nn.functional.leaky_relu(x, 0.1), np.where(a > 0, a, 0.1 * a))
    same(x != 0, a != 0)
    assert facula.isnan(x).dtype == facula.bool


def test_no_number_is_made_up():
    x = made(random(4, 4))
    for call in (
        lambda: facula.cos(x),
        lambda: facula.exp(x),
        lambda: x + 1,
        lambda: x == 0,
        lambda: x.clamp(min=1.0),
        lambda: 1 / x,
        lambda: facula.cumsum(x, 0),
        lambda: facula.linalg.svd(x),
        lambda: facula.nn.functional.conv1d(x.unsqueeze(0), facula.ones(1, 4, 1).double()),
        lambda: x.max(),
        lambda: x.sort(),
        lambda: x.numpy(),
        lambda: x.tolist(),
        lambda: x.item(),
        lambda: x.data_ptr(),
        lambda: np.asarray(x),
        lambda: x.stride(),
        lambda: x.storage(),
        lambda: memoryview(x),
        lambda: x.__setitem__(0, 1.0),
        lambda: facula.where(facula.ones(4, 4) > 0, x, x),
        lambda: x.logsumexp(0),
        lambda: facula.fft.fft(x),
        lambda: bool(x),
        lambda: float(made(random(1, 1, 1))),
        lambda: facula.from_dlpack(x),
    ):
        with pytest.raises((RuntimeError, TypeError, ValueError, BufferError)):
            call()
    with pytest.raises(NotImplementedError, match=r"cumsum\(\).*x\.to_dense\(\)"):
        facula.cumsum(x, 0)
    with pytest.raises(NotImplementedError, match=r"cos\(\).*zero becomes 1"):
        facula.cos(x)


def test_functions_of_sums_of_values():
    x = facula.sparse_coo_tensor([[0, 0]], [2.0, 3.0], (2,))
    same(x**2, [25.0, 0.0])
    same(x.relu(), [5.0, 0.0])
    same(facula.sqrt(x), [5.0**0.5, 0.0], rtol=1e-6)
    same(x * x, [25.0, 0.0])
    same(x * facula.tensor([2.0, 1.0]), [10.0, 0.0])
    same(x / 2, [2.5, 0.0])
    assert facula.linalg.vector_norm(x).item() == 5.0 and x.norm().item() == 5.0
    same(facula.div(x, 2, rounding_mode="floor"), [2.0, 0.0])


def test_in_place():
    a, b = random(5, 7), random(5, 7, seed=2)
    x, y = made(a), made(b)
    known = x
    x += y
    same(known, a + b)
    x *= 2
    same(known, 2 * (a + b))
    assert x is known
    x.zero_()
    assert known._nnz() == 0
    x.copy_(y)
    same(known, b)
    d = facula.tensor(random(5, 7, 1))
    before = d.numpy().copy()
    d += y
    same(d, before + b)
    d.sub_(y, alpha=2)
    same(d, before - b)
    t = facula.zeros(7, 5, dtype=facula.float64).t()
    t.add_(y, alpha=2)
    same(t, 2 * b)
    with pytest.raises(RuntimeError, match="cannot become strided"):
        y.add_(d)


def test_sums():
    a = random(4, 6)
    for layout in LAYOUTS:
        x = made(a, layout)
        assert x.sum().item() == pytest.approx(a.sum())
        for dim in (0, 1, -1):
            same(facula.sparse.sum(x, dim), a.sum(dim))
            same(x.sum(dim), a.sum(dim))
            same(x.sum(dim, keepdim=True), a.sum(dim, keepdims=True))
            same(x.mean(dim), a.mean(dim))
        same(x.sum((0, 1)), a.sum())
    h = facula.tensor(np.stack([a, 2 * a], 2)).to_sparse(2)
    for dims in (0, 1, 2, (0, 2), (0, 1), (1, 2)):
        same(facula.sparse.sum(h, dims), np.stack([a, 2 * a], 2).sum(dims))
    i = facula.tensor([[1, 0], [2, 3]]).to_sparse()
    assert i.sum().dtype == facula.int64 and i.sum(0).dtype == facula.int64


def test_softmax_is_of_what_is_kept():
    a = random(5, 7, 0.5)
    kept = np.where(a != 0, a, -np.inf)
    for dim in (0, 1):
        with np.errstate(all="ignore"):
            e = np.exp(kept - kept.max(dim, keepdims=True))
            expected = np.nan_to_num(e / e.sum(dim, keepdims=True))
        for layout in LAYOUTS:
            same(facula.sparse.softmax(made(a, layout), dim), expected)
        logs = facula.sparse.log_softmax(made(a), dim).coalesce()
        at = tuple(logs.indices().numpy())
        np.testing.assert_allclose(logs.values().numpy(), np.log(expected[at]), rtol=1e-10)


# ---- dims


def test_dims():
    a = np.stack([random(4, 5), random(4, 5, seed=1), random(4, 5, seed=2)])
    x = facula.tensor(a).to_sparse()
    same(x.transpose(0, 2), a.transpose(2, 1, 0))
    same(x.permute(1, 2, 0), a.transpose(1, 2, 0))
    same(x.unsqueeze(1), a[:, None])
    same(x.unsqueeze(-1).squeeze(-1), a)
    same(x.reshape(12, -1), a.reshape(12, 5))
    same(x.flatten(), a.reshape(-1))
    same(x.narrow(1, 1, 2), a[:, 1:3])
    same(x.index_select(2, facula.tensor([3, 0, 3])), a[:, :, [3, 0, 3]])
    same(x.select(0, -1), a[-1])
    same(x[1], a[1])
    same(x[:, 2, 1:4], a[:, 2, 1:4])
    same(x[..., 0], a[..., 0])
    same(x[None, :, [2, 0]], a[None, :, [2, 0]])
    same(x[::2, :, 1::2], a[::2, :, 1::2])
    same(x[1, 2, 3], a[1, 2, 3])
    same(facula.cat([x, x[:1]], 0), np.concatenate([a, a[:1]]))
    same(facula.stack([x, x], 1), np.stack([a, a], 1))
    for row, expected in zip(x, a, strict=True):
        same(row, expected)
    h = facula.tensor(a).to_sparse(2)
    same(h.index_select(2, facula.tensor([3, 0])), a[:, :, [3, 0]])
    same(facula.cat([h, h], 2), np.concatenate([a, a], 2))
    same(h.narrow(2, 1, 3), a[:, :, 1:4])
    same(h.transpose(0, 1), a.transpose(1, 0, 2))
    with pytest.raises(RuntimeError, match="do not change places"):
        h.transpose(0, 2)
    with pytest.raises(IndexError):
        x.narrow(0, 2, 5)
    with pytest.raises(IndexError):
        x.index_select(0, facula.tensor([3]))
    m = made(a[0], "csr")
    assert m.t().layout is facula.sparse_csc and m.t().t().layout is facula.sparse_csr
    same(m.t(), a[0].T)
    same(m[2], a[0][2])
    same(facula.cat([m, m], 1), np.concatenate([a[0], a[0]], 1))


def test_masks():
    a, d = random(5, 7), random(5, 7, 1, 4)
    for layout in LAYOUTS:
        x = made(a, layout)
        found = facula.tensor(d).sparse_mask(x)
        assert found.layout is x.layout and found._nnz() == x._nnz()
        same(found, d * (a != 0))
        same(made(d).sparse_mask(x), d * (a != 0))
    blocks = facula.tensor(a[:4, :6]).to_sparse_bsr((2, 2))
    assert facula.tensor(d[:4, :6]).sparse_mask(blocks).values().shape == blocks.values().shape
    with pytest.raises(TypeError, match="strided"):
        facula.tensor(d).sparse_mask(facula.tensor(a))


def test_dtypes_copies_and_comparisons():
    a = random(5, 7)
    for layout in LAYOUTS:
        x = made(a, layout)
        assert (
            x.float().dtype == facula.float32 and x.to(facula.complex64).dtype == facula.complex64
        )
        same(x.float(), a.astype(np.float32))
        same(x.to("cpu", facula.float64), a)
        y = x.clone()
        assert facula.equal(x, y) and facula.allclose(x, y)
        y._values().mul_(2)
        same(x, a)
        assert not facula.equal(x, y)
        same(copy.deepcopy(x), a)
        same(pickle.loads(pickle.dumps(x)), a)
        assert pickle.loads(pickle.dumps(x)).layout is x.layout
        assert facula.zeros_like(x)._nnz() == 0 and facula.zeros_like(x).layout is x.layout
        assert x.detach().layout is x.layout and copy.copy(x).layout is x.layout
        file = io.BytesIO()
        facula.save({"x": x, "layout": x.layout}, file)
        file.seek(0)
        back = facula.load(file)
        assert back["layout"] is x.layout and back["x"].layout is x.layout
        same(back["x"], a)
        assert x.requires_grad is False and x.is_leaf
        x.share_memory_()
        assert x.is_shared()
        same(x, a)
    assert facula.save and made(a).coalesce().is_coalesced()


def test_text():
    x = facula.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    assert repr(x) == (
        "tensor(indices=tensor([[0, 1],\n"
        "                       [2, 0]]),\n"
        "       values=tensor([3., 4.]),\n"
        "       size=(2, 3), nnz=2, layout=facula.sparse_coo)"
    )
    y = facula.eye(2, dtype=facula.float64).to_sparse_csr().requires_grad_()
    assert repr(y) == (
        "tensor(crow_indices=tensor([0, 1, 2]),\n"
        "       col_indices=tensor([0, 1]),\n"
        "       values=tensor([1., 1.], dtype=facula.float64),\n"
        "       size=(2, 2), nnz=2, dtype=facula.float64, layout=facula.sparse_csr, "
        "requires_grad=True)"
    )


def test_diagonals():
    d = np.arange(1.0, 10.0).reshape(3, 3)
    for shape in ((3, 3), (5, 4), (2, 3)):
        expected = scipy.sparse.dia_array((d, [0, 1, -2]), shape=shape).toarray()
        same(facula.sparse.spdiags(facula.tensor(d), facula.tensor([0, 1, -2]), shape), expected)
        x = facula.sparse.spdiags(
            facula.tensor(d), facula.tensor([0, 1, -2]), shape, facula.sparse_csr
        )
        same(x, expected)


def test_modules_take_sparse_inputs():
    a = random(5, 7).astype(np.float32)
    layer = facula.nn.Linear(7, 3)
    found = layer(made(a))
    np.testing.assert_allclose(
        found.detach().numpy(), layer(facula.tensor(a)).detach().numpy(), rtol=1e-5, atol=1e-6
    )
    found.sum().backward()
    np.testing.assert_allclose(layer.weight.grad.numpy(), np.tile(a.sum(0), (3, 1)), rtol=1e-5)

    class Graph(facula.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("adjacency", made(a @ a.T))

        def forward(self, x):
            return self.adjacency @ x

    graph = Graph().double()
    assert graph.adjacency.dtype == facula.float64
    twin = Graph().double()
    twin.load_state_dict(graph.state_dict())
    same(twin(facula.eye(5, dtype=facula.float64)), (a @ a.T), rtol=1e-5)


def test_sizes_may_grow():
    x = facula.sparse_coo_tensor([[0]], [1.0], (2,))
    x.sparse_resize_((4,), 1, 0)
    same(x, [1.0, 0, 0, 0])
    with pytest.raises(RuntimeError, match="larger"):
        x.sparse_resize_((1,), 1, 0)
    x.sparse_resize_and_clear_((2, 2), 2, 0)
    same(x, np.zeros((2, 2)))


def test_parameters_may_be_sparse():
    p = facula.nn.Parameter(facula.eye(3).to_sparse())
    assert type(p) is facula.nn.Parameter and p.layout is facula.sparse_coo and p.is_sparse
    assert p.coalesce().values().tolist() == [1.0] * 3 and "requires_grad=True" in repr(p)
    (p @ facula.full((3, 1), 2.0)).sum().backward()
    assert p.grad.is_sparse and p.grad._values().tolist() == [2.0] * 3


def test_sums_are_rounded_and_not_their_terms():
    x = facula.sparse_coo_tensor([[0, 0]], [0.5, 0.5], (2,))
    assert x.to(facula.int64).to_dense().tolist() == [1, 0]
    assert x.double()._nnz() == 2  # nothing is rounded
    assert x.type() == "facula.sparse.FloatTensor"


def test_programs_written_for_torch(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import torch\n"
        "x = torch.sparse.FloatTensor(torch.tensor([[0, 1], [1, 0]]), torch.ones(2), (2, 2))\n"
        "assert isinstance(x, torch.sparse.FloatTensor) and x.layout == torch.sparse_coo\n"
        "assert not isinstance(x, torch.sparse.LongTensor)\n"
        "print(torch.spmm(x, torch.ones(2, 1)).sum().item(), torch.sparse.sum(x).item(),"
        " x.layout)\n"
    )
    command = [sys.executable, "-m", "facula.as_torch", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.split() == ["2.0", "2.0", "torch.sparse_coo"]
