"""Slopes at corners and at ties, where a choice is made: the same as PyTorch 2.13 makes it."""

from __future__ import annotations

from collections.abc import Callable

import facula as fa
import numpy as np
import pytest

F = fa.nn.functional
INF = float("inf")
SUM = {"reduction": "sum"}


def of(values: list[float]) -> fa.Tensor:
    return fa.tensor(values, dtype=fa.float64)


# A function, points of one call, and the slopes that PyTorch answers there.
KINKS: dict[str, tuple[Callable[[fa.Tensor], fa.Tensor], list[float], list[float]]] = {
    "relu": (lambda x: F.relu(x), [0.0], [0.0]),
    "relu6": (lambda x: F.relu6(x), [0.0, 6.0], [0.0, 0.0]),
    "hardtanh": (lambda x: F.hardtanh(x, -2.0, 3.0), [-2.0, 3.0], [0.0, 0.0]),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.25), [0.0], [0.25]),
    "rrelu": (lambda x: F.rrelu(x, 0.25, 0.25), [0.0], [0.25]),
    "elu": (lambda x: F.elu(x, 0.5), [0.0], [0.5]),
    "celu": (lambda x: F.celu(x, 0.5), [0.0], [1.0]),
    "selu": (lambda x: F.selu(x), [0.0], [1.758099340847]),
    "hardshrink": (lambda x: F.hardshrink(x, 0.5), [-0.5, 0.5], [0.0, 0.0]),
    "softshrink": (lambda x: F.softshrink(x, 0.5), [-0.5, 0.5], [0.0, 0.0]),
    "threshold": (lambda x: F.threshold(x, 1.5, 7.0), [1.5], [0.0]),
    "hardswish": (lambda x: F.hardswish(x), [-3.0, 3.0], [0.0, 1.0]),
    "hardsigmoid": (lambda x: F.hardsigmoid(x), [-3.0, 3.0], [0.0, 0.0]),
    "softplus": (lambda x: F.softplus(x, 1.0, 2.0), [2.0], [0.880797077978]),
    "prelu": (lambda x: F.prelu(x[None, :], of([0.25])), [0.0], [0.25]),
    "logit": (lambda x: fa.logit(x, 0.25), [0.25, 0.75], [5.333333333333, 5.333333333333]),
    "abs": (lambda x: fa.abs(x), [0.0], [0.0]),
    "clamp": (lambda x: x.clamp(-1.0, 2.0), [-1.0, 2.0], [1.0, 1.0]),
    "clamp to one": (lambda x: x.clamp(2.0, 2.0), [2.0], [1.0]),
    "clamp from below": (lambda x: x.clamp(min=-1.0), [-1.0], [1.0]),
    "clamp from above": (lambda x: x.clamp(max=2.0), [2.0], [1.0]),
    "clamp by tensors": (
        lambda x: x.clamp(of([-1.0, 2.0]), of([2.0, 2.0])),
        [-1.0, 2.0],
        [1.0, 1.0],
    ),
    "clamp_min": (lambda x: x.clamp_min(1.0), [1.0], [1.0]),
    "clamp_max": (lambda x: x.clamp_max(1.0), [1.0], [1.0]),
    "maximum": (lambda x: fa.maximum(x, of([1.0, 2.0])), [1.0, 2.0], [0.5, 0.5]),
    "minimum": (lambda x: fa.minimum(x, of([1.0, 2.0])), [1.0, 2.0], [0.5, 0.5]),
    "fmax": (lambda x: fa.fmax(x, of([1.0, 2.0])), [1.0, 2.0], [1.0, 1.0]),
    "fmin": (lambda x: fa.fmin(x, of([1.0, 2.0])), [1.0, 2.0], [1.0, 1.0]),
    "fmax, second": (lambda x: fa.fmax(of([1.0, 2.0]), x), [1.0, 2.0], [0.0, 0.0]),
    "fmin, second": (lambda x: fa.fmin(of([1.0, 2.0]), x), [1.0, 2.0], [0.0, 0.0]),
    "smooth_l1_loss": (
        lambda x: F.smooth_l1_loss(x, of([0.0, 0.0]), **SUM, beta=0.5),
        [-0.5, 0.5],
        [-1.0, 1.0],
    ),
    "huber_loss": (
        lambda x: F.huber_loss(x, of([0.0, 0.0]), **SUM, delta=0.5),
        [-0.5, 0.5],
        [-0.5, 0.5],
    ),
    "multilabel_margin_loss": (
        lambda x: F.multilabel_margin_loss(x, fa.tensor([0, -1, 0, 0]), **SUM),
        [1.0, 0.0, 0.5, 0.25],
        [-0.5, 0.0, 0.25, 0.25],
    ),
    "l1_loss": (lambda x: F.l1_loss(x, of([0.0]), **SUM), [0.0], [0.0]),
    "hinge_embedding_loss": (
        lambda x: F.hinge_embedding_loss(x, of([-1.0, 1.0]), **SUM),
        [1.0, 1.0],
        [-1.0, 1.0],
    ),
    "margin_ranking_loss": (
        lambda x: F.margin_ranking_loss(x, of([0.5, 1.0]), of([1.0, -1.0]), 0.5, **SUM),
        [1.0, 0.5],
        [-1.0, 1.0],
    ),
    "multi_margin_loss": (
        lambda x: F.multi_margin_loss(x, fa.tensor(0), **SUM),
        [1.0, 0.0, 0.5],
        [-0.333333333333, 0.0, 0.333333333333],
    ),
    "x log y": (lambda x: fa.xlogy(x, of([2.0, 3.0])), [0.0, 1.0], [0.69314718056, 1.098612288668]),
    "entr": (lambda x: fa.special.entr(x), [1.0], [-1.0]),
    "round": (lambda x: x.round(), [0.5], [0.0]),
    "amax": (lambda x: x.amax(), [2.0, 2.0, 1.0], [0.5, 0.5, 0.0]),
    "max": (lambda x: x.max(), [2.0, 2.0, 1.0], [0.5, 0.5, 0.0]),
    "max along": (lambda x: x.max(0)[0], [2.0, 2.0, 1.0], [1.0, 0.0, 0.0]),
    "median": (lambda x: x.median(), [2.0, 2.0, 1.0], [0.5, 0.5, 0.0]),
    "median along": (lambda x: x.median(0)[0], [2.0, 2.0, 1.0], [1.0, 0.0, 0.0]),
    "norm": (lambda x: x.norm(), [0.0, 0.0], [0.0, 0.0]),
    "inf norm": (lambda x: x.norm(INF), [2.0, -2.0, 1.0], [0.5, -0.5, 0.0]),
    "1-norm": (lambda x: x.norm(1), [0.0, -2.0, 1.0], [0.0, -1.0, 1.0]),
}


@pytest.mark.parametrize("dtype", [fa.float32, fa.float64])
@pytest.mark.parametrize("name", KINKS)
def test_slopes_at_corners(name: str, dtype: fa.dtype) -> None:
    f, points, slopes = KINKS[name]
    x = fa.tensor(points, dtype=fa.float64).to(dtype).requires_grad_()
    y = f(x)
    if dtype == fa.float32 and y.dtype != dtype:
        return  # a float64 operand widens it
    (g,) = fa.autograd.grad(y.sum(), x)
    np.testing.assert_allclose(g.numpy(), slopes, rtol=1e-6 if dtype == fa.float32 else 1e-11)


def test_softplus_at_its_threshold() -> None:
    """Beyond the threshold it is its argument; at it not yet."""
    assert F.softplus(of([20.0])).item() == 20.000000002061153
    assert F.softplus(of([np.nextafter(20.0, 21.0)])).item() == np.nextafter(20.0, 21.0)
