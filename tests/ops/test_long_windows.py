"""Long sums over windows, in gradients of what is used many times, and over steps of a sequence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import facula as fa
import facula.nn.functional as F
import numpy as np
import pytest
from grouped import grouped
from long_sums import (
    LAYOUTS,
    LIMIT,
    PRODUCT,
    SHALLOW,
    SUM,
    TERM,
    N,
    expanded,
    full,
    gradients,
    near,
    strided,
    threads,
)

__all__ = ["threads"]  # a fixture of every test here

# ---- images ----


def images(layout: str, channels: int, side: int) -> Any:
    x = full(2, channels, side, side)
    if layout == "channels_last":
        return x.contiguous(memory_format=fa.channels_last)
    if layout == "strided":
        return strided(2, channels, side, side + 1)[..., :side]
    return x


@pytest.mark.parametrize("layout", ["full", "channels_last", "strided"])
def test_means_of_images(layout: str) -> None:
    x = images(layout, 4, 400)
    near(F.avg_pool2d(x, 400), TERM)
    near(F.avg_pool2d(x, 390, 5), TERM)
    near(F.adaptive_avg_pool2d(x, (1, 3)), TERM)
    near(F.lp_pool2d(x, 2, 400), TERM * 400)
    near(F.avg_pool3d(full(1, 1, 70, 70, 60), (70, 70, 60)), TERM)


CHANNELS = [(1, 1, 1), (1, 16, 1), (4, 4, 4), (16, 16, 1), (4, 6, 2)]


@grouped(
    ("layout", "channels", "kernel", "stride"),
    [
        (k, c, n, s)
        for k in ("full", "channels_last", "strided")
        for c in CHANNELS
        for n, s in ((1, 1), (3, 1), (3, 2))
    ],
)
def test_weights_of_convolutions(
    layout: str, channels: tuple[int, int, int], kernel: int, stride: int
) -> None:
    inputs, outputs, groups = channels
    x, w = images(layout, inputs, 200), fa.ones(outputs, inputs // groups, kernel, kernel)
    got = gradients(lambda w: F.conv2d(x, w, stride=stride, groups=groups).sum(), w)[0]
    near(got, TERM * 2 * ((200 - kernel) // stride + 1) ** 2)
    got = gradients(
        lambda b: (F.conv2d(x, w, b, stride=stride, groups=groups) * 0.01).sum(), fa.zeros(outputs)
    )[0]
    near(got, TERM * 2 * ((200 - kernel) // stride + 1) ** 2)


@pytest.mark.parametrize("channels", [1, 16])
def test_long_convolutions(channels: int) -> None:
    x = full(1, channels, N // channels)
    w = fa.ones(channels, channels, 3)
    near(gradients(lambda w: F.conv1d(x, w).sum(), w)[0], TERM * (N // channels - 2))
    near(gradients(lambda w: F.conv_transpose1d(x, w).sum(), w)[0], TERM * (N // channels))


@pytest.mark.parametrize("channels", [1, 16])
@pytest.mark.parametrize("layout", ["full", "strided", "expanded"])
def test_large_kernels(layout: str, channels: int) -> None:
    n = 50_000
    x, w = LAYOUTS[layout](1, 1, n + 2), fa.ones(channels, 1, n)
    near(F.conv1d(x, w), TERM * n, PRODUCT)
    near(F.conv_transpose1d(fa.ones(1, 1, n), full(1, 1, n))[0, 0, n - 1], TERM * n, PRODUCT)
    x = images(layout, 4, 200) if layout != "expanded" else expanded(1, 4, 200, 200)
    near(F.conv2d(x, fa.ones(channels, 4, 200, 200)), TERM * 160_000, PRODUCT)
    near(F.conv2d(x, fa.ones(4, 1, 200, 200), groups=4), TERM * 40_000, PRODUCT)
    near(F.conv2d(full(1, n, 1, 1), fa.ones(channels, n, 1, 1)), TERM * n, SHALLOW)


def test_windows_that_overlap() -> None:
    """An element is in as many windows as they are long."""
    line, plane = fa.ones(1, 1, 9000), fa.ones(1, 1, 250, 250)
    near(gradients(lambda t: F.avg_pool1d(t, 3000, 1).sum(), line)[0][0, 0, 4500], 1)
    near(gradients(lambda t: F.avg_pool2d(t, 120, 1).sum(), plane)[0][0, 0, 125, 125], 1)
    plane = plane[..., :130, :130]
    near(gradients(lambda t: F.conv1d(t, full(1, 1, 3000)).sum(), line)[0][0, 0, 4500], TERM * 3000)
    for outputs in (1, 10):
        slope = gradients(lambda t, n=outputs: F.conv2d(t, full(n, 1, 60, 60)).sum(), plane)[0]
        near(slope[0, 0, 65, 65], TERM * 3600 * outputs, PRODUCT * 2)
    near(
        gradients(lambda t: (F.unfold(t, (60, 60)) * 0.01).sum(), plane)[0][0, 0, 65, 65],
        TERM * 3600,
    )
    for outputs in ((N,), (3, N // 3)):  # more windows than elements
        pool = F.adaptive_avg_pool1d if len(outputs) == 1 else F.adaptive_avg_pool2d
        grad = full(1, 1, *outputs)
        slope = gradients(
            lambda t, p=pool, n=outputs, g=grad: (p(t, n) * g).sum(),
            fa.ones(1, 1, *[1] * len(outputs)),
        )
        near(slope[0], TERM * grad.numel())
    dot, window = fa.ones(1, 1, 3, 3), full(1, 1, 300, 300)  # mostly margins
    near(F.conv2d(dot, window, padding=300).sum(), TERM * 9 * 90_000)
    near(gradients(lambda t: F.conv2d(t, window, padding=300).sum(), dot)[0], TERM * 90_000)


# ---- gradients of what is used many times ----

FEW = N // 6
USED: dict[str, tuple[Callable[..., Any], tuple[int, ...], float]] = {
    "expand": (lambda t: t.expand(N, 3), (1, 3), SUM),
    "broadcast": (lambda t: t + fa.zeros(N, 3), (3,), SUM),
    "repeat": (lambda t: t.repeat(N), (1,), SUM),
    "repeat_interleave": (lambda t: t.repeat_interleave(N), (1,), SUM),
    "as_strided": (lambda t: t.as_strided((N,), (0,)), (1,), SUM),
    "pad": (lambda t: F.pad(t, (N - 1, 0), mode="replicate"), (1, 1, 1), SUM),
    "interpolate": (lambda t: F.interpolate(t, N), (1, 1, 1), SUM),
    "interpolate, linear": (lambda t: F.interpolate(t, N, mode="linear"), (1, 1, 1), SUM),
    "grid_sample": (
        lambda t: F.grid_sample(t, fa.zeros(1, 1, N, 2), align_corners=True),
        (1, 1, 1, 1),
        SUM,
    ),
    "linear": (lambda t: F.linear(fa.ones(N, 1), t), (1, 1), SUM),
    "bias": (lambda t: F.linear(fa.ones(N, 2), fa.ones(3, 2), t), (3,), SUM),
    "mv": (lambda t: fa.ones(N, 4).mv(t), (4,), SUM),
    "prelu": (lambda t: F.prelu(fa.full((N,), -1.0), t), (1,), -SUM),
    "layer_norm bias": (lambda t: F.layer_norm(fa.rand(N, 4), (4,), None, t), (4,), SUM),
    "group_norm bias": (lambda t: F.group_norm(fa.rand(N, 4), 2, None, t), (4,), SUM),
    "batch_norm bias": (
        lambda t: F.batch_norm(fa.rand(N, 4), None, None, None, t, True),
        (4,),
        SUM,
    ),
    "rms_norm weight": (lambda t: F.rms_norm(fa.ones(N, 4), (4,), t, 1e-12), (4,), SUM),
    "values of attention": (
        lambda t: F.scaled_dot_product_attention(fa.zeros(1, FEW, 2), fa.zeros(1, 1, 2), t),
        (1, 1, 3),
        TERM * FEW,
    ),
    "cumsum": (lambda t: t.cumsum(0)[-1:].expand(N), (3,), SUM),
    "nll_loss": (
        lambda t: F.nll_loss(t.expand(N, 2), fa.zeros(N, dtype=fa.int64), reduction="none"),
        (1, 2),
        -SUM,
    ),
}


@grouped(("op",), [(op,) for op in USED])
def test_gradients(op: str) -> None:
    compute, shape, want = USED[op]
    (got,) = gradients(lambda t: (compute(t) * 0.01).sum(), fa.ones(shape))
    near(got[..., :1] if op == "nll_loss" else got, want, PRODUCT if op == "linear" else LIMIT)


@pytest.mark.parametrize("layout", ["full", "strided"])
def test_attention(layout: str) -> None:
    value = LAYOUTS[layout](1, FEW, 3)
    q, k = fa.zeros(1, 1, 2), fa.zeros(1, FEW, 2)
    near(F.scaled_dot_product_attention(q, k, value), TERM)
    slope = gradients(
        lambda q: F.scaled_dot_product_attention(q, k + 1, value + k[..., :1]).sum(), q
    )[0]
    assert slope.abs().max() < 1e-5
    ramp = (fa.arange(FEW) % 2).float()[
        None, :, None
    ]  # half of the keys, of which the values are ones
    slope = gradients(
        lambda q: F.scaled_dot_product_attention(q, ramp.expand(1, FEW, 2), ramp, scale=1.0).sum(),
        q,
    )[0]
    near(slope, 0.25, 2e-5)


def test_recurrent_biases() -> None:
    net, x = fa.nn.GRU(1, 1), full(30_000, 1, 1)
    for p in net.parameters():
        p.data.fill_(0.5)

    def slopes(net: Any, x: Any) -> list[float]:
        net.zero_grad()
        net(x)[0].sum().backward()
        return [float(net.bias_ih_l0.grad[2]), float(net.bias_hh_l0.grad[2])]

    for got, want in zip(slopes(net, x), slopes(net.double(), x.double()), strict=True):
        assert abs(got - want) <= 5e-6 * want  # a step's own rounding


def test_ctc() -> None:
    steps = 4000
    scores = fa.full((steps, 1, 2), math.log(0.5))
    lengths = fa.tensor([steps]), fa.tensor([1])
    loss = F.ctc_loss(scores, fa.ones(1, 1, dtype=fa.int64), *lengths, reduction="sum")
    near(loss, -steps * float(np.float32(math.log(0.5))) - math.log(steps * (steps + 1) / 2))
