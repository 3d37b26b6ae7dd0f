"""What cuDNN computes on a GPU, and what stands in: `pytest -m cuda`. Oracles are NumPy's."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import facula as fa
import numpy as np
import pytest
from facula import backends
from numpy.lib.stride_tricks import sliding_window_view

pytestmark = pytest.mark.cuda
RNG = np.random.default_rng(11)
TOLERANCE = {fa.float64: 1e-12, fa.float32: 3e-6, fa.bfloat16: 2e-2, fa.float16: 3e-3}


def on_gpu(array: np.ndarray, dtype: fa.dtype = fa.float32, **options: object) -> fa.Tensor:
    return fa.from_numpy(np.ascontiguousarray(array)).to(dtype).to("cuda").contiguous(**options)


def values(t: fa.Tensor) -> np.ndarray:
    return t.detach().cpu().to(fa.float64).numpy()


def close(got: fa.Tensor, right: np.ndarray, dtype: fa.dtype, factor: float = 1) -> None:
    assert tuple(got.shape) == right.shape
    worst = np.abs(values(got) - right).max() / np.abs(right).max()
    assert worst <= factor * TOLERANCE[dtype], (dtype, worst)


def rounded(array: np.ndarray, dtype: fa.dtype) -> np.ndarray:
    return fa.from_numpy(array).to(dtype).to(fa.float64).numpy()


def convolve(x, w, stride, padding, dilation, groups):  # type: ignore[no-untyped-def]
    dims = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(p, p) for p in padding])
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:], strict=True)]
    views = sliding_window_view(x, reach, tuple(range(2, 2 + dims)))
    steps = [slice(None, None, s) for s in stride] + [slice(None, None, d) for d in dilation]
    views = views[(slice(None), slice(None), *steps)]
    parts = []
    for g in range(groups):
        per = w.shape[1]
        k = w[g * (w.shape[0] // groups) : (g + 1) * (w.shape[0] // groups)]
        some = views[:, g * per : (g + 1) * per]
        axes = [1, *range(2 + dims, 2 + 2 * dims)]
        parts.append(np.moveaxis(np.tensordot(some, k, (axes, [1, *range(2, 2 + dims)])), -1, 1))
    return np.concatenate(parts, 1)


CASES = [
    # input, weight, stride, padding, dilation, groups
    ((2, 16, 14, 14), (32, 16, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 16, 15, 13), (24, 16, 3, 2), (2, 1), (1, 0), (1, 2), 1),
    ((3, 5, 9, 9), (7, 5, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((2, 8, 11, 11), (8, 1, 3, 3), (1, 1), (1, 1), (1, 1), 8),
    ((2, 12, 10, 10), (6, 4, 3, 3), (2, 2), (1, 1), (1, 1), 3),
    ((2, 6, 33), (4, 6, 5), (2,), (2,), (1,), 1),
    ((1, 3, 6, 7, 8), (4, 3, 2, 3, 3), (1, 2, 1), (0, 1, 1), (1, 1, 1), 1),
]


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("last", [False, True])
def test_convolutions(case, dtype: fa.dtype, last: bool) -> None:  # type: ignore[no-untyped-def]
    size, kernel, stride, padding, dilation, groups = case
    if last and len(size) != 4:
        pytest.skip("images only")
    options = {"memory_format": fa.channels_last} if last else {}
    a = rounded(RNG.standard_normal(size), dtype)
    b = rounded(RNG.standard_normal(kernel) / np.sqrt(np.prod(kernel[1:])), dtype)
    bias = rounded(RNG.standard_normal(kernel[0]), dtype)
    x, w = (on_gpu(v, dtype, **options).requires_grad_() for v in (a, b))
    c = on_gpu(bias, dtype).requires_grad_()
    function = [None, fa.nn.functional.conv1d, fa.nn.functional.conv2d, fa.nn.functional.conv3d]
    y = function[len(stride)](x, w, c, stride, padding, dilation, groups)
    right = convolve(a, b, stride, padding, dilation, groups)
    close(y, right + bias.reshape(-1, *[1] * len(stride)), dtype)
    slope = rounded(RNG.standard_normal(right.shape), dtype)
    grads = fa.autograd.grad(y, (x, w, c), on_gpu(slope, dtype, **options))
    close(grads[2], slope.sum((0, *range(2, slope.ndim))), dtype, 4)
    # convolution is linear in each: the gradient is its adjoint
    for grad, place in ((grads[0], 0), (grads[1], 1)):
        for _ in range(3):
            u = RNG.standard_normal((size, kernel)[place])
            given = (u, b) if place == 0 else (a, u)
            image = convolve(*given, stride, padding, dilation, groups)
            left, got = (slope * image).sum(), (values(grad) * u).sum()
            scale = np.sqrt((values(grad) ** 2).sum() * (u**2).sum())
            assert abs(left - got) <= 4 * TOLERANCE[dtype] * scale, (left, got, scale)


def test_transposed_convolutions() -> None:
    """The adjoint of the convolution with the same weight."""
    for dtype, groups in itertools.product((fa.float32, fa.bfloat16), (1, 2)):
        a = rounded(RNG.standard_normal((2, 8, 7, 9)), dtype)
        b = rounded(RNG.standard_normal((8, 6 // groups, 3, 3)), dtype)
        x, w = on_gpu(a, dtype), on_gpu(b, dtype)
        y = fa.nn.functional.conv_transpose2d(x, w, None, 2, 1, 1, groups)
        assert tuple(y.shape) == (2, 6, 14, 18)
        u = RNG.standard_normal(y.shape)
        left = (convolve(u, b, (2, 2), (1, 1), (1, 1), groups) * a).sum()
        got = (values(y) * u).sum()
        assert abs(left - got) <= TOLERANCE[dtype] * np.sqrt((u**2).sum() * (values(y) ** 2).sum())


def attend(q, k, v, causal, scale):  # type: ignore[no-untyped-def]
    times = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, times, 1), np.repeat(v, times, 1)
    s = q @ k.swapaxes(-1, -2) * scale
    if causal:
        s = np.where(np.tril(np.ones(s.shape[-2:], bool)), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    return p, k, v


@pytest.mark.parametrize("dtype", [fa.bfloat16, fa.float16, fa.float32])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "sizes", [(2, 4, 4, 128, 128, 64), (1, 2, 2, 70, 131, 32), (2, 8, 2, 256, 256, 128),
              (1, 2, 1, 33, 33, 40), (2, 2, 2, 50, 50, 20)],
)  # fmt: skip
def test_attention(sizes: tuple[int, ...], causal: bool, dtype: fa.dtype) -> None:
    batch, heads, kv, queries, keys, width = sizes
    shapes = (heads, queries), (kv, keys), (kv, keys)
    a, b, c = (rounded(RNG.standard_normal((batch, h, n, width)), dtype) for h, n in shapes)
    # as models have them: heads beside each other in a row
    q, k, v = (on_gpu(t.swapaxes(1, 2), dtype).transpose(1, 2).requires_grad_() for t in (a, b, c))
    y = fa.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=causal, scale=0.2, enable_gqa=kv != heads
    )
    p, wide_k, wide_v = attend(a, b, c, causal, 0.2)
    right = p @ wide_v
    factor = 3 if dtype == fa.float32 else 1
    close(y, right, dtype, factor)
    slope = rounded(RNG.standard_normal(right.shape), dtype)
    grads = fa.autograd.grad(y, (q, k, v), on_gpu(slope, dtype))
    dp = slope @ wide_v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * 0.2

    def gathered(t: np.ndarray) -> np.ndarray:
        return t.reshape(batch, kv, heads // kv, *t.shape[2:]).sum(2)

    close(grads[0], ds @ wide_k, dtype, 2 * factor)
    close(grads[1], gathered(ds.swapaxes(-1, -2) @ a), dtype, 2 * factor)
    close(grads[2], gathered(p.swapaxes(-1, -2) @ slope), dtype, 2 * factor)


def test_cudnn_is_used() -> None:
    """Nothing of this falls back to the CPU, and backward goes to the library as well."""
    before = dict(backends.fallbacks("cuda"))
    x = fa.randn(2, 8, 16, 16, device="cuda", dtype=fa.bfloat16, requires_grad=True)
    w = fa.randn(8, 8, 3, 3, device="cuda", dtype=fa.bfloat16, requires_grad=True)
    fa.nn.functional.conv2d(x, w, padding=1).sum().backward()
    again = [fa.autograd.grad(fa.nn.functional.conv2d(x, w).sum(), w)[0] for _ in range(2)]
    assert (again[0] == again[1]).all().item()
    assert dict(backends.fallbacks("cuda")) == before


@pytest.mark.parametrize("count", [3, 130])
def test_optimizers_take_many_parameters_at_once(count: int) -> None:
    for make in (
        lambda p: fa.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
        lambda p: fa.optim.AdamW(p, lr=0.1, amsgrad=True),
        lambda p: fa.optim.Adam(p, lr=0.1, weight_decay=0.1),
    ):
        here = [fa.tensor(RNG.standard_normal(1 + 37 * i % 9001)) for i in range(count)]
        ours = [t.to(fa.float32).to("cuda").requires_grad_() for t in here]
        theirs = [t.to(fa.float32).requires_grad_() for t in here]
        steps = make(ours), make(theirs)
        for _ in range(3):
            for a, b in zip(ours, theirs, strict=True):
                grad = fa.tensor(RNG.standard_normal(a.shape[0])).to(fa.float32)
                a.grad, b.grad = grad.to("cuda"), grad
            for s in steps:
                s.step()
        # Adam's quotient of moments magnifies the last bits of small gradients
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(values(a), values(b), 1e-5, 1e-4)


def test_without_cudnn() -> None:
    script = (
        "import facula as fa\n"
        "x = fa.randn(2, 3, 8, 8, device='cuda', requires_grad=True)\n"
        "w = fa.randn(4, 3, 3, 3, device='cuda', requires_grad=True)\n"
        "y = fa.nn.functional.conv2d(x, w)\n"
        "y.sum().backward()\n"
        "h = fa.nn.functional.conv2d(x.detach().cpu(), w.detach().cpu())\n"
        "assert (y.cpu() - h).abs().max().item() < 1e-4\n"
        "q = fa.randn(1, 2, 16, 8, device='cuda', dtype=fa.bfloat16)\n"
        "fa.nn.functional.scaled_dot_product_attention(q, q, q)\n"
    )
    env = {**os.environ, "FACULA_CUDNN": "0"}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
