"""Probabilities next to one: what is left of it is a result, and a gradient, with its digits."""

from __future__ import annotations

from typing import Any

import facula as fa
import facula.nn.functional as F
import mpmath as mp
import numpy as np
import pytest

SCORES = [
    [0.0, 30.0, -5.0, 2.0],
    [0.0, 60.0, -5.0, 2.0],
    [3.0, -90.0, 3.5, 40.0],
    [0.1, 0.2, 0.3, 0.4],
    [1.0, 2.5, 1.0, 2.0],
]
DTYPES = ["float64", "float32"]


def exact(row: list[float]) -> tuple[list[Any], list[Any]]:
    """Probabilities, and what is left of one."""
    e = [mp.exp(v) for v in row]
    total = mp.fsum(e)
    return [v / total for v in e], [mp.fsum(e[:i] + e[i + 1 :]) / total for i in range(len(e))]


def close(got: Any, want: Any, dtype: str, units: float = 8) -> None:
    info = np.finfo(dtype)
    for g, w in zip(np.ravel(got).tolist(), want, strict=True):
        assert abs(g - w) <= units * float(info.eps) * abs(w) + float(info.tiny), (g, w)


@pytest.mark.parametrize("inner", [1, 3, 300])
@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax(dtype: str, inner: int) -> None:
    """Along the last dim and along columns; gradients by each element."""
    rng = np.random.default_rng(1)
    for row in SCORES:
        given = np.array(row, dtype)
        x = fa.tensor(np.repeat(given[:, None], inner, 1)).requires_grad_()
        g = rng.normal(size=4).astype(dtype)
        grad = fa.tensor(np.repeat(g[:, None], inner, 1))
        with mp.workdps(80):
            p, rest = exact([mp.mpf(float(v)) for v in given])
            weights = [mp.mpf(float(v)) for v in g]
            logs = [mp.log(v) if r > 0.5 else mp.log1p(-r) for v, r in zip(p, rest, strict=True)]
            slopes = [
                p[i] * mp.fsum(p[j] * (weights[i] - weights[j]) for j in range(4) if j != i)
                for i in range(4)
            ]
            total = mp.fsum(weights)
            log_slopes = [rest[i] * weights[i] - p[i] * (total - weights[i]) for i in range(4)]
            size = max(map(abs, weights))
        y = F.log_softmax(x, 0)
        close(y.detach().numpy()[:, 0], logs, dtype)
        (got,) = fa.autograd.grad(y, x, grad)
        assert (got == got[:, :1]).all()
        for i, (v, w) in enumerate(zip(got[:, 0].tolist(), log_slopes, strict=True)):
            terms = rest[i] * size if p[i] > 0.5 else size
            terms = terms + p[i] * size if abs(total - weights[i]) > 1e-3 else terms
            assert abs(v - w) <= 16 * float(np.finfo(dtype).eps) * terms
        (got,) = fa.autograd.grad(F.softmax(x, 0), x, grad)
        for i, (v, w) in enumerate(zip(got[:, 0].tolist(), slopes, strict=True)):
            room = 16 * float(np.finfo(dtype).eps) * p[i] * size * (rest[i] if p[i] > 0.5 else 1)
            assert abs(v - w) <= room + float(np.finfo(dtype).tiny), (row, i, v, w)


@pytest.mark.parametrize("dtype", DTYPES)
def test_cross_entropy(dtype: str) -> None:
    """Loss and gradient of the target's class, which are what the other classes have."""
    x = fa.tensor(np.array(SCORES, dtype), requires_grad=True)
    target = [1, 1, 3, 0, 1]
    loss = F.cross_entropy(x, fa.tensor(target), reduction="none")
    (got,) = fa.autograd.grad(loss.sum(), x)
    (other,) = fa.autograd.grad(
        F.nll_loss(F.log_softmax(x, 1), fa.tensor(target), reduction="sum"), x
    )
    with mp.workdps(80):
        for n, t in enumerate(target):
            p, rest = exact([mp.mpf(v) for v in x[n].tolist()])
            close([loss[n].item()], [-mp.log1p(-rest[t])], dtype)
            want = [-rest[i] if i == t else p[i] for i in range(4)]
            units = 8 + max(x[n].tolist()) - min(x[n].tolist())  # how an exponent rounds
            close(got[n].numpy(), want, dtype, units)
            close(other[n].numpy(), want, dtype, units)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("function", "value", "slope"),
    [
        (F.logsigmoid, lambda v: -mp.log1p(mp.exp(-v)), lambda v: 1 / (1 + mp.exp(v))),
        (
            lambda t: F.softplus(t, threshold=1e30),
            lambda v: mp.log1p(mp.exp(v)),
            lambda v: 1 / (1 + mp.exp(-v)),
        ),
        (
            lambda t: F.binary_cross_entropy_with_logits(t, fa.ones_like(t), reduction="none"),
            lambda v: mp.log1p(mp.exp(-v)),
            lambda v: -1 / (1 + mp.exp(v)),
        ),
        (
            lambda t: fa.logaddexp(t, fa.zeros_like(t)),
            lambda v: mp.log1p(mp.exp(v)),
            lambda v: 1 / (1 + mp.exp(-v)),
        ),
    ],
)
def test_logarithms_of_sigmoids(function: Any, value: Any, slope: Any, dtype: str) -> None:
    x = fa.tensor([-80.0, -40.0, -17.0, -3.0, 0.0, 0.5, 17.0, 40.0, 80.0], dtype=getattr(fa, dtype))
    y = function(x.requires_grad_())
    (got,) = fa.autograd.grad(y.sum(), x)
    with mp.workdps(60):
        points = [mp.mpf(v) for v in x.tolist()]
        close(y.detach().numpy(), map(value, points), dtype, 4)
        close(got.numpy(), map(slope, points), dtype, 8)
