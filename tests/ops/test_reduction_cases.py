"""Reductions, scans and ordering where a table of samples does not reach.

Ties, NaN, empty input, accuracy, layouts and numbers of threads.
"""

from __future__ import annotations

import math

import facula as fa
import numpy as np
import pytest

NAN = math.nan
INF = math.inf


def test_extremes_with_nan_and_ties() -> None:
    x = fa.tensor([1.0, NAN, 3.0, NAN])
    for f in (fa.amax, fa.amin, fa.max, fa.min, fa.median):
        assert math.isnan(f(x).item())
    assert fa.argmax(x).item() == fa.argmin(x).item() == fa.max(x, 0).indices.item() == 1
    assert fa.nanmedian(x).item() == 1.0
    long = fa.arange(1000, dtype=fa.float32)
    long[777] = NAN
    assert math.isnan(long.amax().item()) and long.argmax().item() == 777
    assert math.isnan(long.view(10, 100).t().amax(1)[77].item())
    ties = fa.tensor([2.0, 5.0, 5.0, 5.0]).requires_grad_()
    ties.amax().backward()
    assert ties.grad.tolist() == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3])
    ties.grad = None
    fa.max(ties, 0).values.backward()
    assert ties.grad.tolist() == [0, 1, 0, 0]


def test_infinities() -> None:
    x = fa.tensor([-INF, 1.0, INF])
    assert x.amax().item() == INF and x.amin().item() == -INF
    assert fa.full((300,), -INF).amax().item() == -INF
    assert fa.linalg.vector_norm(x, INF).item() == INF
    assert fa.logcumsumexp(fa.tensor([-INF, -INF, 0.0]), 0).tolist() == [-INF, -INF, 0.0]


def test_empty_input() -> None:
    e = fa.empty(0, 3)
    assert e.sum(0).tolist() == [0, 0, 0] and e.prod(0).tolist() == [1, 1, 1]
    assert e.sum().item() == 0 and math.isnan(e.mean().item()) and math.isnan(e.var().item())
    assert e.all().item() is True and e.any().item() is False
    assert e.amax(1).shape == (0,) and fa.max(e, 1).indices.shape == (0,)
    for f, error in (
        (lambda: e.amax(), RuntimeError),
        (lambda: e.amax(0), IndexError),
        (lambda: fa.max(e, 0), IndexError),
        (lambda: e.argmax(), IndexError),
        (lambda: fa.median(e, 0), IndexError),
    ):
        with pytest.raises(error, match=r"no elements, its shape is \(0, 3\)"):
            f()
    assert fa.sort(e, 0).values.shape == (0, 3) and fa.cumsum(e, 0).shape == (0, 3)


def test_errors_name_operator_and_argument() -> None:
    x = fa.zeros(2, 3)
    with pytest.raises(IndexError, match=r"sum\(\): dim 5 is out of range for a tensor of 2 dims"):
        x.sum(5)
    with pytest.raises(RuntimeError, match=r"sum\(\): dim -2 is given twice"):
        x.sum((0, -2))
    with pytest.raises(RuntimeError, match=r"mean\(\): self must be floating-point"):
        fa.arange(3).mean()
    with pytest.raises(RuntimeError, match=r"topk\(\): k is 4, dim 1 of self has 3 elements"):
        x.topk(4, 1)
    with pytest.raises(RuntimeError, match=r"kthvalue\(\): k is 0"):
        x.kthvalue(0)
    with pytest.raises(RuntimeError, match="complex numbers have no order"):
        fa.sort(fa.zeros(3, dtype=fa.complex64))
    with pytest.raises(RuntimeError, match=r"q must be in \[0, 1\]"):
        fa.quantile(fa.ones(3), fa.tensor([0.5, 1.5]))


def test_integer_types() -> None:
    for dtype in (fa.bool, fa.uint8, fa.int8, fa.int16, fa.int32, fa.int64):
        x = fa.ones(300, dtype=dtype)
        assert x.sum().dtype == fa.int64 and x.sum().item() == 300
        assert x.cumsum(0).dtype == fa.int64 and x.cumsum(0)[-1].item() == 300
        assert x.prod().dtype == fa.int64 and x.amax().dtype == dtype
    assert fa.tensor([2**62, 2**62, 2**62, 2**62]).sum().item() == 0  # wraps, as int64 does
    assert fa.tensor([-(2**63), 2**63 - 1]).amax().item() == 2**63 - 1
    assert fa.tensor([1, 2], dtype=fa.uint8).all().dtype == fa.uint8
    assert fa.tensor([1.9, -1.9]).sum(dtype=fa.int64).item() == 0


def pairwise_bound(x: np.ndarray) -> float:
    """What pairwise summation in float32 may be off by, blocks of 128 added one by one."""
    eps = np.finfo(np.float32).eps / 2
    return float((16 + math.log2(max(2, x.size))) * eps * np.abs(x.astype(np.float64)).sum())


@pytest.mark.parametrize(
    "shape", [(1_000_003,), (1031, 977), (3, 300_000), (300_000, 3), (40, 50, 60, 10)]
)
def test_float32_sums_are_as_exact_as_pairwise(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(shape))
    x = (rng.random(shape) + 100).astype(np.float32)
    t = fa.tensor(x.ravel().tolist()).reshape(shape)
    assert abs(t.sum().item() - x.sum(dtype=np.float64)) <= pairwise_bound(x)
    for d in range(len(shape)):
        got = np.array(t.sum(d).tolist())
        want = x.sum(d, dtype=np.float64)
        scale = pairwise_bound(np.moveaxis(x, d, -1).reshape(-1, shape[d])[0])
        assert np.abs(got - want).max() <= 1.1 * scale
        got = np.array(t.var(d).tolist())
        want = x.var(d, dtype=np.float64, ddof=1)
        assert np.abs(got - want).max() <= 1e-4 * want.max()


def test_variance_of_numbers_far_from_zero() -> None:
    rng = np.random.default_rng(0)
    x = (rng.normal(size=200_000) + 1e4).astype(np.float32)
    t = fa.tensor(x.tolist())
    for v in (t.var(), t.reshape(400, 500).var(), t.reshape(500, 400).t().var()):
        assert v.item() == pytest.approx(x.var(dtype=np.float64, ddof=1), rel=1e-5)


LAYOUTS = [
    lambda t: t,
    lambda t: t.transpose(0, 2),
    lambda t: t.permute(1, 2, 0),
    lambda t: t[::2, 1:, ::3],
    lambda t: t.flip(0).transpose(1, 2)[:, ::2],
    lambda t: t[:, :1].expand(-1, 7, -1),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", (fa.float32, fa.float16, fa.int32, fa.bool, fa.complex64))
def test_layouts(layout, dtype: fa.dtype) -> None:  # type: ignore[no-untyped-def]
    fa.manual_seed(0)
    base = fa.randn(20, 9, 12).mul(4).round().to(dtype)
    x = layout(base)
    plain = x.clone(memory_format=fa.contiguous_format)
    for dims in (0, 1, 2, (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        names = ["sum", "count_nonzero"]
        if dtype != fa.complex64:
            names += ["amax", "amin"]
        for name in names:
            assert fa.equal(getattr(fa, name)(x, dim=dims), getattr(fa, name)(plain, dim=dims)), (
                name
            )
    if dtype == fa.complex64:
        return
    for d in range(3):
        for name in ("argmax", "argmin", "cumsum"):
            assert fa.equal(getattr(fa, name)(x, d), getattr(fa, name)(plain, d)), name
        for name in ("cummax", "sort", "median") if dtype != fa.bool else ("cummax", "sort"):
            for a, b in zip(getattr(fa, name)(x, d), getattr(fa, name)(plain, d), strict=True):
                assert fa.equal(a, b), name
    assert fa.argmax(x).item() == fa.argmax(plain).item()


def test_results_do_not_depend_on_threads() -> None:
    fa.manual_seed(1)
    tensors = [fa.randn(1_000_001), fa.randn(700, 900), fa.randn(5, 200_000), fa.randn(200_000, 5)]
    threads = fa.get_num_threads()
    results = []
    try:
        for n in (1, 2, 3):
            fa.set_num_threads(n)
            now = []
            for x in tensors:
                now += [
                    x.sum(),
                    x.mean(),
                    x.var(),
                    x.sum(0),
                    x.std(-1),
                    fa.linalg.vector_norm(x),
                    x.prod(-1),
                ]
                now += [
                    x.argmax(),
                    x.argmax(0),
                    x.cumsum(0),
                    *x.sort(0),
                    *x.topk(3, 0),
                    fa.histc(x, 10),
                ]
            results.append(now)
    finally:
        fa.set_num_threads(threads)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert fa.equal(a, b)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int64", "int32", "int8", "uint8", "bool"]
)
def test_sort_is_stable_and_puts_nan_last(dtype: str, descending: bool) -> None:
    rng = np.random.default_rng(3)
    for n in (1, 2, 8, 17, 64, 65, 149, 150, 1000, 20_000, 70_000):
        if dtype.startswith("float"):
            a = np.rint(rng.normal(size=n) * 5).astype(dtype)
            a[rng.random(n) < 0.05] = np.nan
        else:
            a = rng.integers(0, 2 if dtype == "bool" else 60, n).astype(dtype)
        t = fa.tensor(a.tolist(), dtype=getattr(fa, dtype))
        values, indices = fa.sort(t, 0, descending)
        order = np.argsort(a, kind="stable")
        if descending:
            order = n - 1 - np.argsort(a[::-1], kind="stable")[::-1]
        assert indices.tolist() == order.tolist()
        np.testing.assert_array_equal(np.array(values.tolist(), dtype=dtype), a[order])
        if dtype != "bool":
            for k in {1, min(3, n), n // 20, n // 5, n}:
                top = fa.topk(t, k, 0, descending)
                assert top.indices.tolist() == order[:k].tolist()


def test_sort_of_wide_and_skewed_integers() -> None:
    rng = np.random.default_rng(4)
    for a in (
        rng.integers(-(2**63), 2**63 - 1, 30_000),
        np.where(rng.random(30_000) < 0.01, 2**63 - 1, rng.integers(0, 50, 30_000)),
        rng.integers(0, 30, 30_000) * 2**40 + rng.integers(0, 3, 30_000),
    ):
        order = np.argsort(a, kind="stable")
        assert fa.argsort(fa.tensor(a.tolist())).tolist() == order.tolist()


@pytest.mark.parametrize("n", [2**17, 2**17 + 3, 2**21 + 5])
def test_sort_of_dense_keys(n: int) -> None:
    rng = np.random.default_rng(5)
    before = fa.get_num_threads()
    try:
        for a in (rng.permutation(n), rng.integers(0, n, n), rng.permutation(n).astype("float32")):
            order = np.argsort(a, kind="stable")
            wanted = np.unique(a, return_inverse=True, return_counts=True)
            t = fa.from_numpy(a)
            for threads in (1, 3):
                fa.set_num_threads(threads)
                values, indices = fa.sort(t)
                np.testing.assert_array_equal(indices.numpy(), order)
                np.testing.assert_array_equal(values.numpy(), a[order])
                several = fa.unique(t, return_inverse=True, return_counts=True)
                for got, want in zip(several, wanted, strict=True):
                    np.testing.assert_array_equal(got.numpy(), want)
    finally:
        fa.set_num_threads(before)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_topk_of_ordered_equal_and_last_elements(dtype: str, largest: bool) -> None:
    rng = np.random.default_rng(6)
    for n in (129, 192, 1000, 9000):
        line = np.arange(n)
        if dtype.startswith("float"):
            last = -INF if largest else NAN
        else:
            last = np.iinfo(dtype).min if largest else np.iinfo(dtype).max
        mostly_last = np.full(n, last, dtype)
        mostly_last[rng.permutation(n)[:5]] = 7
        for a in (
            line,
            line[::-1],
            line // 40,
            line % 32,
            line * 0,
            mostly_last,
            rng.permutation(n),
        ):
            a = a.astype(dtype)
            order = np.argsort(a, kind="stable")
            if largest:
                order = n - 1 - np.argsort(a[::-1], kind="stable")[::-1]
                if dtype.startswith("float"):
                    order = np.argsort(-a, kind="stable")
            for k in (1, 5, 10, 16, 17, 32, 33, 42, 64, 65):
                if k < n / 3:
                    top = fa.topk(fa.from_numpy(a), k, 0, largest)
                    assert top.indices.tolist() == order[:k].tolist()


def test_topk_of_millions() -> None:
    """Enough of them that they are written by streaming stores; a line of odd length."""
    n, k = 6_400_001, 2_100_003
    a = np.random.default_rng(8).integers(0, 60_000, n).astype(np.int32)
    top = fa.topk(fa.from_numpy(a), k)
    np.testing.assert_array_equal(top.values.numpy(), np.sort(a)[::-1][:k])
    np.testing.assert_array_equal(a[top.indices.numpy()], top.values.numpy())


def test_signed_zeros_and_nan_survive_sorting() -> None:
    x = fa.tensor([0.0, -0.0, NAN, -1.0, -0.0])
    values, indices = fa.sort(x)
    assert indices.tolist() == [3, 0, 1, 4, 2]
    assert [math.copysign(1, v) for v in values.tolist()[1:4]] == [1, -1, -1]


def test_running_extremes() -> None:
    values, indices = fa.cummax(fa.tensor([1.0, 3.0, 3.0, 2.0, NAN, 9.0]), 0)
    assert indices.tolist() == [0, 1, 2, 2, 4, 4]
    assert values.tolist()[:4] == [1, 3, 3, 3] and math.isnan(values[5].item())


def test_searchsorted_with_sorter_and_nan() -> None:
    line = fa.tensor([3.0, 1.0, 2.0])
    order = fa.argsort(line)
    assert fa.searchsorted(line, fa.tensor([2.0, 2.5]), sorter=order).tolist() == [1, 2]
    ends = fa.tensor([1.0, 2.0, NAN, NAN])
    query = fa.tensor([NAN, 1.5])
    assert fa.searchsorted(ends, query).tolist() == [2, 1]
    assert fa.searchsorted(ends, query, right=True).tolist() == [4, 1]
    with pytest.raises(IndexError, match="sorter holds 7"):
        fa.searchsorted(line, query, sorter=fa.tensor([0, 1, 7]))
    with pytest.raises(RuntimeError, match="contradict"):
        fa.searchsorted(line, query, right=True, side="left")
    rng = np.random.default_rng(0)
    big, many = np.sort(rng.integers(0, 9000, 10_000)), rng.integers(-5, 9005, 10_000)
    for side in ("left", "right"):
        got = fa.searchsorted(fa.tensor(big.tolist()), fa.tensor(many.tolist()), side=side)
        assert got.tolist() == np.searchsorted(big, many, side).tolist()


def test_unique() -> None:
    x = fa.tensor([[3, 1], [3, 2]])
    assert fa.unique(x).tolist() == [1, 2, 3]
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    assert values[inverse].tolist() == x.tolist() and counts.tolist() == [1, 1, 2]
    assert fa.unique(fa.tensor([[1, 2], [0, 5], [1, 2]]), dim=0).tolist() == [[0, 5], [1, 2]]
    assert fa.unique(fa.tensor([NAN, 1.0, NAN])).shape == (3,)
    assert fa.unique_consecutive(fa.tensor([1, 1, 2, 1])).tolist() == [1, 2, 1]
    assert fa.unique(fa.empty(0)).shape == (0,)
    line = fa.tensor([2, 1, 2, 0])
    rows = line.unique(dim=0, return_inverse=True, return_counts=True)
    assert [t.tolist() for t in rows] == [[0, 1, 2], [2, 1, 2, 0], [1, 1, 2]]
    assert line.unique_consecutive(dim=0).tolist() == [2, 1, 2, 0]
    assert fa.ones(0, 3).unique(dim=0).shape == (0, 3)
    for name, args in (("_unique", ()), ("_unique_dim", (0,)), ("_unique_consecutive", ())):
        for wanted in (False, True):
            rest = getattr(fa._C._ops, name)(
                line, *args, return_inverse=wanted, return_counts=wanted
            )[1:]
            assert all((t.numel() > 0) == wanted for t in rest)  # what nobody asked for is empty
    one = fa.tensor(3.0)
    for call in (lambda: one.unique(dim=0), lambda: one.unique_consecutive(dim=-1)):
        with pytest.raises(IndexError, match=r"^unique\w*\(\): .*0-d"):
            call()
    assert one.unique().tolist() == [3] and one.unique_consecutive().tolist() == [3]
    with pytest.raises(RuntimeError, match="depends on the values"):
        fa.unique(fa.ones(3, device="meta"))


def test_products_with_zeros_have_gradients() -> None:
    for values in ([2.0, 3.0, 4.0], [2.0, 0.0, 4.0], [0.0, 0.0, 4.0]):
        x = fa.tensor(values).requires_grad_()
        x.prod().backward()
        want = [math.prod(v for j, v in enumerate(values) if j != i) for i in range(3)]
        assert x.grad.tolist() == pytest.approx(want)
        x.grad = None
        x.cumprod(0).sum().backward()
        a, b, c = values
        assert x.grad.tolist() == pytest.approx([1 + b + b * c, a + a * c, a * b])


def test_deviations_of_complex_numbers_are_real() -> None:
    x = np.array([[1 + 2j, 3 - 1j, 0.5j], [4, -2j, 1 + 1j]])
    for kind, real in ((fa.complex128, fa.float64), (fa.complex64, fa.float32)):
        t = fa.tensor(x, dtype=kind)
        for got, want in (
            (t.std(1), x.std(1, ddof=1)),
            (t.var(1), x.var(1, ddof=1)),
            (t.std(), x.std(ddof=1)),
            (t.std(correction=0), x.std()),
            (fa.std_mean(t, 1)[0], x.std(1, ddof=1)),
            (fa.var_mean(t, 1)[0], x.var(1, ddof=1)),
        ):
            assert got.dtype == real
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)


def test_overloads_of_variance() -> None:
    x = fa.tensor([[1.0, 2.0, 4.0], [1.0, 3.0, 9.0]])
    want = np.array(x.tolist())
    assert x.var(0, False).tolist() == pytest.approx(want.var(0).tolist())
    assert x.var(1, True, True).view(-1).tolist() == pytest.approx(want.var(1, ddof=1).tolist())
    assert x.var(False).item() == pytest.approx(want.var())
    assert x.std(unbiased=False).item() == pytest.approx(want.std())
    assert x.var(dim=1, correction=0).tolist() == pytest.approx(want.var(1).tolist())
    assert fa.tensor([3.0]).var().isnan().item()


def test_norm_takes_names_and_numbers() -> None:
    x = fa.tensor([[3.0, 0.0], [0.0, 4.0]])
    assert x.norm().item() == x.norm("fro").item() == fa.norm(x, p=2).item() == 5.0
    assert x.norm(1).item() == 7.0 and x.norm(INF, dim=0).tolist() == [3.0, 4.0]
    assert fa.linalg.norm(x, 2).item() == 4.0 and x.norm("nuc").item() == 7.0


def test_sums_of_singular_values() -> None:
    x = np.random.default_rng(5).normal(size=(4, 2, 3))
    for t, dim in ((x[0], None), (x, None), (x, [-2, -1]), (x, [0, 2])):
        try:
            got = fa.norm(fa.tensor(t), "nuc", dim)
        except NotImplementedError:
            continue
        want = np.linalg.norm(t, "nuc", tuple(dim or (-2, -1)))
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-10)


def test_in_place_scans() -> None:
    x = fa.arange(12.0).reshape(3, 4)
    for d in (0, 1):
        y = x.clone()
        assert y.cumsum_(d) is y and fa.equal(y, x.cumsum(d))
