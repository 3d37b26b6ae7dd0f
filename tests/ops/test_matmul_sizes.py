"""Products, attention, convolutions of sizes around the kernels' tiles, with and without BLAS."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest
from harness import run_python

SIZES = [1, 2, 3, 5, 8, 15, 16, 17, 19, 31, 33, 48, 65, 97]


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


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "gaps"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products(dtype: str, layout: str) -> None:
    check_products(dtype, layout)


def test_products_without_blas() -> None:
    code = "import test_matmul_sizes as t; t.check_products('float32', 'contiguous')\n"
    code += "t.check_products('float64', 'transposed')"
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
