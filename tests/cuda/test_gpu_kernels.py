"""Kernels of our own that models lean on, on a GPU: `pytest -m cuda`. Oracles are NumPy's."""

from __future__ import annotations

import math

import facula as fa
import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

pytestmark = pytest.mark.cuda
RNG = np.random.default_rng(5)
TOLERANCE = {fa.float64: 1e-11, fa.float32: 2e-5, fa.bfloat16: 2e-2, fa.float16: 3e-3}


def on_gpu(array: np.ndarray, dtype: fa.dtype = fa.float32, **options: object) -> fa.Tensor:
    return fa.from_numpy(np.ascontiguousarray(array)).to(dtype).to("cuda").contiguous(**options)


def values(t: fa.Tensor) -> np.ndarray:
    t = t.detach().cpu()
    return t.to(fa.float64).numpy() if t.is_floating_point() else t.numpy()


def close(got: fa.Tensor, right: np.ndarray, dtype: fa.dtype) -> None:
    worst = np.abs(values(got) - right).max() / max(np.abs(right).max(), 1e-9)
    assert worst <= TOLERANCE[dtype], (dtype, worst)


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize(
    "size", [(4, 64, 9, 8), (3, 7, 5, 5), (2, 256, 3, 3), (50, 33), (2, 6, 21), (128, 16, 20, 20)]
)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_batch_norm(size: tuple[int, ...], dtype: fa.dtype, last: bool, training: bool) -> None:
    if last and len(size) != 4:
        pytest.skip("images only")
    options = {"memory_format": fa.channels_last} if last else {}
    shape = [1, -1, *[1] * (len(size) - 2)]
    dims = (0, *range(2, len(size)))
    draw = lambda *s: fa.from_numpy(RNG.standard_normal(s)).to(dtype).to(fa.float64).numpy()  # noqa: E731
    a, w, b, slope = draw(*size) * 2 + 3, draw(size[1]), draw(size[1]), draw(*size)
    a = fa.from_numpy(a).to(dtype).to(fa.float64).numpy()
    mean, var = (a.mean(dims), a.var(dims)) if training else (draw(size[1]), draw(size[1]) ** 2 + 1)
    x = on_gpu(a, dtype, **options).requires_grad_()
    weight, bias = on_gpu(w, dtype).requires_grad_(), on_gpu(b, dtype).requires_grad_()
    given = (None, None) if training else (on_gpu(mean), on_gpu(var))
    if not training and dtype == fa.float64:
        given = on_gpu(mean, dtype), on_gpu(var, dtype)
    y = fa.nn.functional.batch_norm(x, *given, weight, bias, training, eps=1e-3)
    r = 1 / np.sqrt(var.reshape(shape) + 1e-3)
    normal = (a - mean.reshape(shape)) * r
    close(y, normal * w.reshape(shape) + b.reshape(shape), dtype)
    grads = fa.autograd.grad(y, (x, weight, bias), on_gpu(slope, dtype, **options))
    g = slope * w.reshape(shape)
    right = g * r
    if training:
        right = r * (
            g - g.mean(dims, keepdims=True) - normal * (g * normal).mean(dims, keepdims=True)
        )
    close(grads[0], right, dtype)
    close(grads[1], (slope * normal).sum(dims), dtype)
    close(grads[2], slope.sum(dims), dtype)


@pytest.mark.parametrize("dtype", [fa.float32, fa.bfloat16])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(3, 2, 1), (2, 2, 0), (3, 1, 1)])
def test_max_pool(kernel: int, stride: int, padding: int, last: bool, dtype: fa.dtype) -> None:
    a = RNG.integers(-30, 30, (3, 5, 13, 17)).astype(float)  # with ties
    options = {"memory_format": fa.channels_last} if last else {}
    x = on_gpu(a, dtype, **options).requires_grad_()
    y = fa.nn.functional.max_pool2d(x, kernel, stride, padding)
    pad = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
    wide = np.pad(a, pad, constant_values=-np.inf)
    views = sliding_window_view(wide, (kernel, kernel), (2, 3))[:, :, ::stride, ::stride]
    np.testing.assert_array_equal(values(y), views.max((-1, -2)))
    slope = RNG.integers(-4, 5, y.shape).astype(float)
    (grad,) = fa.autograd.grad(y, x, on_gpu(slope, dtype))
    right = np.zeros_like(wide)
    first = views.reshape(*views.shape[:4], -1).argmax(-1)
    n, c, i, j = np.indices(first.shape)
    np.add.at(right, (n, c, i * stride + first // kernel, j * stride + first % kernel), slope)
    inside = slice(padding, -padding or None)
    np.testing.assert_array_equal(values(grad), right[:, :, inside, inside])
    _, places = fa.nn.functional.max_pool2d_with_indices(x, kernel, stride, padding)
    flat = a.reshape(3, 5, -1)
    taken = np.take_along_axis(flat, values(places).reshape(3, 5, -1), -1)
    np.testing.assert_array_equal(taken.reshape(y.shape), values(y))


@pytest.mark.parametrize(
    "dtype",
    [fa.float32, fa.bfloat16, fa.float16, fa.float64, fa.int64, fa.int32, fa.uint8, fa.int8],
)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("size", [(300_001,), (5, 70_003), (3, 2, 65_536)])
def test_long_sorts(size: tuple[int, ...], descending: bool, dtype: fa.dtype) -> None:
    if dtype.is_floating_point:
        a = RNG.integers(-100, 100, size) / 8
        a.flat[::1001] = np.nan
        a.flat[5::997] = -0.0
        x = on_gpu(a, dtype)
    else:
        low = 0 if dtype == fa.uint8 else -100
        a = RNG.integers(low, 120, size)
        x = on_gpu(a, dtype)
    found = fa.sort(x, stable=True, descending=descending)
    key = np.where(np.isnan(a), np.inf, a)
    order = np.argsort(-key if descending else key, kind="stable", axis=-1)
    np.testing.assert_array_equal(values(found.indices), order)
    np.testing.assert_array_equal(values(found.values), np.take_along_axis(a, order, -1))
    turned = fa.sort(x.unsqueeze(-1).expand(*size, 2), -2, descending, stable=True).indices
    np.testing.assert_array_equal(values(turned)[..., 1], order)


@pytest.mark.parametrize("descending", [False, True])
def test_long_sorts_skip_digits_that_are_alike(descending: bool) -> None:
    """Rows with passes of their own: none, the lowest, one in the middle, the highest, all."""
    n = 70_001
    a = np.full((5, n), -3, np.int64)
    a[1] = RNG.integers(0, 50_000, n)
    a[2] += RNG.integers(0, 9, n) << 24
    a[3] = RNG.integers(-100, 100, n) << 56
    a[4] = RNG.integers(-(2**63), 2**63 - 1, n)
    found = fa.sort(fa.from_numpy(a).to("cuda"), stable=True, descending=descending)
    order = np.argsort(~a if descending else a, kind="stable", axis=1)
    np.testing.assert_array_equal(found.indices.cpu().numpy(), order)
    np.testing.assert_array_equal(found.values.cpu().numpy(), np.take_along_axis(a, order, 1))


@pytest.mark.parametrize("size", [(1_000_003,), (3, 200_000), (20_000, 3)])
@pytest.mark.parametrize("dtype", [fa.float32, fa.int64, fa.bfloat16])
def test_long_scans(size: tuple[int, ...], dtype: fa.dtype) -> None:
    a = RNG.integers(-3, 4, size)
    x = on_gpu(a, dtype)
    dim = int(np.argmax(size))
    right = a.cumsum(dim)
    got = values(fa.cumsum(x, dim))
    if dtype == fa.bfloat16:
        np.testing.assert_allclose(got, right, 1e-2, 1)
    else:
        np.testing.assert_array_equal(got, right)
    np.testing.assert_array_equal(values(fa.cummax(x, dim).values), np.maximum.accumulate(a, dim))
    again = fa.cumsum(x / 7, dim) if dtype == fa.float32 else x
    if dtype == fa.float32:
        assert (again == fa.cumsum(x / 7, dim)).all().item()  # the same bits


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", [fa.float32, fa.bfloat16, fa.int64, fa.float64, fa.int8])
@pytest.mark.parametrize(("size", "k"), [((7, 5000), 3), ((300, 700), 300), ((2, 40_001), 1000)])
def test_topk(size: tuple[int, int], k: int, dtype: fa.dtype, largest: bool) -> None:
    a = RNG.integers(-100, 100, size)  # many ties: the first ones count
    x = on_gpu(a, dtype)
    order = np.argsort(-a if largest else a, kind="stable", axis=1)[:, :k]
    found = fa.topk(x, k, 1, largest)
    np.testing.assert_array_equal(values(found.indices), order)
    np.testing.assert_array_equal(values(found.values), np.take_along_axis(a, order, 1))
    turned = fa.topk(x.t().contiguous(), k, 0, largest)
    np.testing.assert_array_equal(values(turned.indices), order.T)


@pytest.mark.parametrize("dtype", [fa.float32, fa.bfloat16, fa.float64])
@pytest.mark.parametrize(
    "size", [(1000, 768), (70, 100), (5000, 24), (3, 1024), (200, 33), (65, 9000)]
)
def test_layer_norm(size: tuple[int, int], dtype: fa.dtype) -> None:
    draw = lambda *s: fa.from_numpy(RNG.standard_normal(s)).to(dtype).to(fa.float64).numpy()  # noqa: E731
    a, w, b, slope = draw(*size), draw(size[1]), draw(size[1]), draw(*size)
    x, weight, bias = (on_gpu(t, dtype).requires_grad_() for t in (a, w, b))
    y = fa.nn.functional.layer_norm(x, (size[1],), weight, bias, 1e-5)
    r = 1 / np.sqrt(a.var(1, keepdims=True) + 1e-5)
    normal = (a - a.mean(1, keepdims=True)) * r
    close(y, normal * w + b, dtype)
    grads = fa.autograd.grad(y, (x, weight, bias), on_gpu(slope, dtype))
    g = slope * w
    close(
        grads[0],
        r * (g - g.mean(1, keepdims=True) - normal * (g * normal).mean(1, keepdims=True)),
        dtype,
    )
    close(grads[1], (slope * normal).sum(0), dtype)
    close(grads[2], slope.sum(0), dtype)


@pytest.mark.parametrize("dtype", [fa.float32, fa.bfloat16])
@pytest.mark.parametrize("size", [(40, 32_768), (300, 1000), (5, 50_304)])
def test_cross_entropy(size: tuple[int, int], dtype: fa.dtype) -> None:
    a = fa.from_numpy(3 * RNG.standard_normal(size)).to(dtype).to(fa.float64).numpy()
    target = RNG.integers(0, size[1], size[0])
    x = on_gpu(a, dtype).requires_grad_()
    loss = fa.nn.functional.cross_entropy(x, on_gpu(target, fa.int64))
    lse = np.log(np.exp(a).sum(1))
    right = (lse - a[np.arange(size[0]), target]).mean()
    assert abs(values(loss) - right) <= (1e-5 if dtype == fa.float32 else 8e-3) * right
    (grad,) = fa.autograd.grad(loss, x)
    p = np.exp(a - lse[:, None])
    p[np.arange(size[0]), target] -= 1
    close(grad, p / size[0], dtype)


@pytest.mark.parametrize("dtype", [fa.float32, fa.bfloat16, fa.float16])
def test_normal_distribution(dtype: fa.dtype) -> None:
    """Its function and gelu are right in the tail, and of NaN and infinities."""
    low = -3.8 if dtype == fa.float16 else -12.0  # normal numbers of the dtype
    x = fa.linspace(low, 8.0, 20011).to(dtype)
    exact = np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in values(x)])
    one_rounding = {fa.float32: 2e-6, fa.bfloat16: 2**-8, fa.float16: 2**-10}[dtype]
    for got, right in (
        (fa.special.ndtr(x.to("cuda")), exact),
        (fa.nn.functional.gelu(x.to("cuda")), values(x) * exact),
    ):
        assert (np.abs(values(got) - right) <= one_rounding * np.abs(right) + 1e-30).all()
    odd = fa.tensor([-np.inf, np.inf, np.nan, 0.0, 300.0, -300.0], dtype=dtype, device="cuda")
    np.testing.assert_array_equal(values(fa.special.ndtr(odd)), [0, 1, np.nan, 0.5, 1, 0])
