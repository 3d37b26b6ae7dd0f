"""Right values where windows, dilations, margins and counts are far larger than any tensor.

The references go through the definition in Python's integers, over the elements that are there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import facula as fa
import numpy as np
import pytest

F = fa.nn.functional
HUGE = 2**62


def taps(
    size: int, out: int, kernel: int, stride: int, padding: int, dilation: int
) -> Iterator[tuple[int, int, int]]:
    """(output, tap, place in the input) where they meet."""
    for o, k in itertools.product(range(out), range(kernel)):
        place = o * stride - padding + k * dilation
        if 0 <= place < size:
            yield o, k, place


def out_size(size: int, kernel: int, stride: int, padding: int, dilation: int = 1) -> int:
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def meetings(
    sizes: tuple[int, ...], outs: tuple[int, ...], kernel: tuple[int, ...], how: list[list[int]]
) -> Iterator[tuple[tuple[int, ...], ...]]:
    dims = [
        list(taps(n, o, k, *(h[d] for h in how)))
        for d, (n, o, k) in enumerate(zip(sizes, outs, kernel, strict=True))
    ]
    for chosen in itertools.product(*dims):
        yield tuple(zip(*chosen, strict=True))


def convolved(x: np.ndarray, w: np.ndarray, groups: int, *how: list[int]) -> np.ndarray:
    """(N, C, ...) with (F, C / groups, ...); `how` is stride, padding and dilation by dim."""
    kernel = w.shape[2:]
    outs = tuple(
        out_size(n, k, *(h[d] for h in how))
        for d, (n, k) in enumerate(zip(x.shape[2:], kernel, strict=True))
    )
    result = np.zeros((x.shape[0], w.shape[0], *outs))
    each, share = w.shape[0] // groups, w.shape[1]
    for o, k, i in meetings(x.shape[2:], outs, kernel, list(how)):
        for f in range(w.shape[0]):
            first = f // each * share
            part = x[(slice(None), slice(first, first + share), *i)]
            result[(slice(None), f, *o)] += part @ w[(f, slice(None), *k)]
    return result


CONVOLUTIONS: list[tuple[Any, ...]] = [
    # image, weight, groups, stride, padding, dilation
    ((1, 1, 3), (1, 1, 2), 1, [1], [2**61], [HUGE]),  # both taps see the margin alone
    ((2, 2, 5), (3, 2, 3), 1, [1], [2**60], [2**60]),  # the tap in the middle sees the image
    ((2, 4, 7), (4, 2, 3), 2, [2], [2**40], [2**40]),
    ((1, 4, 7), (4, 1, 3), 4, [1], [10**6], [10**6]),
    ((1, 2, 9), (2, 2, 4), 1, [2**33], [2**34], [1]),
    ((1, 2, 6), (2, 2, 2), 1, [3], [500], [1000]),
    ((2, 2, 4, 5), (2, 2, 3, 3), 1, [1, 1], [2**50, 1], [2**50, 1]),
    ((1, 20, 5, 5), (20, 20, 3, 3), 1, [1, 1], [10**5, 10**5], [10**5, 10**5]),
    ((1, 3, 5, 5), (3, 1, 3, 3), 3, [1, 1], [2**30, 2**30], [2**30, 2**30]),
    ((1, 2, 2, 3, 3), (2, 2, 2, 2, 2), 1, [1, 1, 1], [2**20] * 3, [2**21 - 1] * 3),
    ((1, 16, 1, 40), (16, 16, 1, 3), 1, [1, 1], [0, 300], [1, 300]),
]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("layout", ["plain", "last"])
def test_convolution(case: Any, layout: str) -> None:
    image, weight, groups, stride, padding, dilation = case
    if layout == "last" and len(image) != 4:
        pytest.skip("an image of two dims")
    rng = np.random.default_rng(len(image) + groups)
    x, w = rng.normal(size=image), rng.normal(size=weight)
    b = rng.normal(size=weight[0])
    function = getattr(F, f"conv{len(image) - 2}d")

    def tensor(a: np.ndarray) -> fa.Tensor:
        t = fa.tensor(a, dtype=fa.float64)
        if layout == "last":
            t = t.contiguous(memory_format=fa.channels_last)
        return t.requires_grad_()

    tx, tw, tb = tensor(x), tensor(w), fa.tensor(b, requires_grad=True)
    y = function(tx, tw, tb, stride, padding, dilation, groups)
    want = convolved(x, w, groups, stride, padding, dilation)
    shape = (1, -1) + (1,) * (len(image) - 2)
    np.testing.assert_allclose(y.detach().numpy(), want + b.reshape(shape), rtol=1e-12, atol=1e-12)
    assert (
        function(tx.to("meta"), tw.to("meta"), None, stride, padding, dilation, groups).shape
        == y.shape
    )
    # <conv(x), g> is linear in x and in w: its slopes are the gradients
    g = rng.normal(size=want.shape)
    gx, gw, gb = fa.autograd.grad(y, (tx, tw, tb), fa.tensor(g))
    wx, ww = np.zeros_like(x), np.zeros_like(w)
    each, share = weight[0] // groups, weight[1]
    for o, k, i in meetings(image[2:], want.shape[2:], weight[2:], [stride, padding, dilation]):
        for f in range(weight[0]):
            first = f // each * share
            channels = slice(first, first + share)
            slope = g[(slice(None), f, *o)]
            wx[(slice(None), channels, *i)] += np.outer(slope, w[(f, slice(None), *k)])
            ww[(f, slice(None), *k)] += slope @ x[(slice(None), channels, *i)]
    np.testing.assert_allclose(gx.numpy(), wx, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gw.numpy(), ww, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gb.numpy(), g.sum((0, *range(2, g.ndim))), rtol=1e-12, atol=1e-12)
    # The transposed convolution takes g to the same gradient of the input.
    rest = [
        n - ((m - 1) * s - 2 * p + d * (k - 1) + 1)
        for n, m, s, p, d, k in zip(
            image[2:], want.shape[2:], stride, padding, dilation, weight[2:], strict=True
        )
    ]
    back = getattr(F, f"conv_transpose{len(image) - 2}d")
    z = back(fa.tensor(g), tw.detach(), None, stride, padding, rest, groups, dilation)
    np.testing.assert_allclose(z.numpy(), wx, rtol=1e-12, atol=1e-12)


def test_transposed_with_a_step_for_each_tap() -> None:
    """As many residues as taps: the work is that of the results."""
    n = 100_000
    x, w = np.array([[[2.0, -1.0]]]), np.random.default_rng(0).normal(size=(1, 1, n))
    t = fa.tensor(x, requires_grad=True)
    y = F.conv_transpose1d(t, fa.tensor(w), stride=n)
    np.testing.assert_array_equal(y.detach().numpy().ravel(), np.outer([2, -1], w).ravel())
    (g,) = fa.autograd.grad(y.sum(), t)
    np.testing.assert_allclose(g.numpy(), w.sum() * np.ones((1, 1, 2)), rtol=1e-12)


def pooled(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil: bool) -> int:
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    out = (-(-room // stride) if ceil else room // stride) + 1
    return out - (ceil and (out - 1) * stride >= size + padding)


def places(size: int, kernel: int, dilation: int, start: int) -> list[int]:
    """Of the window's taps inside, without going through all of them."""
    first = -(-max(0, -start) // dilation)
    count = max(0, -(-(size - start) // dilation))
    return [start + k * dilation for k in range(first, min(kernel, count))]


POOLS = [
    # size, kernel, stride, padding, dilation, ceil
    (3, HUGE, HUGE, 2**61, 1, False),
    (5, 2**30, 1, 2**29, 1, False),
    (5, 2**30 + 1, 2, 2**29, 1, True),
    (4, 2**41, 2**40, 2**40, 1, True),
    (7, 6, 1, 3, 1, False),
    (7, 3, 2, 2**33, 2**33, False),
    (7, 5, 3, 2**40, 2**40, True),
    (6, 3, 2, 1, 5, True),
    (6, 2, 2**62, 0, 3, True),
    (1, 2**62 + 1, 2**62, 2**61, 1, False),
    (9, 3, 4, 0, 1, True),
    (1, 1, 1, 0, 2**62, False),
]


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("case", POOLS, ids=str)
def test_pools(case: Any, dims: int) -> None:
    size, kernel, stride, padding, dilation, ceil = case
    if dims == 3 and size > 5:
        pytest.skip("enough of them")
    rng = np.random.default_rng(dims)
    x = rng.permutation(2 * size**dims).reshape(1, 2, *[size] * dims).astype(np.float64)
    out = pooled(size, kernel, stride, padding, dilation, ceil)
    starts = [o * stride - padding for o in range(out)]
    inside = [places(size, kernel, dilation, s) for s in starts]
    windows = list(itertools.product(range(out), repeat=dims))
    for last in (False, True) if dims == 2 else (False,):
        t = fa.tensor(x)
        if last:
            t = t.contiguous(memory_format=fa.channels_last)
        t.requires_grad_()
        pool = getattr(F, f"max_pool{dims}d")
        y = pool(t, kernel, stride, padding, dilation, ceil)
        z, at = pool(t, kernel, stride, padding, dilation, ceil, return_indices=True)
        assert y.shape == (1, 2, *[out] * dims) == pool(t.to("meta"), *case[1:]).shape
        slope = np.zeros_like(x)
        for o in windows:
            part = x[np.ix_(range(1), range(2), *(inside[i] for i in o))].reshape(2, -1)
            want = part.max(1, initial=-np.inf)
            np.testing.assert_array_equal(y.detach().numpy()[(0, slice(None), *o)], want)
            np.testing.assert_array_equal(z.detach().numpy()[(0, slice(None), *o)], want)
            for c in range(2) if part.size else ():
                assert x[0, c].ravel()[at.numpy()[(0, c, *o)]] == want[c]
                slope[0, c] += x[0, c] == want[c]
        (g,) = fa.autograd.grad(y.sum(), t)
        np.testing.assert_array_equal(g.numpy(), slope)
        if dilation != 1:
            continue
        for counted in (True, False):
            ends = [min(s + kernel, size + padding) for s in starts]
            lengths = [
                e - s if counted else len(i) for s, e, i in zip(starts, ends, inside, strict=True)
            ]
            mean = getattr(F, f"avg_pool{dims}d")
            y = mean(t, kernel, stride, padding, ceil, counted)
            slope = np.zeros_like(x)
            for o in windows:
                box = np.ix_(range(1), range(2), *(inside[i] for i in o))
                divisor = math.prod(lengths[i] for i in o)
                want = x[box].reshape(2, -1).sum(1) / float(divisor)
                np.testing.assert_allclose(
                    y.detach().numpy()[(0, slice(None), *o)], want, rtol=1e-14
                )
                slope[box] += 1 / float(divisor)
            (g,) = fa.autograd.grad(y.sum(), t)
            np.testing.assert_allclose(g.numpy(), slope, rtol=1e-14)


def test_large_windows_of_much() -> None:
    """A window that spans all of a long row is gone through once."""
    n = 200_000
    x = np.random.default_rng(0).normal(size=(1, 1, n))
    t = fa.tensor(x)
    assert F.max_pool1d(t, 2**30, padding=2**29).item() == x.max()
    np.testing.assert_allclose(
        F.avg_pool1d(t, 2**30, padding=2**29, count_include_pad=False).item(), x.mean(), rtol=1e-10
    )


def test_blocks() -> None:
    x = fa.arange(9.0).reshape(1, 1, 3, 3)
    columns = F.unfold(x, [1, 2], dilation=[1, HUGE], padding=[0, 2**61])
    np.testing.assert_array_equal(columns.numpy(), np.zeros((1, 2, 9)))
    columns = F.unfold(x, [3, 1], dilation=[2**60, 1], padding=[2**60, 0])
    want = np.zeros((1, 3, 9))
    want[0, 1] = np.arange(9)
    np.testing.assert_array_equal(columns.numpy(), want)
    back = F.fold(columns, [3, 3], [3, 1], dilation=[2**60, 1], padding=[2**60, 0])
    np.testing.assert_array_equal(back.numpy(), x.numpy())


def test_pads() -> None:
    x = fa.arange(4.0)
    assert F.pad(x, [-HUGE, HUGE], value=7).tolist() == [7] * 4
    assert F.pad(x, [2 - HUGE, HUGE], value=7).tolist() == [7] * 6
    assert F.pad(x, [HUGE, -HUGE]).tolist() == [0] * 4
    for mode in ("replicate", "circular", "reflect"):
        got = F.pad(fa.ones(0, 2, 4), [3, 2], mode)
        assert got.shape == (0, 2, 9)
    assert F.pad(fa.ones(0, 2, 4), [2**40, 0], "replicate").shape == (0, 2, 2**40 + 4)


@pytest.mark.parametrize("repeated", [False, True])
def test_combinations(repeated: bool) -> None:
    """The table is as large as the result, not as the grid of all tuples."""
    choose = itertools.combinations_with_replacement if repeated else itertools.combinations
    for n, r in [(5, 1), (5, 3), (1, 4), (20, 19), (20, 20), (2, 40), (40, 2), (0, 2)]:
        if repeated and n > 2 and r > 2 and n + r > 10:
            continue
        x = fa.arange(n, dtype=fa.float64) + 10
        want = np.array(list(choose(range(10, 10 + n), r)), dtype=np.float64).reshape(-1, r)
        np.testing.assert_array_equal(fa.combinations(x, r, repeated).numpy(), want)
        assert fa.combinations(x.to("meta"), r, repeated).shape == want.shape


def test_counts_far_beyond_the_data() -> None:
    x = fa.tensor([1.0, 4.0, 9.0])
    assert fa.diff(x, n=HUGE).tolist() == []
    assert fa.matrix_power(fa.eye(2), 2**63 - 1).tolist() == [[1, 0], [0, 1]]
    turn = fa.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert fa.matrix_power(turn, 2**62 + 1).tolist() == turn.tolist()
    assert x.roll(HUGE).tolist() == np.roll([1, 4, 9], HUGE % 3).tolist()
    assert x.roll(-(2**63)).tolist() == np.roll([1, 4, 9], -(2**63) % 3).tolist()
    assert fa.ones(2, 2).tril(HUGE).tolist() == [[1, 1], [1, 1]]
    assert fa.ones(2, 2).triu(-(2**63)).tolist() == [[1, 1], [1, 1]]
    assert fa.ones(2, 2).diagonal(-(2**63)).tolist() == []
    assert x[:: 2**62].tolist() == [1] == x[0 : 2**63 - 1 : 2**63 - 1].tolist()
    assert fa.rot90(fa.arange(4).reshape(2, 2), HUGE + 1).tolist() == [[1, 3], [0, 2]]
    assert [p.tolist() for p in x.split(HUGE)] == [[1, 4, 9]] == [p.tolist() for p in x.split(3)]
    assert [len(p) for p in x.chunk(2**63 - 1)] == [1, 1, 1]
    assert F.group_norm(fa.ones(2, 0, 3), HUGE).shape == (2, 0, 3)


X = fa.ones(1, 1, 4, 4)
REFUSED = {
    "unfold": lambda: F.unfold(fa.ones(1, 1, 3, 3), 2**32, padding=2**32),
    "fold": lambda: F.fold(fa.ones(1, 4, 4), [HUGE, HUGE], 2, padding=2**61),
    "pixel_shuffle": lambda: F.pixel_shuffle(X, 2**32),
    "pixel_unshuffle": lambda: F.pixel_unshuffle(X, 2**32),
    "channel_shuffle": lambda: F.channel_shuffle(X, HUGE),
    "interpolate": lambda: F.interpolate(fa.zeros(1, 1, 4, 4), scale_factor=1e9),
    "interpolate ": lambda: F.interpolate(X, scale_factor=1e7, mode="bilinear"),
    "interpolate inf": lambda: F.interpolate(X, scale_factor=math.inf),
    "upsample": lambda: fa.nn.Upsample(scale_factor=1e300)(X),
    "pad": lambda: F.pad(X, [HUGE, HUGE]),
    "pad ": lambda: F.pad(X, [HUGE, HUGE], "replicate"),
    "conv_transpose2d": lambda: F.conv_transpose2d(X, fa.ones(1, 2, 1, 1), groups=HUGE),
    "conv2d": lambda: F.conv2d(X, fa.ones(2, 2, 1, 1), groups=HUGE),
    "conv_transpose1d": lambda: F.conv_transpose1d(
        X[0], fa.ones(1, 1, 2), stride=HUGE, dilation=HUGE
    ),
    "max_pool2d": lambda: F.max_pool2d(X, HUGE, dilation=HUGE),
    "repeat": lambda: X.repeat(HUGE, HUGE, 2, 1),
    "repeat_interleave": lambda: fa.repeat_interleave(fa.tensor([HUGE, HUGE, HUGE, HUGE])),
    "combinations": lambda: fa.combinations(fa.ones(200), 100),
    "combinations ": lambda: fa.combinations(fa.ones(2), HUGE, True),
    "unflatten": lambda: X.unflatten(0, [HUGE, 4]),
    "empty_strided": lambda: fa.empty_strided([2, 2], [HUGE, HUGE]),
    "cat": lambda: fa.cat([fa.ones(1).expand(HUGE)] * 3),
    "block_diag": lambda: fa.block_diag(*[fa.ones(1, 1).expand(1, HUGE)] * 3),
    "unbind": lambda: fa.ones(1).expand(HUGE).unbind(),
    "split": lambda: fa.ones(1).expand(HUGE).split(1),
    "bincount": lambda: fa.bincount(fa.tensor([2**63 - 1])),
    "one_hot": lambda: F.one_hot(fa.tensor([2**63 - 1])),
    "LSTM": lambda: fa.nn.LSTM(1, 1, num_layers=HUGE),
    "LSTM ": lambda: fa.nn.LSTM(1, HUGE),
    "zeros": lambda: fa.zeros(2**50),
    "max_unpool2d": lambda: F.max_unpool2d(X, fa.zeros(1, 1, 4, 4).long(), HUGE),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    with pytest.raises((ValueError, RuntimeError, TypeError, IndexError)) as caught:
        REFUSED[name]()
    text = str(caught.value)
    assert text and "internal" not in text and "std::" not in text, text
