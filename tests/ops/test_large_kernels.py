"""Convolutions whose kernels are about as large as their input.

They take time of outputs times taps, and lose no digit. The large ones are single products of a
vector with another: where one took time of their square, the test would not end.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import facula as fa
import numpy as np
import pytest
from scipy import signal

F = fa.nn.functional
LIMIT = 2e-6


def normal(*shape: int, dtype: Any = None) -> fa.Tensor:
    values = np.random.default_rng(sum(shape)).normal(size=shape)
    return fa.tensor(values).to(dtype or fa.float32)


def doubles(t: fa.Tensor) -> np.ndarray:
    return np.asarray(t.detach().to(fa.float64).numpy())


def near(got: Any, want: Any, scale: float, limit: float = LIMIT) -> None:
    got = doubles(got)
    assert got.shape == np.shape(want)
    assert np.abs(got - want).max() < limit * scale


LARGE = [
    (1, 1, 2048, 1024),
    (1, 2, 700_001),
    (1, 1, 90, 100, 110),
    (2, 1, 150_000, 1),
    (2, 1, 1, 150_000),
]


@pytest.mark.parametrize("shape", LARGE, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_a_kernel_as_large_as_the_image(shape: tuple[int, ...], dtype: str) -> None:
    kind = getattr(fa, dtype)
    limit = {"float64": 1e-14, "float32": LIMIT, "bfloat16": 2.0**-8, "float16": 2.0**-10}[dtype]
    dims = len(shape) - 2
    conv, turned = getattr(F, f"conv{dims}d"), getattr(F, f"conv_transpose{dims}d")
    x = (normal(*shape, dtype=kind) * 0.05).requires_grad_()
    w = (normal(1, *shape[1:], dtype=kind) * 0.05).requires_grad_()
    out = conv(x, w)
    a, b = doubles(x), doubles(w)
    near(
        out,
        (a * b).sum(axis=tuple(range(1, len(shape))), keepdims=True),
        np.abs(a * b).sum(),
        limit,
    )
    grad = normal(*out.shape, dtype=kind)
    out.backward(grad)
    g = doubles(grad)
    near(x.grad, g * b, np.abs(g * b).max(), limit)
    near(w.grad, (g * a).sum(axis=0, keepdims=True), np.abs(g * a).max() * 2, limit)
    near(turned(grad, w), g * b, np.abs(g * b).max(), limit)


def test_groups_of_kernels_as_large_as_the_image() -> None:
    x, w = normal(2, 6, 300, 200).requires_grad_(), normal(6, 1, 300, 200).requires_grad_()
    for form in (fa.contiguous_format, fa.channels_last):
        x.grad = w.grad = None
        out = F.conv2d(x.contiguous(memory_format=form), w, groups=6)
        a, b = doubles(x), doubles(w)
        products = a * b[:, 0]
        near(out, products.sum(axis=(2, 3), keepdims=True), np.abs(products).sum() / 12)
        out.sum().backward()
        near(x.grad, np.broadcast_to(b[:, 0], a.shape), 1)
        near(w.grad, a.sum(axis=0)[:, None], 8)


# Sizes of signal and kernel, margin, stride: results that are one, few, as many as taps, more.
LINES = [
    (4000, 4000, 0, 1),
    (4000, 3990, 0, 1),
    (4000, 3500, 0, 1),
    (4000, 3500, 1750, 1),
    (3000, 5000, 2500, 1),
    (4000, 2000, 0, 1),
    (5000, 800, 400, 3),
    (4000, 3900, 40, 7),
]


@pytest.mark.parametrize("line", LINES, ids=str)
@pytest.mark.parametrize("channels", [1, 3])
def test_lines(line: tuple[int, int, int, int], channels: int) -> None:
    size, kernel, margin, stride = line
    x = normal(1, channels, size).requires_grad_()
    w = normal(2, channels, kernel).requires_grad_()
    out = F.conv1d(x, w, padding=margin, stride=stride)
    a, b = doubles(x)[0], doubles(w)
    pad = np.pad(a, [(0, 0), (margin, margin)])
    want = np.stack([sum(map(signal.correlate, pad, k, ["valid"] * channels))[::stride] for k in b])
    near(out, want[None], np.sqrt(kernel * channels) * 8)
    grad = normal(*out.shape)
    out.backward(grad)
    spread = np.zeros((2, (out.shape[2] - 1) * stride + 1))
    spread[:, ::stride] = doubles(grad)[0]
    # Fourier transforms of doubles are good for the digits of floats.
    back = np.zeros(pad.shape)
    back[:, : spread.shape[1] + kernel - 1] = [
        sum(signal.fftconvolve(s, k[c]) for s, k in zip(spread, b, strict=True))
        for c in range(channels)
    ]
    near(x.grad, back[None, :, margin : margin + size], np.sqrt(kernel) * 8)
    slope = [
        [signal.correlate(p[: spread.shape[1] + kernel - 1], s, "valid") for p in pad]
        for s in spread
    ]
    near(w.grad, np.array(slope), np.sqrt(out.shape[2]) * 8)
    turned = F.conv_transpose1d(grad, w, stride=stride, padding=margin)
    near(turned, back[None, :, margin : margin + turned.shape[2]], np.sqrt(kernel) * 8)


@pytest.mark.parametrize("kernel", [(60, 70), (70, 15), (15, 70), (40, 40)], ids=str)
def test_planes(kernel: tuple[int, int]) -> None:
    x, w = normal(1, 1, 70, 72).requires_grad_(), normal(1, 1, *kernel).requires_grad_()
    out = F.conv2d(x, w, padding=(3, 2))
    a, b = np.pad(doubles(x)[0, 0], [(3, 3), (2, 2)]), doubles(w)[0, 0]
    near(out, signal.correlate(a, b, "valid")[None, None], np.sqrt(b.size) * 8)
    grad = normal(*out.shape)
    out.backward(grad)
    g = doubles(grad)[0, 0]
    near(x.grad, signal.convolve(g, b)[None, None, 3:-3, 2:-2], np.sqrt(b.size) * 8)
    near(w.grad, signal.correlate(a, g, "valid")[None, None], np.sqrt(g.size) * 8)


def test_results_of_an_image_are_its_own() -> None:
    for size, kernel, outputs in (((64, 70), (64, 69), 1), ((7, 7), (7, 7), 20)):
        x, w = normal(5, 3, *size).requires_grad_(), normal(outputs, 3, *kernel)
        out = F.conv2d(x, w)
        grad = normal(*out.shape)
        out.backward(grad)
        alone = x.detach()[3:4].requires_grad_()
        one = F.conv2d(alone, w)
        one.backward(grad[3:4])
        assert (one == out[3:4]).all() and (alone.grad == x.grad[3:4]).all()


def test_memory_is_that_of_the_images() -> None:
    """Each tap by each result of a channel would be more than a gigabyte."""
    code = (
        "import resource, facula as fa\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (700 << 20, 700 << 20))\n"
        "x, w = fa.ones(1, 8, 24, 24), fa.full((8, 1, 700, 700), 0.5)\n"
        "print(fa.nn.functional.conv_transpose2d(x, w).sum(dtype=fa.float64).item())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(8 * 0.5 * 24**2 * 700**2)
