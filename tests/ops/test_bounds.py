"""Piecewise functions on their bounds: values and slopes there, written down from torch 2.13."""

from __future__ import annotations

import math
from collections.abc import Callable

import facula as fa
import numpy as np
import pytest
from facula.nn import functional as F

F64 = fa.float64
NAN, INF = math.nan, math.inf
Case = tuple[str, Callable[[fa.Tensor], fa.Tensor], list[float], list[float], list[float]]

# name, function, where, values, slopes
BOUNDS: list[Case] = [
    (
        "threshold",
        lambda x: F.threshold(x, 2.0, 9.0),
        [2.0, 1.0, 3.0, NAN],
        [9.0, 9.0, 3.0, NAN],
        [0.0, 0.0, 1.0, 1.0],
    ),
    ("relu", F.relu, [0.0, -0.0], [0.0, 0.0], [0.0, 0.0]),
    ("relu6", F.relu6, [0.0, 6.0, 7.0], [0.0, 6.0, 6.0], [0.0, 0.0, 0.0]),
    ("hardtanh", F.hardtanh, [-1.0, 1.0, 0.5, 2.0], [-1.0, 1.0, 0.5, 1.0], [0.0, 0.0, 1.0, 0.0]),
    ("hardswish", F.hardswish, [-3.0, 3.0, 0.0], [0.0, 3.0, 0.0], [0.0, 1.0, 0.5]),
    ("hardshrink", F.hardshrink, [-0.5, 0.5, 0.75], [0.0, 0.0, 0.75], [0.0, 0.0, 1.0]),
    ("softshrink", F.softshrink, [-0.5, 0.5, 0.75], [0.0, 0.0, 0.25], [0.0, 0.0, 1.0]),
    ("leaky_relu", F.leaky_relu, [0.0, -1.0], [0.0, -0.01], [0.01, 0.01]),
    ("elu", F.elu, [0.0, 1.0], [0.0, 1.0], [1.0, 1.0]),
    ("selu", F.selu, [0.0, 1.0], [0.0, 1.050700987], [1.758099341, 1.050700987]),
    ("celu", F.celu, [0.0, 1.0], [0.0, 1.0], [1.0, 1.0]),
    (
        "softplus",
        lambda x: F.softplus(x, 1.0, 2.0),
        [2.0, 0.0],
        [2.126928011, 0.693147181],
        [0.880797078, 0.5],
    ),
    (
        "prelu",
        lambda x: F.prelu(x, fa.tensor([0.25], dtype=F64)),
        [0.0, 1.0, -1.0],
        [0.0, 1.0, -0.25],
        [0.25, 1.0, 0.25],
    ),
    ("abs", fa.abs, [0.0], [0.0], [0.0]),
    ("clamp", lambda x: fa.clamp(x, 1.0, 2.0), [1.0, 2.0, 1.5], [1.0, 2.0, 1.5], [1.0, 1.0, 1.0]),
    ("clamp_min", lambda x: fa.clamp(x, min=1.0), [1.0], [1.0], [1.0]),
    ("clamp_max", lambda x: fa.clamp(x, max=2.0), [2.0, 1.0, 3.0], [2, 1, 2], [1, 1, 0]),
    (
        "clamp_t",
        lambda x: fa.clamp(x, fa.tensor(1.0, dtype=F64), fa.tensor(2.0, dtype=F64)),
        [1.0, 2.0],
        [1.0, 2.0],
        [1.0, 1.0],
    ),
    ("entr", fa.special.entr, [0.0, 1.0], [0.0, 0.0], [INF, -1.0]),
    (
        "huber",
        lambda x: F.huber_loss(x, x.detach() * 0, reduction="none", delta=1.0),
        [1.0, -1.0, 0.0, 2.0],
        [0.5, 0.5, 0.0, 1.5],
        [1.0, -1.0, 0.0, 1.0],
    ),
    (
        "smooth_l1",
        lambda x: F.smooth_l1_loss(x, x.detach() * 0, reduction="none", beta=1.0),
        [1.0, -1.0, 0.0, 2.0],
        [0.5, 0.5, 0.0, 1.5],
        [1.0, -1.0, 0.0, 1.0],
    ),
    (
        "hinge",
        lambda x: F.hinge_embedding_loss(x, x.detach() * 0 - 1, reduction="none"),
        [1.0, 0.0],
        [0.0, 1.0],
        [-1.0, -1.0],
    ),
    (
        "logit",
        lambda x: fa.logit(x, 0.25),
        [0.25, 0.75, 0.1],
        [-1.098612289, 1.098612289, -1.098612289],
        [5.333333333, 5.333333333, 0.0],
    ),
    (
        "copysign",
        lambda x: fa.copysign(x, fa.tensor(-1.0, dtype=F64)),
        [0.0, 2.0],
        [0.0, -2.0],
        [0.0, -1.0],
    ),
    ("pow0", lambda x: x**0, [0.0], [1.0], [0.0]),
    ("pow1", lambda x: x**1.0, [0.0], [0.0], [1.0]),
    ("fmod", lambda x: fa.fmod(x, 2.0), [2.0, -2.0], [0.0, 0.0], [1.0, 1.0]),
    ("remainder", lambda x: fa.remainder(x, 2.0), [2.0, -2.0], [0.0, 0.0], [1.0, 1.0]),
    (
        "margin",
        lambda x: F.margin_ranking_loss(
            x, x.detach() * 0, x.detach() * 0 + 1, 0.5, reduction="none"
        ),
        [0.5, 0.0],
        [0.0, 0.5],
        [-1.0, -1.0],
    ),
    ("rrelu", lambda x: F.rrelu(x, 0.25, 0.25), [0.0, -1.0], [0.0, -0.25], [0.25, 0.25]),
    ("hardsigmoid", F.hardsigmoid, [-3.0, 3.0, 0.0], [0, 1, 0.5], [0, 0, 1 / 6]),
    ("prelu", lambda x: F.prelu(x, fa.tensor([INF], dtype=F64)), [0.0], [NAN], [INF]),
    ("nan_to_num", fa.nan_to_num, [NAN, 1.0], [0, 1], [0, 1]),
]


@pytest.mark.parametrize("case", BOUNDS, ids=lambda case: case[0])
def test_bounds(case: Case) -> None:
    _, function, where, values, slopes = case
    x = fa.tensor(where, dtype=F64, requires_grad=True)
    y = function(x)
    np.testing.assert_allclose(y.detach().numpy(), values, rtol=1e-8, atol=1e-8)
    (slope,) = fa.autograd.grad(y, x, fa.full_like(y, 2.0))
    np.testing.assert_allclose(slope.numpy(), 2 * np.array(slopes), rtol=1e-8)


def test_zero_times_a_logarithm() -> None:
    """Slopes of x log(y) and x log(1 + y) at 0, also where there is no logarithm."""
    for function, offset in ((fa.special.xlogy, 0.0), (fa.special.xlog1py, 1.0)):
        x = fa.tensor([0.0, 0.0, 0.0, 2.0], dtype=F64, requires_grad=True)
        y = fa.tensor([0.0, -1.0, 3.0, 4.0], dtype=F64) - offset
        y.requires_grad_()
        value = function(x, y)
        np.testing.assert_allclose(value.detach().numpy(), [0, 0, 0, 2 * math.log(4)])
        gx, gy = fa.autograd.grad(value.sum(), (x, y))
        np.testing.assert_allclose(gx.numpy(), [0, 0, math.log(3), math.log(4)])
        np.testing.assert_allclose(gy.numpy(), [0, 0, 0, 0.5])


def test_entropies() -> None:
    x = fa.tensor([0.25, 0.5, 0.75, 2.0, 0.0, -1.0], dtype=F64, requires_grad=True)
    (slope,) = fa.autograd.grad(fa.special.entr(x).sum(), x)
    want = [-math.log(v) - 1 for v in (0.25, 0.5, 0.75, 2.0)]
    np.testing.assert_allclose(slope.numpy()[:4], want)
    assert slope[4].item() == INF


def test_curvature_at_bounds() -> None:
    def curvature(f: Callable[[fa.Tensor], fa.Tensor], values: list[float]) -> list[float]:
        x = fa.tensor(values, dtype=F64, requires_grad=True)
        (slope,) = fa.autograd.grad(f(x).sum(), x, create_graph=True)
        return fa.autograd.grad(slope.sum(), x)[0].tolist()

    assert curvature(fa.special.entr, [0.25, 0.5, 2.0, 0.0, -1.0]) == [-4, -2, -0.5, -INF, 0]
    bend = 2 * 0.75 - 1  # of log(x / (1 - x)): (2 x - 1) / (x (1 - x))^2
    want = [-bend / (0.25 * 0.75) ** 2, 0, bend / (0.25 * 0.75) ** 2, 0, 0]
    got = curvature(lambda x: fa.logit(x, 0.25), [0.25, 0.5, 0.75, 0.125, 0.875])
    np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_ties_share_what_comes(name: str) -> None:
    a = fa.tensor([2.0, 1.0, -3.0], dtype=F64, requires_grad=True)
    b = fa.tensor([2.0, 4.0, -3.0], dtype=F64, requires_grad=True)
    by = fa.tensor([3.0, 5.0, 8.0], dtype=F64)
    got = fa.autograd.grad(getattr(fa, name)(a, b), (a, b), by)
    greater = name == "maximum"
    assert got[0].tolist() == [1.5, 0.0 if greater else 5.0, 4]
    assert got[1].tolist() == [1.5, 5.0 if greater else 0.0, 4]


@pytest.mark.parametrize("reduce", ["amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scattered_ties(reduce: str, include_self: bool) -> None:
    """Equal elements share a place; what is left out has no share, what gets nothing its own."""
    x = fa.tensor([3.0, 3.0, 7.0], dtype=F64, requires_grad=True)
    src = fa.tensor([3.0, 3.0, 3.0], dtype=F64, requires_grad=True)
    index = fa.tensor([0, 1, 1])
    y = x.scatter_reduce(0, index, src, reduce, include_self=include_self)
    assert y.tolist() == [3, 3, 7]
    gx, gs = fa.autograd.grad(y, (x, src), fa.tensor([6.0, 12.0, 5.0], dtype=F64))
    assert gx.tolist() == ([3, 4, 5] if include_self else [0, 0, 5])
    assert gs.tolist() == ([3, 4, 4] if include_self else [6, 6, 6])


def test_sums_of_exponentials_that_are_not_finite() -> None:
    """Terms of the same infinity share the slope, as in logsumexp."""
    for values in ([-INF, -INF, 0.0], [INF, INF, 0.0]):
        x = fa.tensor(values, dtype=F64, requires_grad=True)
        (slope,) = fa.autograd.grad(fa.logcumsumexp(x, 0)[1] * 3, x)
        assert slope.tolist() == [1.5, 1.5, 0]
    x = fa.tensor([1.0, INF, 0.0], dtype=F64, requires_grad=True)
    (slope,) = fa.autograd.grad(fa.logcumsumexp(x, 0)[2] * 3, x)
    assert slope.tolist() == [0, 3, 0]


@pytest.mark.parametrize("padding", [None, 0, 2])
def test_slopes_of_an_embeddings_slope(padding: int | None) -> None:
    """The gradient of the table is linear in what comes; rows of padding take no part."""
    index = fa.tensor([0, 2, 2, 1])
    table = fa.ones(3, 2, dtype=F64, requires_grad=True)
    by = fa.ones(4, 2, dtype=F64, requires_grad=True)
    out = F.embedding(index, table, padding_idx=padding)
    (slope,) = fa.autograd.grad(out, table, by, create_graph=True)
    weights = fa.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=F64)
    (got,) = fa.autograd.grad((slope * weights).sum(), by)
    want = weights.numpy()[index.numpy()]
    if padding is not None:
        want = np.where(index.numpy()[:, None] == padding, 0, want)
    np.testing.assert_array_equal(got.numpy(), want)


def test_forward_slopes_of_complex_moduli() -> None:
    z, v = fa.tensor([3 + 4j, -5 + 12j, 0j]), fa.tensor([1 + 2j, 2 - 1j, 1 + 1j])
    with fa.autograd.forward_ad.dual_level():
        dual = fa.autograd.forward_ad.make_dual(z, v)
        slope = fa.autograd.forward_ad.unpack_dual(dual.abs()).tangent
    want = [(3 - 4j) * (1 + 2j) / 5, (-5 - 12j) * (2 - 1j) / 13, 0]
    np.testing.assert_allclose(slope.numpy(), np.real(want), rtol=1e-6)
