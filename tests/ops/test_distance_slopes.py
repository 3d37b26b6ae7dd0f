"""Gradients of distances of rows of any size, next to each other and far from the origin.

The slope of a norm is a unit vector, whatever the size of the difference; mpmath has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula as fa
import mpmath as mp
import numpy as np
import pytest

X = np.array([[1.0, 2.0, -2.0], [0.0, 0.0, 1.0]])
Y = np.array([[1.0, -1.0, 2.0], [0.5, 0.0, -0.5], [1.0, 2.0, -2.0]])


def unit(difference: list[Any], p: float, shared: bool) -> list[Any]:
    """The gradient of the norm of order p; elements that tie share it, or take all of it each."""
    size = (
        max(map(abs, difference))
        if p == np.inf
        else mp.fsum(abs(d) ** p for d in difference) ** (mp.mpf(1) / p)
    )
    if size == 0:
        return [mp.mpf(0)] * len(difference)
    if p == np.inf:
        ties = sum(abs(d) == size for d in difference) if shared else 1
        return [mp.sign(d) / ties if abs(d) == size else mp.mpf(0) for d in difference]
    return [mp.sign(d) * (abs(d) / size) ** (mp.mpf(p) - 1) if d else mp.mpf(0) for d in difference]


def wanted(x: np.ndarray, y: np.ndarray, p: float, shared: bool = False) -> np.ndarray:
    """Of the sum of all distances, by the rows of x."""
    with mp.workdps(40):
        return np.array([
            [float(v) for v in map(mp.fsum, zip(*(
                unit([mp.mpf(float(a)) - mp.mpf(float(b)) for a, b in zip(r, s, strict=True)],
                     p, shared)
                for s in y
            ), strict=True))]
            for r in x
        ])  # fmt: skip


def gradient(fn: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    tensors = [fa.tensor(a, requires_grad=True) for a in arrays]
    (got,) = fa.autograd.grad(fn(*tensors).sum(), tensors[:1])
    return got.numpy()


def sizes(dtype: str) -> list[float]:
    info = np.finfo(dtype)
    return [
        float(s) for s in (info.tiny, info.tiny**0.5 / 64, 1.0, info.max**0.5 * 64, info.max / 8)
    ]


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, np.inf])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rows_of_any_size(dtype: str, p: float) -> None:
    for size in sizes(dtype):
        x, y = ((a * size).astype(dtype) for a in (X, Y))
        room = 64 * float(np.finfo(dtype).eps)
        pairs = [
            (gradient(lambda a, b: fa.cdist(a, b, p=p), x, y), wanted(x, y, p)),
            (
                gradient(lambda a: fa.linalg.vector_norm(a, p, dim=1), x),
                wanted(x, 0 * x[:1], p, True),
            ),
        ]
        for got, want in pairs:
            np.testing.assert_allclose(got, want, atol=room, err_msg=f"{size}")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_subnormal_rows(dtype: str) -> None:
    """The distance is rounded to a few digits, and its slope has as many."""
    least = float(np.finfo(dtype).smallest_subnormal)
    for by in (1, 2, 40, 1000):
        x, y = ((np.rint(a * 2) * by * least).astype(dtype) for a in (X, Y))
        for p in (1.5, 2.0, 3.0):
            got = gradient(lambda a, b, p=p: fa.cdist(a, b, p=p), x, y)
            np.testing.assert_allclose(got, wanted(x, y, p), atol=1.0 / by)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rows_close_together_and_far_out(dtype: str) -> None:
    """Of a product of the rows nothing would be left."""
    eps = float(np.finfo(dtype).eps)
    rng = np.random.default_rng(3)
    far = rng.integers(-3, 4, (40, 5)) * 16 * eps
    x, y = (1000 + 1000 * far[:20]).astype(dtype), (1000 + 1000 * far[20:]).astype(dtype)
    got = gradient(lambda a, b: fa.cdist(a, b), x, y)
    np.testing.assert_allclose(got, wanted(x, y, 2.0), atol=256 * eps)


def test_second_derivative() -> None:
    x, y = (fa.tensor(a, requires_grad=True) for a in (X, Y[:2]))
    assert fa.autograd.gradgradcheck(lambda a, b: fa.cdist(a, b), (x, y))


def test_batches_and_layouts() -> None:
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(2, 1, 6, 3)), rng.normal(size=(4, 7, 3))
    g = rng.normal(size=(2, 4, 6, 7))
    a, b = fa.tensor(x.swapaxes(-1, -2)).mT.requires_grad_(), fa.tensor(y, requires_grad=True)
    grads = fa.autograd.grad((fa.cdist(a, b) * fa.tensor(g)).sum(), (a, b))
    difference = x[..., :, None, :] - y[..., None, :, :]
    slope = g[..., None] * difference / np.linalg.norm(difference, axis=-1, keepdims=True)
    np.testing.assert_allclose(grads[0].numpy(), slope.sum(-2).sum(1, keepdims=True), atol=1e-13)
    np.testing.assert_allclose(grads[1].numpy(), -slope.sum(-3).sum(0), atol=1e-13)


@pytest.mark.parametrize("place", ["spread", "close", "shifted", "huge", "tiny", "one infinite"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_many_wide_rows(dtype: str, place: str) -> None:
    """Which go through a product, but for pairs that lie close together."""
    rng = np.random.default_rng(6)
    info = np.finfo(dtype)
    x, y = rng.normal(size=(40, 33)), rng.normal(size=(50, 33))
    y[:10] = x[:10] * (1 if place == "close" else -1)
    y[:10] += 1e-4 * rng.normal(size=(10, 33))
    y[3] = x[3]
    by = {"huge": float(info.max) / 64, "tiny": float(info.tiny)}.get(place, 1.0)
    x, y = ((a * by + (1000 if place == "shifted" else 0)).astype(dtype) for a in (x, y))
    g = rng.normal(size=(40, 50)).astype(dtype)
    if place == "one infinite":
        y[7, 5] = np.inf
    a, b = (fa.tensor(v, requires_grad=True) for v in (x, y))
    (got,) = fa.autograd.grad((fa.cdist(a, b) * fa.tensor(g)).sum(), a)
    with np.errstate(invalid="ignore", over="ignore"):
        apart = x.astype(np.longdouble)[:, None] - y.astype(np.longdouble)
        size = np.sqrt((apart * apart).sum(-1))[..., None]
        units = np.where(size == 0, 0, apart / np.where(size == 0, 1, size))
        want = (g[..., None] * units).sum(1).astype(np.float64)
    kept = ~np.isnan(want)
    assert (np.isnan(got.numpy()) == ~kept).all()
    if place == "spread":  # an infinite gradient reaches the rows of its pair alone
        weight = fa.tensor(g)
        weight[5, 17] = np.inf
        (far,) = fa.autograd.grad((fa.cdist(a, b) * weight).sum(), a)
        assert far[5].isinf().all() and fa.equal(far.isinf().sum(1) > 0, fa.arange(40) == 5)
    np.testing.assert_allclose(
        got.numpy()[kept],
        want[kept],
        atol=256 * float(info.eps) * (30 if place == "shifted" and dtype == "float32" else 1),
    )
