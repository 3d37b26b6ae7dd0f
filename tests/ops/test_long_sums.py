"""Sums of many equal terms, of which one sum in their dtype loses digits: a million times 0.01 in
float32 is 9865 so, where 10000 is right. Every operator that adds up, in every layout."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import facula as fa
import facula.nn.functional as F
import numpy as np
import pytest
from facula.testing._samples import operators
from grouped import grouped
from long_sums import (
    LAYOUTS,
    LIMIT,
    PRODUCT,
    SHALLOW,
    SUM,
    TERM,
    Compute,
    N,
    expanded,
    full,
    gradients,
    near,
    strided,
    threads,
)

__all__ = ["threads"]  # a fixture of every test here

# ---- every element of a vector, or of the rows of a matrix ----

HALVES = (np.arange(N) % 2).astype(float)  # of zeros and ones, whose spread is known


def alternating(make: Callable[..., Any]) -> Any:
    x = make(N, value=0.0)
    if make is expanded:
        return fa.as_tensor(HALVES, dtype=fa.float32)
    x[1::2] = 1
    return x


# By operator of the schema, or by name: what it computes of n terms, and the exact value.
VECTORS: dict[str, tuple[Compute, float]] = {
    "sum": (lambda x: x.sum(), SUM),
    "mean": (lambda x: x.mean(), TERM),
    "nansum": (lambda x: x.nansum(), SUM),
    "nanmean": (lambda x: x.nanmean(), TERM),
    "count_nonzero": (lambda x: fa.count_nonzero(x).double(), N),
    "prod": (lambda x: (x * 0.001 + 1).prod(), float(np.float32(1.00001)) ** N),
    "linalg_vector_norm": (lambda x: fa.linalg.vector_norm(x), TERM * math.sqrt(N)),
    "norm of 1": (lambda x: fa.linalg.vector_norm(x, 1), SUM),
    "norm of 3": (lambda x: fa.linalg.vector_norm(x, 3), TERM * N ** (1 / 3)),
    "logsumexp": (lambda x: x.logsumexp(0), TERM + math.log(N)),
    "softmax": (lambda x: x.softmax(0)[:3], 1 / N),
    "log_softmax": (lambda x: x.log_softmax(0)[:3], -math.log(N)),
    "cumsum": (lambda x: x.cumsum(0), TERM * np.arange(1, N + 1)),
    "logcumsumexp": (lambda x: x.logcumsumexp(0), TERM + np.log(np.arange(1, N + 1))),
    "dot": (lambda x: x.dot(x * 0 + 1), SUM),
    "dot with a vector in steps": (lambda x: x.dot(strided(N, value=1.0)), SUM),
    "vdot": (lambda x: fa.vdot(x, x * 0 + 1), SUM),
    "inner": (lambda x: fa.inner(x, x * 0 + 1), SUM),
    "einsum": (lambda x: fa.einsum("i,i->", x, x), TERM * SUM),
    "tensordot": (lambda x: fa.tensordot(x, x, 1), TERM * SUM),
    "linalg.vecdot": (lambda x: fa.linalg.vecdot(x, x), TERM * SUM),
    "dist": (lambda x: fa.dist(x, 2 * x, 1), SUM),
    "trapezoid": (lambda x: fa.trapezoid(x), TERM * (N - 1)),
    "cumulative_trapezoid": (lambda x: fa.cumulative_trapezoid(x)[-1], TERM * (N - 1)),
    "cdist": (lambda x: fa.cdist(2 * x[None], x[None], 1.0), SUM),
    "pairwise_distance": (lambda x: F.pairwise_distance(2 * x, x, 1, eps=0), SUM),
    "cosine_similarity": (lambda x: F.cosine_similarity(x, x, 0), 1),
    "normalize": (lambda x: F.normalize(x, dim=0)[:3], 1 / math.sqrt(N)),
    "renorm": (lambda x: x[None].renorm(2, 0, 1.0)[0, :3], 1 / math.sqrt(N)),
    "masked.sum": (lambda x: fa.masked.sum(x, mask=x > 0), SUM),
    "masked.mean": (lambda x: fa.masked.mean(x, mask=x > 0), TERM),
    "masked.norm": (lambda x: fa.masked.norm(x, 2, mask=x > 0), TERM * math.sqrt(N)),
    "l1_loss": (lambda x: F.l1_loss(x, x * 0, reduction="sum"), SUM),
    "mse_loss": (lambda x: F.mse_loss(x, x * 0, reduction="sum"), TERM * SUM),
    "binary_cross_entropy": (
        lambda x: F.binary_cross_entropy(x, x * 0, reduction="sum"),
        -math.log1p(-TERM) * N,
    ),
    "nll_loss": (
        lambda x: F.nll_loss(-x[:, None], fa.zeros(N, dtype=fa.int64), reduction="sum"),
        SUM,
    ),
    "cross_entropy": (
        lambda x: F.cross_entropy(
            fa.stack([x, x], 1), fa.zeros(N, dtype=fa.int64), reduction="sum"
        ),
        math.log(2) * N,
    ),
    "weights of a loss": (
        lambda x: F.cross_entropy(
            x[:, None].expand(N, 2),
            fa.zeros(N, dtype=fa.int64),
            fa.tensor([0.01, 1]),
            reduction="sum",
        ),
        math.log(2) * SUM,
    ),
    "layer_norm": (
        lambda x: F.layer_norm(alternating(full) + x * 0, (N,), eps=0.0)[:1],
        -math.sqrt((N - 1) / (N + 1)),
    ),
    "avg_pool1d": (lambda x: F.avg_pool1d(x[None, None], N), TERM),
    "avg_pool1d, many": (lambda x: F.avg_pool1d(x[None, None], 5000, 100), TERM),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x[None, None], 3), TERM),
    "lp_pool1d": (lambda x: F.lp_pool1d(x[None, None], 2, N), TERM * math.sqrt(N)),
    "interpolate": (lambda x: F.interpolate(x[None, None], 1, mode="area"), TERM),
}
SPREADS: dict[str, Compute] = {
    "var.correction": lambda x: x.var(correction=0),
    "std.correction": lambda x: x.std(correction=0) ** 2,
    "var_mean.correction": lambda x: fa.var_mean(x, correction=0)[0],
    "std_mean.correction": lambda x: fa.std_mean(x, correction=0)[0] ** 2,
    "cov": lambda x: fa.cov(x, correction=0),
    "masked.var": lambda x: fa.masked.var(x, mask=x >= 0, unbiased=False),
}


@grouped(("op", "layout"), [(op, layout) for op in VECTORS for layout in LAYOUTS])
def test_vectors(op: str, layout: str) -> None:
    compute, want = VECTORS[op]
    near(compute(LAYOUTS[layout](N)), want)


@grouped(("op", "layout"), [(op, layout) for op in SPREADS for layout in LAYOUTS])
def test_spreads(op: str, layout: str) -> None:
    near(SPREADS[op](alternating(LAYOUTS[layout])), float(np.var(HALVES)))


# ---- along the first of two dims, and along the second ----

ROWS = {
    "sum": lambda x, d: x.sum(d),
    "mean": lambda x, d: x.mean(d) * N,
    "norm": lambda x, d: fa.linalg.vector_norm(x, 1, dim=d),
    "logsumexp": lambda x, d: (x.logsumexp(d) - x[0, 0]).exp() * TERM,
    "cumsum": lambda x, d: x.cumsum(d).select(d, -1),
    "einsum": lambda x, d: fa.einsum("ki->i" if d == 0 else "ik->i", x),
    "sum_to_size": lambda x, d: x.sum_to_size((1, 3) if d == 0 else (3, 1)),
    "softmax": lambda x, d: SUM / N / x.softmax(d).select(d, 5),
}


@grouped(("op", "dim", "layout"), [(op, d, k) for op in ROWS for d in (0, 1) for k in LAYOUTS])
def test_lines(op: str, dim: int, layout: str) -> None:
    near(ROWS[op](LAYOUTS[layout](*((N, 3) if dim == 0 else (3, N))), dim), SUM)


# ---- products ----

PRODUCTS: dict[str, Callable[..., Any]] = {
    "mv": lambda a, b: a.mv(b[:, 0]),
    "mm": lambda a, b: a @ b,
    "addmm": lambda a, b: fa.addmm(fa.ones(()).expand(a.size(0), b.size(1)), a, b, beta=0),
    "bmm": lambda a, b: fa.bmm(a[None], b[None]),
    "baddbmm": lambda a, b: fa.baddbmm(fa.ones(1, 1, 1), a[None], b[None], beta=0),
    "linear": lambda a, b: F.linear(a, b.t()),
    "linear with a bias": lambda a, b: F.linear(a, b.t(), fa.zeros(b.size(1))),
    "einsum": lambda a, b: fa.einsum("ik,kj->ij", a, b),
    "multi_dot": lambda a, b: fa.linalg.multi_dot([a, b, fa.eye(b.size(1))]),
}
SIZES = [(1, 1), (1, 5), (3, 1), (9, 1), (2, 3), (17, 20)]


@grouped(
    ("op", "size", "left", "right"),
    [
        (o, s, x, y)
        for o in PRODUCTS
        for s in SIZES[:4]
        for x in LAYOUTS
        for y in ("full", "strided")
    ]
    + [(o, s, "full", y) for o in PRODUCTS for s in SIZES[4:] for y in ("full", "columns")],
)
def test_products(op: str, size: tuple[int, int], left: str, right: str) -> None:
    m, n = size
    k = N if m * n < 100 else N // 8
    a, b = LAYOUTS[left](m, k), LAYOUTS[right](k, n, value=1.0)
    plain = m == 1 or (n == 1 and left in ("full", "offset", "columns"))
    near(PRODUCTS[op](a, b), TERM * k, LIMIT if plain else PRODUCT if k == N else SHALLOW)


@pytest.mark.parametrize("layout", ["full", "strided", "columns", "expanded"])
def test_complex_products(layout: str) -> None:
    make, kind = LAYOUTS[layout], {"dtype": fa.complex64}
    near(make(N, **kind).dot(make(N, value=1.0, **kind)), SUM)
    near(fa.vdot(make(N, **kind), make(N, value=1.0, **kind)), SUM)
    near(make(N, **kind).sum(), SUM)
    near(make(3, N, **kind).mv(make(N, value=1.0, **kind)), SUM)
    near(make(3, N, **kind) @ make(N, 2, value=1.0, **kind), SUM, PRODUCT)


@pytest.mark.parametrize("dtype", [fa.float16, fa.bfloat16], ids=str)
@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_half_floats(layout: str, dtype: Any) -> None:
    """Rounded once, at the end."""
    make, kind, term = LAYOUTS[layout], {"dtype": dtype, "value": 1 / 64}, 1 / 64
    want = fa.tensor(term * N, dtype=fa.float64).to(dtype).item()
    ones = make(N, value=1.0, dtype=dtype)
    same = {
        "sum": make(N, **kind).sum(),
        "dot": make(N, **kind).dot(ones),
        "mv": make(3, N, **kind).mv(ones),
        "mm": make(3, N, **kind) @ ones[:, None].expand(N, 2),
        "cumsum": make(N, **kind).cumsum(0)[-1],
        "index_add": fa.zeros(3, dtype=dtype).index_add(0, fa.ones(N).long(), make(N, **kind))[1],
        "scatter_add": fa.zeros(3, dtype=dtype).scatter_add(0, fa.ones(N).long(), make(N, **kind))[
            1
        ],
        "norm": fa.linalg.vector_norm(make(N, **kind), 1),
    }
    for name, value in same.items():
        assert set(value.double().flatten().tolist()) == {want}, name


# ---- sums at indices ----


def one_place(n: int) -> Any:
    return fa.full((n,), 2, dtype=fa.int64)


def few_places(n: int) -> Any:
    return fa.arange(n) % 5


def half_in_one(n: int) -> Any:
    """The others are met once: the average says nothing."""
    return fa.where(fa.arange(n) % 2 == 0, 7, fa.arange(n))


PLACES = {f.__name__: f for f in (one_place, few_places, half_in_one)}


def at(index: Any) -> Any:
    """How often each place is met."""
    return np.bincount(index.numpy()).astype(float)


def into(name: str, x: Any, i: Any, size: int) -> Any:
    z = fa.zeros(size)
    return {
        "index_add": lambda: z.index_add(0, i, x),
        "index_add by a factor": lambda: z.index_add(0, i, x * 0.5, alpha=2),
        "index_add in place": lambda: fa.zeros(size).index_add_(0, i, x),
        "scatter_add": lambda: z.scatter_add(0, i, x),
        "scatter_reduce": lambda: z.scatter_reduce(0, i, x, "sum"),
        "index_put": lambda: z.index_put((i,), x, accumulate=True),
        "index_put of two": lambda: z[None].index_put((i * 0, i), x, accumulate=True)[0],
        "put": lambda: z.put(i, x, accumulate=True),
        "bincount": lambda: fa.bincount(i, x),
        "gather backward": lambda: gradients(lambda t: (t.gather(0, i) * x).sum(), z)[0],
        "index backward": lambda: gradients(lambda t: (t[i] * x).sum(), z)[0],
        "take backward": lambda: gradients(lambda t: (t.take(i) * x).sum(), z)[0],
        "embedding backward": lambda: gradients(
            lambda t: (F.embedding(i, t)[:, 0] * x).sum(), z[:, None]
        )[0][:, 0],
        "coalesce": lambda: fa.sparse_coo_tensor(i[None], x, (size,)).to_dense(),
    }[name]()


INTO = [
    "index_add", "index_add by a factor", "index_add in place", "scatter_add", "scatter_reduce",
    "index_put", "index_put of two", "put", "bincount", "gather backward", "index backward",
    "take backward", "embedding backward", "coalesce",
]  # fmt: skip


@grouped(
    ("op", "places", "layout"),
    [(o, p, k) for o in INTO for p in PLACES for k in ("full", "strided", "expanded")],
)
def test_indices(op: str, places: str, layout: str) -> None:
    index = PLACES[places](N)
    counts = at(index)
    got = into(op, LAYOUTS[layout](N), index, len(counts))
    met = counts > 0
    assert (got.detach().numpy()[~met] == 0).all()
    near(got[fa.as_tensor(met)], TERM * counts[met])


@pytest.mark.parametrize("reduce", ["mean", "prod"])
@pytest.mark.parametrize("places", ["one_place", "few_places"])
def test_other_reductions(places: str, reduce: str) -> None:
    index = PLACES[places](N)
    size, counts = int(index.max()) + 1, at(index)
    if reduce == "mean":
        want, source = TERM, full(N)
    else:
        want, source = float(np.float32(1.00001)) ** counts[-1], full(N, value=1.00001)
    for got in (
        fa.ones(size).scatter_reduce(0, index, source, reduce, include_self=False),
        fa.ones(size).index_reduce(0, index, source, reduce, include_self=False),
    ):
        near(got[2:], want)


WIDTHS = (1, 3, 40)


@grouped(
    ("op", "width", "places", "dim"),
    [
        (o, w, p, d)
        for o in ("index_add", "scatter_add", "scatter_reduce", "index_put", "embedding")
        for w in WIDTHS
        for p in PLACES
        for d in (0, 1)
        if d == 0 or o in ("index_add", "scatter_add", "scatter_reduce")
    ],
)
def test_rows_at_indices(op: str, width: int, places: str, dim: int) -> None:
    n = N // 6
    index = PLACES[places](n)
    counts = at(index)
    size = len(counts)
    x = full(n, width) if dim == 0 else full(n, width).t()
    table = fa.zeros(size, width) if dim == 0 else fa.zeros(width, size)
    spread = index.unsqueeze(1 - dim).expand(x.shape)
    got = {
        "index_add": lambda: table.index_add(dim, index, x),
        "scatter_add": lambda: table.scatter_add(dim, spread, x),
        "scatter_reduce": lambda: table.scatter_reduce(dim, spread, x, "sum"),
        "index_put": lambda: table.index_put((index,), x, accumulate=True),
        "embedding": lambda: gradients(lambda t: (F.embedding(index, t) * x).sum(), table)[0],
    }[op]()
    got = got if dim == 0 else got.t()
    near(got[fa.as_tensor(counts > 0)], TERM * counts[counts > 0][:, None])


def test_one_column_that_meets_in_one_place() -> None:
    index = fa.arange(N // 3)[:, None].repeat(1, 5)
    index[:, 1] = 7
    got = fa.zeros(N // 3, 5).scatter_add(0, index, full(N // 3, 5))
    near(got[7, 1], TERM * (N // 3))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("top", [0.0, 16.6])
def test_softmax_of_long_lines(dim: int, top: float) -> None:
    x = np.zeros((N, 2), np.float32)
    x[0] = top
    e = np.exp(x.astype(np.float64) - x[0, 0])
    p = e / e.sum(0)
    g = np.linspace(-1, 2, 2 * N, dtype=np.float32).reshape(N, 2)
    for log, want in ((False, p), (True, np.log(p))):
        t = fa.tensor(x if dim == 0 else x.T.copy(), requires_grad=True)
        y = t.log_softmax(dim) if log else t.softmax(dim)
        near(y if dim == 0 else y.t(), want, PRODUCT)  # 64 small terms meet the 1 of the largest
        y.backward(fa.tensor(g if dim == 0 else g.T.copy()))
        slope = g - p * g.sum(0, dtype=np.float64) if log else p * (g - (g * p).sum(0))
        got = t.grad if dim == 0 else t.grad.t()
        np.testing.assert_allclose(got, slope, atol=1e-5 * np.abs(slope).max())


@pytest.mark.parametrize("dtype", [fa.bfloat16, fa.float16, fa.float32], ids=str)
def test_windows_of_a_view(dtype: Any) -> None:
    x = fa.ones(5000, dtype=dtype, requires_grad=True)
    x.unfold(0, 1024, 1).sum().backward()
    assert x.grad[2000].item() == 1024


@pytest.mark.parametrize("dtype", [fa.bfloat16, fa.float16], ids=str)
def test_slopes_of_a_scan_in_16_bits(dtype: Any) -> None:
    x = fa.tensor(np.random.default_rng(0).random(2000) * 4).to(dtype).requires_grad_()
    x.logcumsumexp(0).sum().backward()
    e = np.exp(x.detach().double().numpy())
    want = e * np.cumsum((1 / np.cumsum(e))[::-1])[::-1]
    np.testing.assert_allclose(x.grad.double(), want, rtol=2 * fa.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [fa.complex64, fa.complex128], ids=str)
def test_means_of_complex_numbers(dtype: Any) -> None:
    x, index = fa.tensor([1 + 1j, 2 + 3j, 4], dtype=dtype), fa.zeros(3, dtype=fa.int64)
    start = fa.full((2,), 2j, dtype=dtype)
    for whole, total in ((False, 7 + 4j), (True, 7 + 6j)):
        for reduce in (fa.scatter_reduce, fa.index_reduce):
            got = reduce(start, 0, index, x, "mean", include_self=whole)
            near(got[:1], total / (3 + whole))
            assert got[1].item() == 2j


def test_few_rows_in_a_large_table() -> None:
    """A thousand tokens of padding among a vocabulary of many more."""
    n, size = 4000, 50_000
    index = fa.where(fa.arange(n) % 4 == 0, fa.arange(n) * 7, 11)
    got = gradients(lambda t: (F.embedding(index, t) * 0.01).sum(), fa.zeros(size, 64))[0]
    near(got[11], TERM * at(index)[11])
    got = fa.zeros(size).index_add(0, index, full(n))
    near(got[11], TERM * at(index)[11])


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_embedding_bags(mode: str) -> None:
    index, table = fa.zeros(N, dtype=fa.int64), full(3, 5)
    got = F.embedding_bag(index, table, fa.tensor([0]), mode=mode)
    near(got, SUM if mode == "sum" else TERM)
    bags = index[:300_000].view(-1, 10)
    (slope,) = gradients(lambda t: (F.embedding_bag(bags, t, mode=mode) * 0.01).sum(), table)
    near(slope[0], TERM * (300_000 if mode == "sum" else 30_000))


def test_histograms() -> None:
    x, half = full(N), fa.full((N,), 0.5)
    near(fa.histogram(half, bins=2, range=(0.0, 1.0), weight=x)[0][1], SUM)
    near(fa.histogramdd(half[:, None], bins=[2], range=[0.0, 1.0], weight=x)[0][1], SUM)
    near(fa.histc(half, 2, 0, 1)[1], N)


# ---- sparse matrices ----


def test_sparse() -> None:
    every, none = fa.arange(N), fa.zeros(N, dtype=fa.int64)
    row = fa.sparse_coo_tensor(fa.stack([none, every]), full(N), (1, N))
    csr = fa.sparse_csr_tensor(fa.tensor([0, N]), every, full(N), (1, N))
    ones = fa.ones(N, 1)
    for matrix in (row, csr, csr.to_sparse_csc()):
        near(matrix @ ones[:, 0], SUM)
        near(matrix @ ones.expand(N, 20), SUM)
    near(fa.sparse.sum(row), SUM)
    column = fa.sparse_csr_tensor(fa.arange(N + 1), none, ones[:, 0], (N, 1))
    near((csr @ column).to_dense(), SUM)


# ---- none is left out ----

NO_SUM = {
    "amax", "amin", "max", "max.dim", "min", "min.dim", "argmax", "argmin", "all", "any",
    "cummax", "cummin",
}  # fmt: skip
ELSEWHERE = {
    "histc": "test_histograms",
    "cumprod": "products of many factors are exact to their number of roundings",
}


def test_every_operator_that_sums_is_here() -> None:
    """What the schema calls a reduction, a scan or a product of matrices."""
    known = {*VECTORS, *SPREADS, *PRODUCTS, *NO_SUM, *ELSEWHERE}
    found = {
        op.name
        for op in operators()
        if op.kind in ("reduction", "scan", "matmul") and not op.name.startswith("_")
    }
    assert len(found) > 20
    assert found <= known, f"without a long sum in this file: {sorted(found - known)}"


@pytest.mark.parametrize("n", [10, 1000, 100_000])
def test_gradient_of_logcumsumexp(n: int) -> None:
    """Shares that are made of rounded sums would lose a digit each."""
    rng = np.random.default_rng(n)
    x, g = rng.standard_normal(n).astype(np.float32), rng.random(n).astype(np.float32)
    t = fa.tensor(x, requires_grad=True)
    (got,) = fa.autograd.grad(t.logcumsumexp(0), t, fa.tensor(g))
    terms = np.exp(x.astype(np.longdouble))
    shares = g / np.cumsum(terms)
    want = terms * np.cumsum(shares[::-1])[::-1]
    np.testing.assert_allclose(got.numpy(), want.astype(np.float64), rtol=1e-6)
