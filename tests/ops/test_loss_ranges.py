"""Losses of scores at the ends of the range: parts leave it, the loss does not; by mpmath."""

from __future__ import annotations

from typing import Any

import facula as fa
import mpmath as mp
import numpy as np
import pytest

F = fa.nn.functional
ENDS = {"float32": 3e38, "float64": 1.5e308}


def log_softmax(row: Any) -> list[mp.mpf]:
    scores = [mp.mpf(float(v)) for v in row]
    top = max(scores)
    rest = mp.log(sum(mp.exp(s - top) for s in scores))
    return [s - top - rest for s in scores]


@pytest.mark.parametrize("dtype", ENDS)
@pytest.mark.parametrize("reduction", ["none", "mean"])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy(dtype: str, reduction: str, weighted: bool) -> None:
    b, eps = ENDS[dtype], float(np.finfo(dtype).eps)
    rows = np.array([[b, -b, 0.0], [1.0, 2.0, 3.0], [-b, -b, b / 3]], dtype)
    weight = np.array([0.5, 0.25, 0.75], dtype) if weighted else None
    w = [mp.mpf(float(v)) for v in (weight if weighted else np.ones(3))]  # type: ignore[union-attr]
    given = None if weight is None else fa.tensor(weight)
    logs = [log_softmax(r) for r in rows]
    x = fa.tensor(rows, requires_grad=True)
    chances = np.array([[0.9, 0.05, 0.05], [0.2, 0.3, 0.5], [0.0, 0.1, 0.9]], dtype)
    soft = [
        -sum(mp.mpf(float(c)) * u * v for c, u, v in zip(p, w, log, strict=True))
        for p, log in zip(chances, logs, strict=True)
    ]
    labels, smoothing = [0, 1, 2], 0.1
    smooth = [
        -(1 - mp.mpf(smoothing)) * w[k] * log[k]
        - mp.mpf(smoothing) / 3 * sum(u * v for u, v in zip(w, log, strict=True))
        for k, log in zip(labels, logs, strict=True)
    ]
    for want, target, share, total in (
        (soft, fa.tensor(chances), 0.0, mp.mpf(3)),
        (smooth, fa.tensor(labels), smoothing, sum(w)),
    ):
        loss = F.cross_entropy(x, target, given, reduction=reduction, label_smoothing=share)
        ends = want if reduction == "none" else [sum(want) / total]
        np.testing.assert_allclose(
            np.atleast_1d(loss.detach().numpy()), np.array([float(v) for v in ends]), rtol=32 * eps
        )
        (slope,) = fa.autograd.grad(loss.sum(), x)
        assert slope.isfinite().all()
        ordinary = fa.tensor(rows[1:2], requires_grad=True)
        (alone,) = fa.autograd.grad(
            F.cross_entropy(ordinary, target[1:2], given, reduction="sum", label_smoothing=share),
            ordinary,
        )
        by = 1.0 if reduction == "none" else float(total)
        np.testing.assert_allclose(slope[1].numpy(), alone[0].numpy() / by, rtol=64 * eps)


@pytest.mark.parametrize("dtype", ENDS)
def test_slopes_are_those_of_shares(dtype: str) -> None:
    b = ENDS[dtype]
    x = fa.tensor([[b, -b, 0.0]], dtype=getattr(fa, dtype), requires_grad=True)
    chances = np.array([[0.5, 0.25, 0.25]])
    loss = F.cross_entropy(x, fa.tensor(chances, dtype=x.dtype))
    (slope,) = fa.autograd.grad(loss, x)
    np.testing.assert_allclose(slope.numpy(), [[0.5, -0.25, -0.25]], rtol=1e-6)


@pytest.mark.parametrize("dtype", ENDS)
def test_mean_of_losses_beyond_the_range(dtype: str) -> None:
    b = ENDS[dtype]
    x = fa.tensor([[b, -b], [b, -b]], dtype=getattr(fa, dtype), requires_grad=True)
    loss = F.cross_entropy(x, fa.tensor([1, 0]))
    assert loss.item() == pytest.approx(b, rel=1e-6)
    assert fa.autograd.grad(loss, x)[0].tolist() == [[0.5, -0.5], [0, 0]]


@pytest.mark.parametrize("dtype", ENDS)
def test_neighbours(dtype: str) -> None:
    b = ENDS[dtype]
    t = getattr(fa, dtype)
    x = fa.tensor([b, -b], dtype=t)
    half = fa.tensor([0.5, 0.5], dtype=t)
    cases: dict[str, tuple[Any, Any]] = {
        "bce_with_logits": (F.binary_cross_entropy_with_logits(x, half), b / 2),
        "soft_margin": (F.soft_margin_loss(x, fa.tensor([-1.0, 1.0], dtype=t)), b),
        "nll": (F.nll_loss(x[None].expand(4, 2), fa.tensor([0, 0, 0, 0])), -b),
        "kl": (F.kl_div(-x.abs(), half, reduction="mean"), b / 2),
        "multilabel": (
            F.multilabel_soft_margin_loss(x[None].abs(), fa.zeros(1, 2, dtype=t)),
            b,
        ),
        "logsumexp": (fa.logsumexp(x, 0), b),
        "logaddexp": (fa.logaddexp(x[0], x[1]), b),
        "softplus": (F.softplus(x[0]), b),
    }
    for name, (got, want) in cases.items():
        assert got.item() == pytest.approx(want, rel=1e-6), name
