"""Products, attention, convolutions of sizes around the kernels' tiles, with and without BLAS."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest
from harness import run_python

SIZES = [1, 2, 3, 5, 8, 13, 14, 15, 16, 17, 19, 28, 31, 33, 48, 65, 97]
# Beyond one block of depth or columns; few rows or columns; past the size that threads share.
LARGE = [
    (57, 300, 33),
    (30, 530, 800),
    (3, 1000, 70),
    (700, 20, 3),
    (129, 513, 1025),
    (300, 257, 310),
    (64, 784, 257),
    (1, 700, 513),
    (513, 700, 1),
]


def laid_out(x: np.ndarray, layout: str) -> fa.Tensor:
    if layout == "transposed":
        return fa.tensor(np.ascontiguousarray(x.T)).t()
    if layout == "gaps":
        wide = np.zeros((x.shape[0], 2 * x.shape[1]), x.dtype)
        wide[:, ::2] = x
        return fa.tensor(wide)[:, ::2]
    return fa.tensor(x)


def check_products(dtype: str, layout: str) -> None:
    rng = np.random.default_rng(0)
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    for m in SIZES:
        for k in SIZES:
            for n in SIZES[m % 2 :: 2]:
                a, b = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)
                got = (laid_out(a, layout) @ laid_out(b, layout)).numpy()
                want = a.astype("float64") @ b.astype("float64")
                error = np.abs(got - want).max() / max(np.abs(want).max(), 1)
                assert error < tolerance * k, (dtype, layout, m, k, n)


def check_large_products(dtype: str, layout: str) -> None:
    """alpha A B + beta C for each layout of the factors and of the result."""
    rng = np.random.default_rng(1)
    tolerance = {"float32": 2e-6, "float64": 1e-14, "bfloat16": 2**-7}[dtype]
    for m, k, n in LARGE:
        values = [rng.normal(size=s).astype("float32") for s in [(m, k), (k, n), (m, n)]]
        a, b, c = (laid_out(x, layout).to(getattr(fa, dtype)) for x in values)
        x, y, z = (t.double().numpy() for t in (a, b, c))
        for alpha, beta in [(1, 0), (1, 1), (-0.5, 1), (2, 0.25)]:
            want = alpha * (x @ y) + beta * z
            bound = tolerance * np.sqrt(k) * max(np.abs(want).max(), 1)
            nan = fa.full((2 * m * n,), float("nan"), dtype=c.dtype)
            for got in (
                nan[: m * n].view(m, n),
                nan[: m * n].view(n, m).t(),
                nan.view(m, 2 * n)[:, ::2],
            ):
                fa.addmm(c, a, b, beta=beta, alpha=alpha, out=got)
                error = np.abs(got.double().numpy() - want).max()
                assert error < bound, (dtype, layout, m, k, n, alpha, beta, error)


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "gaps"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products(dtype: str, layout: str) -> None:
    check_products(dtype, layout)


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "gaps"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_large_products(dtype: str, layout: str) -> None:
    check_large_products(dtype, layout)


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "gaps"])
def test_result_does_not_depend_on_threads(layout: str) -> None:
    rng = np.random.default_rng(2)
    before = fa.get_num_threads()
    try:
        for dtype in (fa.float32, fa.float64, fa.bfloat16, fa.float16):
            for m, k, n in LARGE:
                a, b = (
                    laid_out(rng.normal(size=s).astype("float32"), layout) for s in [(m, k), (k, n)]
                )
                results = []
                for threads in (1, 2, 5):
                    fa.set_num_threads(threads)
                    results.append((a.to(dtype) @ b.to(dtype)).double().numpy())
                assert all(np.array_equal(results[0], r) for r in results), (dtype, m, k, n)
    finally:
        fa.set_num_threads(before)


@pytest.mark.parametrize("size", [1, 2, 4, 15, 16, 17, 33])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_batches_of_small_products(dtype: str, size: int) -> None:
    rng = np.random.default_rng(size)
    for m, k, n in [(size, size, size), (size, 40, 3), (5, size, 20)]:
        a, b = (
            fa.tensor(rng.normal(size=s), dtype=getattr(fa, dtype)) for s in [(9, m, k), (9, n, k)]
        )
        want = a.double().numpy() @ b.double().numpy().transpose(0, 2, 1)
        error = np.abs(fa.bmm(a, b.transpose(1, 2)).double().numpy() - want).max()
        assert (
            error
            <= {"float32": 1e-5, "float64": 1e-13, "bfloat16": 2**-8}[dtype] * np.abs(want).max()
        )


def test_products_without_blas() -> None:
    code = "import test_matmul_sizes as t; t.check_products('float32', 'contiguous')\n"
    code += "t.check_products('float64', 'transposed'); t.check_large_products('float32', 'gaps')"
    run_python(code, FACULA_BLAS="none")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_products_of_16_bits(dtype: str) -> None:
    rng = np.random.default_rng(0)
    for m, k, n in [
        (1, 40, 40),
        (16, 32, 16),
        (17, 33, 19),
        (64, 256, 64),
        (65, 257, 63),
        (40, 1000, 48),
    ]:
        a, b = (fa.tensor(rng.normal(size=s), dtype=getattr(fa, dtype)) for s in [(m, k), (k, n)])
        want = a.double().numpy() @ b.double().numpy()
        error = np.abs((a @ b).double().numpy() - want).max() / np.abs(want).max()
        assert error < 2 ** (-8 if dtype == "bfloat16" else -11), (m, k, n)


@pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 15, 17, 33, 64])
def test_attention(width: int) -> None:
    rng = np.random.default_rng(width)
    for queries, keys in [(1, 1), (2, 17), (5, 3), (33, 65), (70, 130)]:
        q, k, v = (
            fa.tensor(rng.normal(size=(2, 3, length, width)), requires_grad=True)
            for length in (queries, keys, keys)
        )
        got = fa.nn.functional.scaled_dot_product_attention(q, k, v)
        weights = (q @ k.transpose(-1, -2) / width**0.5).softmax(-1)
        want = weights @ v
        assert np.abs(got.detach().numpy() - want.detach().numpy()).max() < 1e-12
        g = fa.tensor(rng.normal(size=got.shape))
        for a, b in zip(
            fa.autograd.grad(got, [q, k, v], g),
            fa.autograd.grad(want, [q, k, v], g),
            strict=True,
        ):
            assert np.abs(a.numpy() - b.numpy()).max() < 1e-10


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_attention_keeps_the_layout_of_tokens(dtype: str) -> None:
    """Results and gradients lie as query, key and value do, and are those of dense operands."""
    rng = np.random.default_rng(5)
    x = fa.tensor(rng.normal(size=(2, 37, 3 * 4 * 24))).to(getattr(fa, dtype))
    q, k, v = (t.view(2, 37, 4, 24).transpose(1, 2).requires_grad_() for t in x.split(96, 2))
    got = fa.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert got.transpose(1, 2).is_contiguous()
    g = fa.tensor(rng.normal(size=got.shape)).to(got.dtype)
    grads = fa.autograd.grad(got, [q, k, v], g)
    assert all(t.transpose(1, 2).is_contiguous() for t in grads)
    dense = [t.detach().contiguous().requires_grad_() for t in (q, k, v)]
    want = fa.nn.functional.scaled_dot_product_attention(*dense, is_causal=True)
    assert want.is_contiguous()
    for a, b in zip([got, *grads], [want, *fa.autograd.grad(want, dense, g)], strict=True):
        np.testing.assert_array_equal(a.detach().double().numpy(), b.detach().double().numpy())


@pytest.mark.parametrize("scale", [None, 0.0, -0.3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_attention_hides_keys(dtype: str, scale: float | None) -> None:
    """Masks, hidden queries, and heads that lie 4096 bytes apart, against NumPy."""
    rng = np.random.default_rng(3)
    batch, heads, queries, keys, width = 2, 16, 45, 70, 64
    x = [rng.normal(size=(batch, n, heads, width)).astype(dtype) for n in (queries, keys, keys)]
    q, k, v = (fa.tensor(a).transpose(1, 2) for a in x)
    seen = rng.random((queries, keys)) < 0.5
    seen[7] = False
    scores = np.einsum("bqhd,bkhd->bhqk", x[0].astype("float64"), x[1])
    scores *= width**-0.5 if scale is None else scale
    for mask in (None, seen, np.where(seen, 0.5, -np.inf).astype(dtype)):
        hidden = (
            scores if mask is None else np.where(seen, scores + (mask.dtype != bool) * 0.5, -np.inf)
        )
        top = hidden.max(-1, keepdims=True)
        weights = np.exp(hidden - np.where(np.isinf(top), 0, top))
        weights /= np.maximum(weights.sum(-1, keepdims=True), 1e-300)
        want = np.einsum("bhqk,bkhd->bhqd", weights, x[2])
        got = fa.nn.functional.scaled_dot_product_attention(
            q, k, v, None if mask is None else fa.tensor(mask), scale=scale
        ).numpy()
        if mask is not None and np.isnan(got[:, :, 7]).all():
            got[:, :, 7] = 0
        assert np.abs(got - want).max() < {"float32": 5e-6, "float64": 1e-13}[dtype]


@pytest.mark.parametrize("channels", [1, 3, 8, 64])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("last", [False, True])
def test_convolution_of_single_pixels(channels: int, dtype: str, last: bool) -> None:
    """As in squeeze and excite: images of one pixel, of which nothing says how it lies."""
    rng = np.random.default_rng(channels)
    kind, form = getattr(fa, dtype), fa.channels_last if last else fa.contiguous_format
    for batch, features, kernel, padding in [
        (4, 6, 1, 0),
        (3, 16, 3, 1),
        (1, 2, 1, 0),
        (5, 32, 1, 0),
    ]:
        x = (
            fa.tensor(rng.normal(size=(batch, channels, 1, 1)))
            .to(kind)
            .contiguous(memory_format=form)
        )
        w = fa.tensor(rng.normal(size=(features, channels, kernel, kernel))).to(kind)
        x, w = x.requires_grad_(), w.requires_grad_()
        got = fa.nn.functional.conv2d(x, w, padding=padding)
        middle = w.detach().double().numpy()[:, :, kernel // 2, kernel // 2]
        flat = x.detach().double().numpy()[:, :, 0, 0]
        g = rng.normal(size=(batch, features))
        got.backward(fa.tensor(g).to(kind)[:, :, None, None])
        g = fa.tensor(g).to(kind).double().numpy()
        near = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 3e-2}[dtype]
        for a, b in [
            (got.detach()[:, :, 0, 0], flat @ middle.T),
            (x.grad[:, :, 0, 0], g @ middle),
            (w.grad[:, :, kernel // 2, kernel // 2], g.T @ flat),
        ]:
            assert np.abs(a.double().numpy() - b).max() <= near * max(1, np.abs(b).max())


@pytest.mark.parametrize("channels", [1, 2, 3, 7, 16, 19, 33])
def test_convolution(channels: int) -> None:
    """Against a sum over the kernel's places of shifted products."""
    rng = np.random.default_rng(channels)
    for out, size, kernel in [(1, 5, 3), (2, 9, 3), (5, 18, 2), (17, 19, 3), (33, 8, 1)]:
        x, w = (
            rng.normal(size=(2, channels, size, size)),
            rng.normal(size=(out, channels, kernel, kernel)),
        )
        side = size - kernel + 1
        want = np.zeros((2, out, side, side))
        for i in range(kernel):
            for j in range(kernel):
                patch = x[:, :, i : i + side, j : j + side]
                want += np.einsum("nchw,oc->nohw", patch, w[:, :, i, j])
        got = fa.nn.functional.conv2d(fa.tensor(x), fa.tensor(w)).numpy()
        assert np.abs(got - want).max() < 1e-11, (channels, out, size, kernel)
        wide = fa.nn.functional.conv2d(fa.tensor(x).float(), fa.tensor(w).float()).numpy()
        assert np.abs(wide - want).max() < 1e-3


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "float64", "int64"])
def test_products_of_overlapping_rows(dtype: str) -> None:
    """Rows and columns that share memory: one for all, and windows along a line."""
    line = fa.arange(1.0, 20.0, dtype=fa.float64).to(getattr(fa, dtype))
    strides = ((0, 1), (1, 0), (0, 0), (1, 1), (1, 4), (2, 1), (1, 2), (5, 1), (6, 2))
    layouts = [line.as_strided((3, 4), s) for s in strides]
    for a in layouts:
        for b in layouts:
            x, y = np.array(a.tolist()), np.array(b.tolist()).T
            np.testing.assert_allclose((a @ b.t()).numpy(), x @ y)
            np.testing.assert_allclose((a[:1] @ b.t()).numpy(), x[:1] @ y)
            np.testing.assert_allclose((a @ b.t()[:, :1]).numpy(), x @ y[:, :1])


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_linear_adds_its_bias_once(dtype: str) -> None:
    """A bias for each feature, one for all, and one with gaps; against NumPy in float64."""
    rng = np.random.default_rng(5)
    kind = getattr(fa, dtype)
    tolerance = {"float32": 2e-5, "float64": 1e-12, "bfloat16": 2e-2, "float16": 3e-3}[dtype]
    for rows, inward, outward in [
        (1, 5, 7),
        (3, 1, 2),
        (33, 64, 70),
        (40, 300, 33),
        (64, 784, 256),
    ]:
        x = fa.tensor(rng.normal(size=(rows, inward)), dtype=kind)
        w = fa.tensor(rng.normal(size=(outward, inward)), dtype=kind)
        for b in (
            fa.tensor(rng.normal(size=outward), dtype=kind),
            fa.tensor(rng.normal(size=2 * outward), dtype=kind)[::2],
            fa.tensor(rng.normal(size=1), dtype=kind),
            fa.tensor(3.5, dtype=kind),
        ):
            got = fa.nn.functional.linear(x, w, b).double().numpy()
            want = x.double().numpy() @ w.double().numpy().T + b.double().numpy()
            assert np.abs(got - want).max() <= tolerance * max(1, np.abs(want).max())
