"""Windows of pools, by their definition: what they see, and which of equal values is taken."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import facula as fa
import numpy as np
import pytest

F = fa.nn.functional
Window = tuple[slice, ...]


def adaptive(sizes: tuple[int, ...], outs: tuple[int, ...]) -> Iterator[tuple[Any, Window]]:
    """Window i of n over s elements: from floor(i s / n) to ceil((i + 1) s / n)."""
    for at in itertools.product(*map(range, outs)):
        ends = zip(at, sizes, outs, strict=True)
        yield at, tuple(slice(i * s // n, -(-(i + 1) * s // n)) for i, s, n in ends)


def plain(
    sizes: tuple[int, ...], kernel: int, stride: int, padding: int, dilation: int
) -> Iterator[tuple[Any, Window]]:
    outs = [(s + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1 for s in sizes]
    for at in itertools.product(*map(range, outs)):
        window = []
        for i, s in zip(at, sizes, strict=True):
            first = i * stride - padding
            begin = first + (-first + dilation - 1) // dilation * dilation if first < 0 else first
            window.append(slice(begin, min(s, first + dilation * (kernel - 1) + 1), dilation))
        yield at, tuple(window)


def check_choices(x: np.ndarray, values: Any, places: Any, windows: Any, name: str) -> None:
    """The first largest of each window, in the order of memory."""
    lead = x.ndim - len(next(iter(windows))[1])
    numbers = np.arange(np.prod(x.shape[lead:])).reshape(x.shape[lead:])
    for at, window in windows:
        seen = x[(..., *window)].reshape(*x.shape[:lead], -1)
        best = seen.argmax(-1)
        where = (..., *at)
        np.testing.assert_array_equal(
            values[where], np.take_along_axis(seen, best[..., None], -1)[..., 0], name
        )
        np.testing.assert_array_equal(places[where], numbers[window].ravel()[best], name)


SIZES = {1: (7,), 2: (7, 5), 3: (5, 4, 6)}


def images(dims: int, last: bool, dtype: fa.dtype) -> tuple[np.ndarray, fa.Tensor]:
    """Few different values, so that most windows have several of the largest."""
    x = np.random.default_rng(dims).integers(0, 3, (2, 3, *SIZES[dims])).astype(np.float64)
    t = fa.tensor(x, dtype=dtype)
    return x, t.contiguous(memory_format=fa.channels_last) if last else t


LAYOUTS = [(1, False), (2, False), (2, True), (3, False)]


@pytest.mark.parametrize("dtype", [fa.float32, fa.float64])
@pytest.mark.parametrize(("dims", "last"), LAYOUTS)
def test_max_pools_take_the_first(dims: int, last: bool, dtype: fa.dtype) -> None:
    x, t = images(dims, last, dtype)
    pool = getattr(F, f"max_pool{dims}d")
    for kernel, stride, padding, dilation in (
        (2, 2, 0, 1), (3, 1, 1, 1), (3, 2, 1, 1), (2, 1, 0, 2), (2, 3, 1, 2), (1, 1, 0, 1),
        (1, 2, 0, 1), (2, 1, 1, 1), (4, 3, 2, 1),
    ):  # fmt: skip
        windows = list(plain(SIZES[dims], kernel, stride, padding, dilation))
        values, places = pool(t, kernel, stride, padding, dilation, return_indices=True)
        name = f"{kernel} {stride} {padding} {dilation}"
        check_choices(x, values.numpy(), places.numpy(), windows, name)
        only = pool(t, kernel, stride, padding, dilation)
        np.testing.assert_array_equal(only.numpy(), values.numpy(), name)
        # the gradient goes where the value came from
        u = t.clone().requires_grad_()
        by = fa.rand(values.shape, dtype=dtype)
        (slope,) = fa.autograd.grad(pool(u, kernel, stride, padding, dilation), u, by)
        want = np.zeros((6, x[0, 0].size))
        to, what = places.numpy().reshape(6, -1), by.numpy().reshape(6, -1)
        for row in range(6):
            np.add.at(want[row], to[row], what[row])
        np.testing.assert_allclose(slope.numpy().reshape(6, -1), want, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize(("dims", "last"), LAYOUTS)
def test_adaptive_pools(dims: int, last: bool) -> None:
    x, t = images(dims, last, fa.float64)
    for outs in itertools.product(*((1, 2, s - 1, s, s + 2) for s in SIZES[dims])):
        windows = list(adaptive(SIZES[dims], outs))
        mean = getattr(F, f"adaptive_avg_pool{dims}d")(t, outs).numpy()
        values, places = getattr(F, f"adaptive_max_pool{dims}d")(t, outs, return_indices=True)
        assert mean.shape == values.shape == (2, 3, *outs)
        for at, window in windows:
            seen = x[(..., *window)].reshape(2, 3, -1)
            np.testing.assert_allclose(mean[(..., *at)], seen.mean(-1), rtol=1e-12)
        check_choices(x, values.numpy(), places.numpy(), windows, str(outs))
