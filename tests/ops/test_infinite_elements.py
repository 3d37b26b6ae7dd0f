"""Rows in which elements are infinite: softmax and norms have limits at one, none at several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula as fa
import numpy as np
import pytest

F = fa.nn.functional
INF, NAN = float("inf"), float("nan")
# Rows and the limits of their softmax.
ROWS = [
    ([1.0, INF, 2.0], [0.0, 1.0, 0.0]),
    ([INF, -INF, 2.0], [1.0, 0.0, 0.0]),
    ([-INF, 0.0, 0.0], [0.0, 0.5, 0.5]),
    ([INF, INF, 2.0], [NAN] * 3),
    ([INF, NAN, 2.0], [NAN] * 3),
    ([-INF, -INF, -INF], [NAN] * 3),
]


def both(function: Callable[[Any], Any], x: Any, weights: Any) -> tuple[Any, Any]:
    x = x.detach().clone().requires_grad_()
    value = function(x)
    (slope,) = fa.autograd.grad((value * weights).nansum(), x)
    return value.detach(), slope


@pytest.mark.parametrize("copies", [1, 7, 40])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_softmax(dtype: str, axis: int, copies: int) -> None:
    for row, limit in ROWS:
        # An ordinary row beside it, and the others of the row further away.
        whole = np.array([row, [1.0, 2.0, 3.0]] * copies)
        wide = np.concatenate([whole, np.full((2 * copies, 40), -INF)], 1)
        x = fa.tensor(wide if axis == 1 else wide.T, dtype=getattr(fa, dtype))
        got = F.softmax(x, axis)
        got = got if axis == 1 else got.T
        want = np.concatenate([limit, np.full(40, NAN if limit[0] != limit[0] else 0.0)])
        shown = got.double().numpy()
        if np.isfinite(row).sum() < 3 and INF not in row and limit[1] == 0.5:
            np.testing.assert_allclose(shown[0, :3], limit, atol=0.01)
        else:
            np.testing.assert_array_equal(shown[::2], np.tile(want, (copies, 1))[:, : got.shape[1]])
        logs = F.log_softmax(x, axis)
        logs = (logs if axis == 1 else logs.T).double().numpy()
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(logs[0, :3], np.log(limit), atol=0.02)
        assert np.isfinite(shown[1::2]).all() and np.isfinite(logs[1::2, :3]).all()


def test_slopes_of_softmax() -> None:
    x = fa.tensor([1.0, INF, 2.0], dtype=fa.float64)
    weights = fa.tensor([1.0, 2.0, 3.0], dtype=fa.float64)
    _, slope = both(lambda t: F.softmax(t, 0), x, weights)
    assert slope.tolist() == [0, 0, 0]
    x.requires_grad_()
    (slope,) = fa.autograd.grad(F.log_softmax(x, 0), x, weights)
    assert slope.tolist() == [1, -4, 3]
    assert fa.func.jvp(lambda t: F.softmax(t, 0), (x.detach(),), (weights,))[1].tolist() == [
        0,
        0,
        0,
    ]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(smoothing: float) -> None:
    scores = fa.tensor([[1.0, INF, 2.0], [0.0, 0.0, 0.0]], dtype=fa.float64, requires_grad=True)
    for target, right in ((1, True), (0, False)):
        loss = F.cross_entropy(
            scores, fa.tensor([target, 0]), reduction="none", label_smoothing=smoothing
        )
        assert loss[0].item() == (0 if right and smoothing == 0 else INF)
        assert loss[1].item() == pytest.approx(np.log(3))
        (slope,) = fa.autograd.grad(loss[0], scores)
        want = np.eye(3)[1] - (1 - smoothing) * np.eye(3)[target] - smoothing / 3
        np.testing.assert_allclose(slope[0].numpy(), want, atol=1e-15)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("order", [1.5, 2, 3, 7.5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_slopes_of_norms(dtype: str, order: float, sign: float) -> None:
    """Beside an infinite element the norm is its size; two may be in any ratio."""
    x = fa.tensor([[1.0, sign * INF, -2.0], [3.0, 0.0, 4.0]], dtype=getattr(fa, dtype))
    x.requires_grad_()
    for norm in (
        lambda t: fa.linalg.vector_norm(t, order, 1),
        lambda t: fa.linalg.vector_norm(t, order, 1, True),
        lambda t: F.pairwise_distance(t, fa.zeros_like(t), order, eps=0.0),
    ):
        value = norm(x)
        assert value.flatten()[0].item() == INF
        (slope,) = fa.autograd.grad(value.sum(), x)
        assert slope[0].tolist() == [0, sign, 0]
        assert slope[1].isfinite().all()
    whole = fa.linalg.vector_norm(x, order)
    assert fa.autograd.grad(whole, x)[0].tolist() == [[0, sign, 0], [0, 0, 0]]
    two = fa.tensor([INF, -INF, 1.0], dtype=x.dtype, requires_grad=True)
    value = fa.linalg.vector_norm(two, order)
    assert value.item() == INF
    assert fa.autograd.grad(value, two)[0].isnan()[:2].all()


@pytest.mark.parametrize("order", [1, 2, 3, INF])
@pytest.mark.parametrize("dim", [0, 1])
def test_normalize(order: float, dim: int) -> None:
    rows = fa.tensor([[1.0, INF, -2.0], [0.0, -INF, 1.0], [INF, INF, 1.0], [3.0, 0.0, 0.0]])
    x = rows if dim == 1 else rows.T
    value, slope = both(lambda t: F.normalize(t, p=order, dim=dim), x, fa.ones(()))
    value, slope = (value, slope) if dim == 1 else (value.T, slope.T)
    assert value[0].tolist() == [0, 1, 0] and value[1].tolist() == [0, -1, 0]
    assert value[2].isnan().all()
    assert value[3].tolist() == [1, 0, 0]
    assert slope[:2].tolist() == [[0] * 3] * 2
    assert slope[3].isfinite().all()


def test_neighbours() -> None:
    x = fa.tensor([[INF, 1.0], [0.0, 1.0]], requires_grad=True)
    for norm in (fa.linalg.matrix_norm, lambda t: fa.dist(t, fa.zeros(2, 2)), fa.norm):
        (slope,) = fa.autograd.grad(norm(x), x)
        assert slope.tolist() == [[1, 0], [0, 0]]
    cosine = F.cosine_similarity(fa.tensor([INF, 1.0]), fa.tensor([1.0, 1.0]), dim=0)
    assert cosine.item() == pytest.approx(np.sqrt(0.5))
