"""Convolution, pooling, batch normalisation: sizes around the tiles, both memory formats.

The oracle is the definition in float64: a sum over the kernel's places of shifted products.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator

import facula as fa
import numpy as np
import pytest

from tests.grouped import grouped

Array = np.ndarray
FORMATS = ["contiguous_format", "channels_last"]


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = fa.get_num_threads()
    fa.set_num_threads(request.param)
    yield request.param
    fa.set_num_threads(before)


@pytest.fixture
def any_threads() -> Iterator[None]:
    before = fa.get_num_threads()
    yield
    fa.set_num_threads(before)


class Case:
    """One convolution with its gradients by the definition."""

    def __init__(
        self,
        x: Array,
        w: Array,
        b: Array,
        stride: tuple[int, int] | int,
        padding: int,
        dilation: int,
        groups: int,
        seed: int,
    ):
        self.x, self.w, self.b = x, w, b
        self.args = (stride, padding, dilation, groups)
        self.steps = (stride, stride) if isinstance(stride, int) else stride
        sizes = (
            (size + 2 * padding - dilation * (kernel - 1) - 1) // step + 1
            for size, kernel, step in zip(x.shape[2:], w.shape[2:], self.steps, strict=True)
        )
        self.grad = np.random.default_rng(seed).normal(size=(x.shape[0], w.shape[0], *sizes))

    @functools.cached_property
    def out(self) -> Array:
        return self.wanted[0]

    @functools.cached_property
    def wanted(self) -> list[Array]:
        """The result, and the gradients of x, w and b."""
        x, w, grad = self.x, self.w, self.grad
        _, padding, dilation, groups = self.args
        by, along = self.steps
        n, channels, height, width = x.shape
        features, depth, rows, columns = w.shape
        down, across = grad.shape[2:]
        pad = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
        split = (n, groups, -1, down, across)
        g, out = grad.reshape(split), np.zeros((n, groups, features // groups, down, across))
        grad_pad, grad_w = np.zeros_like(pad), np.zeros_like(w)
        for i in range(rows):
            for j in range(columns):
                at = (
                    slice(None),
                    slice(None),
                    slice(i * dilation, i * dilation + by * (down - 1) + 1, by),
                    slice(j * dilation, j * dilation + along * (across - 1) + 1, along),
                )
                seen, place = pad[at].reshape(split), w[:, :, i, j].reshape(groups, -1, depth)
                out += np.einsum("ngchw,gfc->ngfhw", seen, place)
                grad_pad[at] += np.einsum("ngfhw,gfc->ngchw", g, place).reshape(
                    n, channels, down, across
                )
                grad_w[:, :, i, j] = np.einsum("ngchw,ngfhw->gfc", seen, g).reshape(features, depth)
        grad_x = grad_pad[:, :, padding : padding + height, padding : padding + width]
        return [
            out.reshape(grad.shape) + self.b[:, None, None],
            grad_x,
            grad_w,
            grad.sum((0, 2, 3)),
        ]

    def run(self, dtype: str, memory_format: str, grad_format: str = "") -> list[Array]:
        form = getattr(fa, memory_format)
        tensors = [
            fa.tensor(a, dtype=getattr(fa, dtype)) for a in (self.x, self.w, self.b, self.grad)
        ]
        x, w, b, grad = tensors
        x = x.contiguous(memory_format=form)
        grad = grad.contiguous(memory_format=getattr(fa, grad_format or memory_format))
        for t in (x, w, b):
            t.requires_grad_()
        out = fa.nn.functional.conv2d(x, w, b, *self.args)
        if memory_format == "channels_last" and x.shape[1] > 1:
            assert out.is_contiguous(memory_format=form)
        out.backward(grad)
        return [out.detach().numpy(), x.grad.numpy(), w.grad.numpy(), b.grad.numpy()]

    def check(self, dtype: str, memory_format: str, grad_format: str = "") -> None:
        tolerance = 1e-5 if dtype == "float32" else 1e-13
        for got, want in zip(self.run(dtype, memory_format, grad_format), self.wanted, strict=True):
            assert got.shape == want.shape
            assert np.abs(got - want).max() < tolerance * max(np.abs(want).max(), 1), (
                self.x.shape,
                self.w.shape,
            )


def case(
    n: int,
    channels: int,
    features: int,
    kernel: tuple[int, int] | int,
    size: tuple[int, int],
    stride: tuple[int, int] | int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> Case:
    rng = np.random.default_rng(n + channels + features)
    rows, columns = (kernel, kernel) if isinstance(kernel, int) else kernel
    x = rng.normal(size=(n, channels, *size))
    w = rng.normal(size=(features, channels // groups, rows, columns))
    return Case(x, w, rng.normal(size=features), stride, padding, dilation, groups, 1)


@functools.lru_cache(maxsize=2)
def shared(sizes: tuple) -> Case:
    """One whose definition is computed once, for tests that do not change it."""
    return case(*sizes)


TILES = [
    # batch, channels, features, kernel, size, then stride, padding, dilation, groups
    (1, 16, 16, 3, (16, 16)),
    (1, 17, 31, 3, (13, 14), 1, 1),
    (2, 16, 65, 3, (9, 33), 1, 2),
    (3, 65, 17, 3, (8, 7), 1, 1),
    (2, 130, 129, 3, (11, 6), 1, 1),
    (33, 16, 20, 3, (3, 3), 1, 1),
    (1, 24, 24, 3, (4, 270), 1, 1),
    (2, 15, 40, 3, (10, 11), 1, 1),
    (2, 20, 20, 3, (10, 11), 1, 3),
    (2, 20, 24, 3, (12, 13), 1, 2, 2),
    (2, 33, 18, 3, (15, 16), 2, 1),
    (2, 16, 140, 3, (16, 13), 3, 1),
    (2, 20, 24, 3, (24, 13), (3, 1), 1),
    (2, 20, 24, 3, (12, 25), (1, 3), 1),
    (1, 3, 24, 3, (24, 37), (2, 3), 1),
    (2, 6, 6, 3, (17, 18), (2, 1), 1, 1, 6),
    (2, 4, 12, 3, (9, 19), (1, 2), 1, 1, 4),
    (2, 2, 3, 1, (5, 7)),
    (3, 40, 70, 1, (7, 7)),
    (2, 400, 17, 1, (9, 15)),
    (1, 17, 150, 1, (19, 31)),
    (2, 32, 48, 1, (9, 8), 2),
    (2, 32, 48, 1, (9, 8), 1, 1),
    (2, 3, 20, 7, (17, 21), 2, 3),
    (2, 20, 3, 5, (12, 9), 1, 2),
    (2, 1, 9, 3, (12, 12)),
    (2, 9, 1, 3, (12, 12)),
    (2, 16, 16, (2, 5), (9, 40), 1, 1),
    (2, 70, 66, (6, 6), (9, 11), 1, 3),
    (2, 7, 7, 3, (15, 16), 1, 1, 1, 7),
    (1, 19, 19, 3, (5, 33), 1, 0, 1, 19),
    (2, 5, 5, 5, (20, 65), 1, 2, 1, 5),
    (2, 6, 6, 3, (17, 18), 2, 1, 1, 6),
    (2, 6, 6, 3, (17, 40), 1, 2, 2, 6),
    (2, 4, 12, 3, (9, 9), 1, 1, 1, 4),
    (2, 40, 48, 3, (9, 9), 1, 1, 1, 2),
    (2, 3, 32, 7, (17, 37), 2, 3),
    (1, 5, 48, (3, 5), (21, 9), 1, 2),
    (3, 2, 16, 1, (5, 7), 3),
    (2, 35, 35, 3, (9, 40), 1, 1, 1, 35),
    (2, 64, 64, (5, 4), (8, 23), 1, 2, 2, 64),
    (2, 17, 30, 1, (19, 31)),
    (1, 400, 130, 1, (16, 17)),
    (1, 70, 20, 1, (64, 64)),
]

# Rows of results that fill vectors, in several tiles and slices of the depth; pixels that are read
# where they lie.
ROWS = [
    (2, 3, 20, 5, (37, 68), 2, 1),
    (1, 4, 9, 3, (133, 100), 3, 2, 2),
    (3, 8, 16, 5, (20, 32), 1, 2),
    (1, 12, 40, (6, 7), (90, 98), 2, 1),
    (2, 24, 33, 3, (12, 32), 1, 1, 1, 3),
    (1, 3, 64, 7, (150, 224), 2, 3),
    (2, 256, 48, 1, (9, 13)),
    (1, 1024, 16, 1, (5, 6)),
    (3, 70, 64, 1, (16, 24)),
]
# Results that are written by streaming stores.
LARGE = [(1, 2, 32, 5, (260, 260), 1), (1, 32, 34, 1, (256, 256)), (2, 24, 32, 1, (256, 160))]


@grouped(
    ("sizes", "dtype", "memory_format", "count"),
    itertools.product([*TILES, *ROWS, *LARGE], ["float32", "float64"], FORMATS, [1, 2]),
)
def test_convolution(
    sizes: tuple, dtype: str, memory_format: str, count: int, any_threads: None
) -> None:
    fa.set_num_threads(count)
    shared(sizes).check(dtype, memory_format)


@grouped(
    ("sizes", "memory_format"),
    itertools.product([*TILES[::5], TILES[24], TILES[-5]], FORMATS),
)
def test_gradient_in_the_other_format(sizes: tuple, memory_format: str) -> None:
    other = FORMATS[1 - FORMATS.index(memory_format)]
    shared(sizes).check("float32", memory_format, other)


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(
    "sizes",
    [
        *TILES[:5],
        *TILES[10:15],
        *TILES[24:28],
        *TILES[31:36],
        *ROWS,
        *LARGE,
        (8, 64, 64, 3, (28, 28), 1, 1),
    ],
    ids=str,
)
def test_results_do_not_depend_on_threads(sizes: tuple, memory_format: str) -> None:
    one, before = case(*sizes), fa.get_num_threads()
    results = []
    for threads in (1, 2, 5):
        fa.set_num_threads(threads)
        results.append(one.run("float32", memory_format))
    fa.set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_what_is_not_finite_stays_where_it_is_seen(value: float, memory_format: str) -> None:
    """An odd pixel reaches the outputs that see it, with the value of the definition."""
    one = case(2, 20, 24, 3, (12, 13), 1, 1)
    one.x[1, 5, 6, 7] = value
    with np.errstate(all="ignore"):
        wanted = case(2, 20, 24, 3, (12, 13), 1, 1).out
        seen = np.zeros(wanted.shape, bool)
        seen[1, :, 5:8, 6:9] = True
        wanted[1, :, 5:8, 6:9] = value * one.w[:, 5, ::-1, ::-1]
        wanted = wanted.astype("float32")
    got = one.run("float32", memory_format)
    assert np.abs(got[0][~seen] - wanted[~seen]).max() < 1e-4
    np.testing.assert_allclose(got[0][seen], wanted[seen], rtol=1e-6)
    assert np.isfinite(got[1]).all()


@pytest.mark.parametrize("memory_format", FORMATS)
def test_a_gradient_that_is_not_finite(memory_format: str) -> None:
    one = case(2, 20, 24, 3, (12, 13), 1, 1)
    one.grad[0, 3, 4, 5] = np.inf
    _, grad_x, grad_w, _ = one.run("float32", memory_format)
    seen = np.zeros(grad_x.shape, bool)
    seen[0, :, 3:6, 4:7] = True
    assert np.isfinite(grad_x[~seen]).all()
    np.testing.assert_array_equal(grad_x[seen].reshape(20, 3, 3), np.inf * one.w[3])
    assert np.isfinite(np.delete(grad_w, 3, 0)).all()
    np.testing.assert_array_equal(grad_w[3], np.inf * one.x[0, :, 3:6, 4:7])


@pytest.mark.parametrize("scale", ["even", "channels", "pixels", "filters"])
def test_error_stays_near_that_of_the_definition(scale: str) -> None:
    """In float32: against the bound eps sum |x| |w| that direct summation keeps to."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 64, 20, 20)), rng.normal(size=(48, 64, 3, 3))
    if scale == "channels":
        x *= 10.0 ** rng.uniform(-6, 6, size=(1, 64, 1, 1))
    if scale == "pixels":
        x *= 10.0 ** rng.uniform(-6, 6, size=(2, 1, 20, 20))
    if scale == "filters":
        w *= 10.0 ** rng.uniform(-6, 6, size=(48, 64, 1, 1))
    x, w = x.astype("float32").astype("float64"), w.astype("float32").astype("float64")
    zero = np.zeros(48)
    exact = Case(x, w, zero, 1, 1, 1, 1, 0)
    # The sizes of what a 3 x 3 window sees, each with each filter's total.
    total = np.abs(w).sum((2, 3), keepdims=True) * np.ones((1, 1, 3, 3))
    bound = Case(np.abs(x), total, zero, 1, 1, 1, 1, 0).out
    got = exact.run("float32", "contiguous_format")[0]
    assert (np.abs(got - exact.out) / bound).max() < 1.2e-7


def test_gradients_of_gradients() -> None:
    rng = np.random.default_rng(0)
    x, w = (
        fa.tensor(rng.normal(size=s), requires_grad=True) for s in [(1, 16, 12, 12), (16, 16, 3, 3)]
    )
    side = fa.tensor(rng.normal(size=(1, 16, 12, 12)))

    def some(t: fa.Tensor, v: fa.Tensor) -> fa.Tensor:
        return (fa.nn.functional.conv2d(t, v, padding=1) * side).sum()

    a, b = fa.tensor(rng.normal(size=x.shape)), fa.tensor(rng.normal(size=w.shape))
    grads = fa.autograd.grad(some(x, w), [x, w], create_graph=True)
    got = fa.autograd.grad([grads[0], grads[1]], [x, w], [a, b])
    step = 1e-4
    for k in range(2):
        moved = []
        for sign in (1, -1):
            u, v = (t.detach().clone().requires_grad_() for t in (x, w))
            point = (u, v + sign * step * b) if k == 0 else (u + sign * step * a, v)
            moved.append(fa.autograd.grad(some(*point), [u, v])[k])
        want = (moved[0] - moved[1]).numpy() / (2 * step)
        assert np.abs(got[k].numpy() - want).max() < 1e-5 * np.abs(want).max()


def pooled(x: Array, kernel: int, stride: int, padding: int, fill: float) -> tuple[Array, Callable]:
    """Windows (n, c, y, x, kernel * kernel), and what takes their values back to the image."""
    height, width = x.shape[2:]
    pad = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)), constant_values=fill)
    view = np.lib.stride_tricks.sliding_window_view(pad, (kernel, kernel), (2, 3))[
        :, :, ::stride, ::stride
    ]
    windows = view.reshape(*view.shape[:4], -1)

    def back(values: Array) -> Array:
        total = np.zeros_like(pad)
        for k in range(kernel * kernel):
            i, j = divmod(k, kernel)
            rows = slice(i, i + stride * (values.shape[2] - 1) + 1, stride)
            total[:, :, rows, j : j + stride * (values.shape[3] - 1) + 1 : stride] += values[..., k]
        return total[:, :, padding : padding + height, padding : padding + width]

    return windows, back


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize(
    "sizes",
    [
        (1, 3, 5, 6, 2, 2, 0),
        (2, 70, 9, 17, 3, 2, 1),
        (2, 64, 8, 8, 3, 1, 1),
        (3, 129, 35, 4, 2, 2, 1),
    ],
)
def test_pooling(sizes: tuple, kind: str, memory_format: str, threads: int) -> None:
    n, c, height, width, kernel, stride, padding = sizes
    values = (
        np.random.default_rng(0).integers(0, 9, size=(n, c, height, width)).astype("float64")
    )  # with ties
    x = fa.tensor(values).contiguous(memory_format=getattr(fa, memory_format)).requires_grad_()
    out = getattr(fa.nn.functional, f"{kind}_pool2d")(x, kernel, stride, padding)
    windows, back = pooled(values, kernel, stride, padding, -np.inf if kind == "max" else 0)
    grad = np.random.default_rng(1).normal(size=windows.shape[:4])
    out.backward(fa.tensor(grad))
    if kind == "max":
        want, share = windows.max(-1), np.eye(kernel * kernel)[windows.argmax(-1)]
    else:
        want, share = windows.mean(-1), np.full(windows.shape, 1 / kernel**2)
    assert np.abs(out.detach().numpy() - want).max() < 1e-14
    assert np.abs(x.grad.numpy() - back(grad[..., None] * share)).max() < 1e-14
    assert out.is_contiguous(memory_format=getattr(fa, memory_format))


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(
    "sizes", [(2, 3, 2, 2), (4, 65, 5, 7), (3, 64, 40, 30), (2, 1, 9, 9), (40, 130, 3, 3)]
)
def test_batch_norm(sizes: tuple, memory_format: str, threads: int) -> None:
    rng = np.random.default_rng(0)
    channels = sizes[1]
    x = (rng.normal(size=sizes) + 100 * rng.normal(size=(1, channels, 1, 1))).astype("float32")
    w, b, g = (rng.normal(size=s).astype("float32") for s in [channels, channels, sizes])
    exact, dims = x.astype("float64"), (0, 2, 3)
    mean, var = exact.mean(dims, keepdims=True), exact.var(dims, keepdims=True)
    normal = (exact - mean) / np.sqrt(var + 1e-5)
    wide = w.astype("float64")[:, None, None]
    want = normal * wide + b.astype("float64")[:, None, None]
    rest = g - g.mean(dims, keepdims=True) - normal * (g * normal).mean(dims, keepdims=True)
    tx = fa.tensor(x).contiguous(memory_format=getattr(fa, memory_format)).requires_grad_()
    tw, tb = (fa.tensor(a, requires_grad=True) for a in (w, b))
    running = fa.zeros(channels), fa.ones(channels)
    out = fa.nn.functional.batch_norm(tx, *running, tw, tb, training=True)
    out.backward(fa.tensor(g))
    count = x.size // channels
    for got, expected in [
        (out.detach(), want),
        (tx.grad, wide * rest / np.sqrt(var + 1e-5)),
        (tw.grad, (g * normal).sum(dims)),
        (tb.grad, g.sum(dims, dtype="float64")),
        (running[0], 0.1 * mean.ravel()),
        (running[1], 0.9 + 0.1 * var.ravel() * count / (count - 1)),
    ]:
        assert np.abs(got.numpy() - expected).max() < 4e-5 * max(np.abs(expected).max(), 1)
    assert out.is_contiguous(memory_format=getattr(fa, memory_format)) or channels == 1
