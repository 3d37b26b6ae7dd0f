"""Known values at the ends of the range and of broadcasts that the schema's samples cannot say."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.autograd import gradcheck, gradgradcheck

F = fa.nn.functional
INF, NAN = math.inf, math.nan


def gradients(f: Callable[..., Any], *values: Any, dtype: Any = fa.float32) -> list[Any]:
    inputs = [fa.tensor(v, dtype=dtype, requires_grad=True) for v in values]
    f(*inputs).sum().backward()
    return [x.grad.tolist() for x in inputs]


# ---- reductions over a broadcast ----


def of_broadcast(f: Callable[..., Any], shapes: Any, seed: int = 0) -> None:
    """f of the arrays equals f of them broadcast by hand, and so do its gradients."""
    rng = np.random.default_rng(seed)
    arrays = [rng.uniform(0.1, 0.9, s) for s in shapes]
    whole = np.broadcast_shapes(*shapes)
    short = [fa.tensor(a.tolist(), dtype=fa.float64).reshape(a.shape) for a in arrays]
    long = [x.expand(whole).clone() for x in short]
    short = [x.requires_grad_() for x in short]
    got, want = f(*short), f(*long)
    assert got.shape == want.shape
    np.testing.assert_allclose(got.tolist(), want.tolist(), rtol=1e-12)
    assert gradcheck(f, short)
    assert gradgradcheck(f, short)


@pytest.mark.parametrize(
    "shapes", [[(1, 3), (1, 1)], [(2, 1), (1, 3)], [(2, 4, 3), (1, 3)], [(3,), (2, 1)]]
)
@pytest.mark.parametrize(
    "f",
    [
        lambda a, b: F.cosine_similarity(a, b, dim=-1),
        lambda a, b: F.cosine_similarity(a, b, dim=-1, eps=3.0),
        lambda a, b: fa.cosine_similarity(a, b, dim=-2) if max(a.ndim, b.ndim) > 1 else a + b,
        lambda a, b: F.pairwise_distance(a, b, p=3.0),
        lambda a, b: (
            F.triplet_margin_loss(a.expand(2, 3), b.expand(2, 3), a.expand(2, 3) * 0.5, p=1.5)
            if a.ndim < 3 and b.ndim < 3
            else F.pairwise_distance(a, b, keepdim=True)
        ),
        lambda a, b: fa.dist(a, b, 2.5),
        lambda a, b: fa.linalg.vecdot(a, b),
    ],
    ids=["cosine", "cosine_eps", "cosine_dim", "pairwise", "triplet", "dist", "vecdot"],
)
def test_broadcast_distances(f: Callable[..., Any], shapes: Any) -> None:
    of_broadcast(f, shapes)


@pytest.mark.filterwarnings("ignore:.*broadcast")
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(
    "loss",
    [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.kl_div, F.poisson_nll_loss],
    ids=lambda f: f.__name__,
)
def test_broadcast_losses(loss: Any, reduction: str) -> None:
    of_broadcast(lambda a, b: loss(a, b, reduction=reduction), [(2, 3), (3,)], seed=5)
    of_broadcast(lambda a, b: loss(a, b, reduction=reduction), [(2, 1), (1, 3)], seed=6)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_broadcast_weights(reduction: str) -> None:
    def logits(x: Any, t: Any, w: Any) -> Any:
        return F.binary_cross_entropy_with_logits(x, t, w, reduction=reduction, pos_weight=w)

    of_broadcast(
        lambda x, w: F.binary_cross_entropy(x, x * 0.5, w, reduction=reduction), [(2, 3), (3,)]
    )
    of_broadcast(lambda x, w: logits(x, x * 0.5, w), [(2, 3), (3,)])
    of_broadcast(
        lambda x, v: F.gaussian_nll_loss(x, x * 0.5, v, reduction=reduction), [(2, 3), (2, 1)]
    )


def test_cosine_similarity_values() -> None:
    a, b = fa.tensor([[1.0, 2, 2]]), fa.tensor([[1.0]])
    assert F.cosine_similarity(a, b).tolist() == pytest.approx([5 / (3 * math.sqrt(3))])
    assert F.cosine_similarity(b, a).tolist() == pytest.approx([5 / (3 * math.sqrt(3))])
    zero = fa.zeros(1, 3)
    assert F.cosine_similarity(a, zero).tolist() == [0]
    assert gradients(F.cosine_similarity, [[0.0, 0.0]], [[1.0, 0.0]])[1] == [[0, 0]]
    assert F.cosine_similarity(fa.zeros(2, 0), fa.zeros(2, 0)).tolist() == [0, 0]
    assert F.cosine_similarity(fa.zeros(0, 3), fa.zeros(1, 3)).shape == (0,)
    z = fa.tensor([[3 + 4j, 1j]])
    unit = np.array([3 + 4j, 1j]) / math.sqrt(26)
    assert F.cosine_similarity(z, z).item() == pytest.approx((unit * unit).sum())
    one, two = fa.tensor([[1.0, 2, 2]]), fa.tensor([[1.0]])
    got = F.cosine_embedding_loss(one, two, fa.tensor([1]))
    assert got.item() == pytest.approx(1 - 5 / (3 * math.sqrt(3)), rel=1e-5)


# ---- norms ----


@pytest.mark.parametrize("scale", [1e-38, 1e-30, 1e-20, 1.0, 1e19, 1e30, 4e37])
@pytest.mark.parametrize("p", [1, 1.5, 2, 3, 8, INF])
def test_norms_scale(p: float, scale: float) -> None:
    x = np.array([3.0, -4.0, 0.5], np.float32) * np.float32(scale)
    wide = x.astype(np.float64)
    want = np.abs(wide).max() if p == INF else (np.abs(wide / scale) ** p).sum() ** (1 / p) * scale
    t = fa.from_numpy(x)
    for got in (
        fa.linalg.vector_norm(t, p),
        fa.dist(t, t * 0, p),
        F.pairwise_distance(t, t * 0, p, 0.0),
    ):
        assert got.item() == pytest.approx(want, rel=1e-5)
    rows = fa.stack([t, t * 0, t]).t()
    assert fa.linalg.vector_norm(rows, p, 0).tolist() == pytest.approx([want, 0, want], rel=1e-5)
    unit = F.normalize(t[None], p, eps=0.0)[0]
    assert unit.tolist() == pytest.approx((wide / want).tolist(), rel=1e-5)
    slope = gradients(lambda x: fa.linalg.vector_norm(x, p), x.tolist())[0]
    if p == INF:
        assert slope == [0, -1, 0]
    else:
        assert slope == pytest.approx(
            (np.sign(wide) * (np.abs(wide) / want) ** (p - 1)).tolist(), rel=1e-5
        )


def test_norms_of_doubles_and_at_the_top() -> None:
    d = fa.tensor([3e200, 4e200], dtype=fa.float64)
    for p, want in ((2, 5e200), (3, 91 ** (1 / 3) * 1e200), (0.5, (3**0.5 + 2) ** 2 * 1e200)):
        assert fa.linalg.vector_norm(d, p).item() == pytest.approx(want)
        assert fa.linalg.vector_norm(d * 1e-300 * 1e-220, p).item() == pytest.approx(
            want * 1e-300 * 1e-220, rel=1e-2
        )
    top = fa.full((4,), 3e38)
    assert F.normalize(top[None]).tolist() == [[0.5] * 4]
    assert F.cosine_similarity(top[None], top[None]).item() == pytest.approx(1)
    assert fa.linalg.vector_norm(top).item() == INF
    for p, want in ((-1, 0.75), (-2, 2**-0.5)):
        x = fa.tensor([1e-30, 1e-30 if p == -2 else 3e-30])
        assert fa.linalg.vector_norm(x, p).item() == pytest.approx(want * 1e-30, rel=1e-5)
    half = fa.full((100,), 300.0, dtype=fa.float16)
    assert fa.linalg.vector_norm(half).item() == 3000
    assert F.normalize(fa.full((1, 4), 6e4, dtype=fa.float16)).tolist() == [[0.5] * 4]


@pytest.mark.parametrize("special", [INF, -INF, NAN, -0.0])
def test_norms_of_what_is_not_finite(special: float) -> None:
    for at in range(3):
        x = np.array([1e20, 2e20, 3e20], np.float32)
        x[at] = special
        want = np.linalg.norm(x.astype(np.float64))
        got = fa.linalg.vector_norm(fa.from_numpy(x)).item()
        assert got == pytest.approx(want, nan_ok=True)
        with np.errstate(all="ignore"):
            assert fa.from_numpy(x).sum().item() == pytest.approx(
                float(x.astype(np.float64).sum()), nan_ok=True
            )
            assert fa.from_numpy(x).std().item() == pytest.approx(
                x.astype(np.float64).std(ddof=1), nan_ok=True
            )


def test_sums_means_and_products() -> None:
    top = 3e38
    assert fa.tensor([top, top, -top]).sum().item() == pytest.approx(top)
    assert fa.tensor([top, top]).mean().item() == pytest.approx(top)
    assert fa.tensor([[top, top], [1.0, 2.0]]).mean(1).tolist() == pytest.approx([top, 1.5])
    assert fa.tensor([[top, top], [top, 2.0]]).mean(0).tolist() == pytest.approx([top, top / 2])
    assert fa.tensor([top, NAN, top]).nanmean().item() == pytest.approx(top)
    assert fa.tensor([top, NAN, top, -top]).nansum().item() == pytest.approx(top)
    assert fa.tensor([1.7e308, 1.7e308, -1.7e308], dtype=fa.float64).sum().item() == 1.7e308
    assert fa.tensor([-INF, top, top]).sum().item() == -INF
    assert fa.tensor([1e30, 1e30, 1e-30, 1e-30]).prod().item() == pytest.approx(1)
    assert fa.tensor([1e-30, 1e-30, 1e30, 1e30]).prod().item() == pytest.approx(1)
    d = fa.tensor([1e-160, 1e150] * 2 + [1e20], dtype=fa.float64)
    assert d.prod().item() == pytest.approx(1)
    many = fa.tensor([1e300, 1e-300] * 50 + [7.0], dtype=fa.float64)
    assert many.prod().item() == pytest.approx(7)
    assert fa.tensor([2.0] * 10 + [0.0, INF]).prod().isnan().item()
    assert fa.tensor([1e-30] * 9 + [INF]).prod().item() == INF
    assert math.copysign(1, fa.tensor([1e30] * 9 + [-0.0]).prod().item()) == -1
    z = fa.tensor([1e30 + 1e30j, 1e30, 1e-30, 1e-30] * 2)
    assert z.prod().item() == pytest.approx(2j)
    halves = fa.full((100_000,), 2.0, dtype=fa.float16)
    assert halves.mean().item() == halves.nanmean().item() == 2
    assert fa.full((5,), 3.0).nanmean().item() == 3
    assert fa.tensor([1, 2, 4]).nanmean().item() == pytest.approx(7 / 3)


@pytest.mark.parametrize("scale", [1e-25, 1e-18, 1.0, 1e18, 1e25, 8e37])
def test_deviations_scale(scale: float) -> None:
    x = np.array([[3.0, -4.0, 1.0, 2.0]], np.float32) * np.float32(scale)
    t = fa.from_numpy(x)
    wide = x.astype(np.float64) / scale
    want = wide.std(ddof=1) * scale
    assert t.std().item() == pytest.approx(want, rel=1e-5)
    assert fa.std_mean(t)[1].item() == pytest.approx(wide.mean() * scale, rel=1e-5)
    assert t.t().contiguous().std(0).item() == pytest.approx(want, rel=1e-5)
    if scale < 8e37:
        assert fa.complex(t, t).std().item() == pytest.approx(want * math.sqrt(2), rel=1e-5)
    slope = gradients(lambda x: x.std(), x[0].tolist())[0]
    right = (wide[0] - wide.mean()) / wide.std(ddof=1) / 3
    assert slope == pytest.approx(right.tolist(), rel=1e-5, abs=1e-6)
    assert fa.corrcoef(fa.stack([t[0], -t[0]])).tolist() == [
        pytest.approx([1, -1]),
        pytest.approx([-1, 1]),
    ]
    assert gradients(lambda x: x.std(), [2.0, 2.0])[0] == [0, 0]


# ---- normalisations ----


def normal(x: np.ndarray, eps: float, rms: bool = False) -> np.ndarray:
    c = x if rms else x - x.mean(-1, keepdims=True)
    return np.asarray(c / np.sqrt((c * c).mean(-1, keepdims=True) + eps))


NORMS: dict[str, Callable[[Any, float], Any]] = {
    "layer_norm": lambda x, eps: F.layer_norm(x, [x.shape[-1]], eps=eps),
    "rms_norm": lambda x, eps: F.rms_norm(x, [x.shape[-1]], eps=eps),
    "group_norm": lambda x, eps: F.group_norm(x.reshape(x.shape[0], 1, -1), 1, eps=eps).reshape(
        x.shape
    ),
    "group_norm_each": lambda x, eps: F.group_norm(
        x.reshape(1, x.shape[0], -1), x.shape[0], eps=eps
    ).reshape(x.shape),
    "instance_norm": lambda x, eps: F.instance_norm(x[None], eps=eps)[0],
    "batch_norm": lambda x, eps: F.batch_norm(x.t(), None, None, training=True, eps=eps).t(),
    "batch_norm_planes": lambda x, eps: F.batch_norm(x[None], None, None, training=True, eps=eps)[
        0
    ],
}


@pytest.mark.parametrize("dtype", [fa.float32, fa.float64])
@pytest.mark.parametrize("n", [5, 40])
@pytest.mark.parametrize("name", NORMS)
def test_normalisations(name: str, n: int, dtype: Any) -> None:
    f = NORMS[name]
    rng = np.random.default_rng(3)
    base = np.rint(rng.standard_normal((3, n)) * 8)
    far = 2.0**20 if dtype == fa.float32 else 2.0**48
    single = dtype == fa.float32
    # (rows, eps, and how much of the gradient's scale is 1)
    for scale in (
        (2.0**-60, 1.0, 2.0**66, 2.0**120)
        if single
        else (2.0**-600, 2.0**-495, 1.0, 2.0**600, 2.0**1000)
    ):
        # eps: none, the usual one, and one as large as the variance
        for eps in (0.0, 1e-5, 20 * scale * scale):
            if not 0 <= eps < 1e300 or 0 < eps < 1e-300:
                continue
            x = base * scale
            with np.errstate(under="ignore"):
                power = eps / scale / scale if eps else 0.0
            want = normal(base, power, name == "rms_norm") if math.isfinite(power) else base * 0
            t = fa.tensor(x.tolist(), dtype=dtype)
            np.testing.assert_allclose(f(t, eps).tolist(), want, rtol=2e-5, atol=2e-6)
            if eps != 1e-5:
                t.requires_grad_()
                u = fa.tensor(base.tolist(), dtype=fa.float64, requires_grad=True)
                weights = fa.tensor(rng.standard_normal((3, n)).tolist(), dtype=fa.float64)
                (f(t, eps) * weights.to(dtype)).sum().backward()
                (f(u, power) * weights).sum().backward()
                np.testing.assert_allclose(
                    np.array(t.grad.tolist()) * scale, u.grad.tolist(), rtol=1e-4, atol=1e-5
                )
    if name == "rms_norm":
        return
    # The offset is exact, and so are the distances from it: nothing is lost.
    t = fa.tensor((base + far).tolist(), dtype=dtype, requires_grad=True)
    u = fa.tensor(base.tolist(), dtype=fa.float64, requires_grad=True)
    weights = fa.tensor(rng.standard_normal((3, n)).tolist(), dtype=fa.float64)
    got, want = f(t, 1e-5), f(u, 1e-5)
    np.testing.assert_allclose(got.tolist(), want.tolist(), rtol=1e-5, atol=1e-5)
    (got * weights.to(dtype)).sum().backward()
    (want * weights).sum().backward()
    np.testing.assert_allclose(t.grad.tolist(), u.grad.tolist(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["layer_norm", "group_norm", "batch_norm"])
def test_weights_of_far_rows(name: str) -> None:
    """Gradients of weight and bias, and the running statistics, beside a large mean."""
    rng = np.random.default_rng(4)
    base = np.rint(rng.standard_normal((6, 8)) * 8)
    slope = rng.standard_normal((6, 8))

    def run(x: np.ndarray, dtype: Any) -> list[Any]:
        t = fa.tensor(x.tolist(), dtype=dtype)
        w = fa.ones(8, dtype=dtype, requires_grad=True)
        b = fa.zeros(8, dtype=dtype, requires_grad=True)
        if name == "layer_norm":
            y = F.layer_norm(t, [8], w, b)
        elif name == "group_norm":
            y = F.group_norm(t, 2, w, b)
        else:
            y = F.batch_norm(t, None, None, w, b, True)
        (y * fa.tensor(slope.tolist(), dtype=dtype)).sum().backward()
        return [w.grad.tolist(), b.grad.tolist()]

    for x in (base + 2.0**20, base * 2.0**66):
        want = run(base, fa.float64)
        got = run(x, fa.float32)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_given_statistics_far_away() -> None:
    x = fa.tensor([[2.0**20 + 1, 2.0**20 - 1]])
    got = F.batch_norm(x, fa.full((2,), 2.0**20), fa.ones(2), eps=0.0)
    assert got.tolist() == [[1, -1]]
    got = F.batch_norm(fa.tensor([[3e25]]), fa.tensor([1e25]), fa.tensor([1e38]), eps=0.0)
    assert got.item() == pytest.approx(2e6, rel=1e-5)


def test_long_rows_of_large_numbers() -> None:
    rng = np.random.default_rng(0)
    x = (1e6 + np.rint(rng.uniform(0, 8, 20_000)) / 8).astype(np.float32)
    wide = x.astype(np.float64)
    want = (wide - wide.mean()) / np.sqrt(wide.var() + 1e-5)
    t = fa.from_numpy(x)
    for got in (
        F.layer_norm(t, [len(x)]),
        F.group_norm(t[None, None], 1)[0, 0],
        F.batch_norm(t[None, None], None, None, training=True)[0, 0],
        F.batch_norm(t[:, None], None, None, training=True)[:, 0],
    ):
        np.testing.assert_allclose(got.tolist(), want, atol=1e-5)
    assert t.var().item() == pytest.approx(wide.var(ddof=1), rel=1e-6)
    assert fa.cov(t).item() == pytest.approx(wide.var(ddof=1), rel=1e-4)


# ---- order, losses and products with zero ----


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles_of_infinities(interpolation: str) -> None:
    def at(values: list[float], q: float) -> float:
        return fa.quantile(fa.tensor(values), q, interpolation=interpolation).item()

    assert at([1, INF, INF], 0.75) == INF
    assert at([-INF, -INF, 1], 0.25) == -INF
    assert at([-INF, 1.0, INF], 0.5) == 1
    assert at([-INF, 1.0], 0.0) == -INF and at([1.0, INF], 1.0) == INF
    x = fa.tensor([NAN, 1.0, INF, INF])
    assert fa.nanquantile(x, 0.75, interpolation=interpolation).item() == INF
    top = at([-3e38, 3e38], 0.5)
    assert top == {"lower": -3e38, "higher": 3e38, "nearest": -3e38}.get(interpolation, 0) or (
        abs(top) == pytest.approx(3e38)
    )


def test_lerp_between_infinities() -> None:
    ends = [(1.0, INF, INF), (-INF, 5.0, -INF), (INF, INF, INF), (-3e38, 3e38, None)]
    for a, b, want in ends:
        for w in (0.25, 0.75):
            got = fa.lerp(fa.tensor(a), fa.tensor(b), w).item()
            assert got == (want if want is not None else pytest.approx((2 * w - 1) * 3e38))
    assert fa.lerp(fa.tensor(1.0), fa.tensor(INF), 0.0).item() == 1
    assert fa.lerp(fa.tensor(-INF), fa.tensor(2.0), 1.0).item() == 2
    assert fa.lerp(fa.tensor(-INF), fa.tensor(INF), 0.5).isnan().item()
    halves = fa.arange(100_000, dtype=fa.float32).to(fa.float16)
    assert fa.quantile(halves.clamp(max=1000.0), 0.005).item() == pytest.approx(500, rel=2e-3)


def test_gradients_where_a_factor_is_zero() -> None:
    assert gradients(fa.xlogy, [0.0, 0.0, 2.0], [0.0, 2.0, 4.0])[1] == [0, 0, 0.5]
    assert gradients(fa.special.xlog1py, [0.0, 2.0], [-1.0, 3.0])[1] == [0, 0.5]
    assert math.isnan(fa.xlogy(fa.tensor(0.0), fa.tensor(NAN)).item())
    zeros, ends = [0.0, 0.0], [-INF, -1.0]
    for log in (False, True):
        target = [-INF, -INF] if log else zeros
        got = gradients(
            lambda a, b, log=log: F.kl_div(a, b, log_target=log, reduction="sum"), ends, target
        )
        assert got[0] == [0, 0] and all(math.isfinite(v) for v in got[1])
        loss = F.kl_div(fa.tensor(ends), fa.tensor(target), log_target=log, reduction="none")
        assert loss.tolist() == [0, 0]
    assert F.kl_div(fa.tensor(NAN), fa.tensor(0.0)).isnan().item()


def test_losses_of_certain_answers() -> None:
    probabilities = fa.tensor([[0.0, 1.0]])
    scores = fa.tensor([[-INF, 0.0]], requires_grad=True)
    loss = F.cross_entropy(scores, probabilities)
    loss.backward()
    assert loss.item() == 0 and scores.grad.tolist() == [[0, 0]]
    # a class of no weight does not count
    weight = fa.tensor([0.0, 1.0])
    for target in (fa.tensor([0, 1]), fa.tensor([[1.0, 0.0], [0.0, 1.0]])):
        rows = fa.tensor([[-INF, 0.0], [0.0, 0.0]])
        assert F.cross_entropy(rows, target, weight, reduction="sum").item() == pytest.approx(
            math.log(2)
        )
    got = F.nll_loss(fa.tensor([[-INF, 0.0], [0.0, -2.0]]), fa.tensor([0, 1]), weight)
    assert got.item() == 2
    x, t = [INF, -INF, 1e30, -1e30, 2.0], [1.0, 0.0, 1.0, 0.0, 0.5]

    def logits(x: Any, t: Any, **more: Any) -> Any:
        return F.binary_cross_entropy_with_logits(x, t, reduction="none", **more)

    want = [0, 0, 0, 0, 2 + math.log1p(math.exp(-2)) - 1]
    assert logits(fa.tensor(x), fa.tensor(t)).tolist() == pytest.approx(want)
    one = {"pos_weight": fa.ones(5)}
    assert logits(fa.tensor(x), fa.tensor(t), **one).tolist() == pytest.approx(want)
    assert gradients(logits, x, t)[0][:4] == [0, 0, 0, 0]
    assert gradients(lambda x, t, w: logits(x, t, pos_weight=w), x, t, [1.0] * 5)[2][:2] == [0, 0]
    p = gradients(F.binary_cross_entropy, [0.0, 1.0], [0.0, 1.0])
    assert p == [[0, 0], [pytest.approx(50), pytest.approx(-50)]]
    assert F.poisson_nll_loss(fa.tensor([-INF]), fa.tensor([0.0])).item() == 0
    assert (
        F.poisson_nll_loss(fa.tensor([0.0]), fa.tensor([0.0]), log_input=False, eps=0.0).item() == 0
    )
    assert (
        F.multilabel_soft_margin_loss(fa.tensor([[-INF, INF]]), fa.tensor([[0.0, 1.0]])).item() == 0
    )
    wide = F.gaussian_nll_loss(fa.tensor([1e20]), fa.tensor([0.0]), fa.tensor([1e38]))
    assert wide.item() == pytest.approx(0.5 * (math.log(1e38) + 100), rel=1e-5)
    assert F.smooth_l1_loss(fa.tensor([1e25]), fa.tensor([0.0]), beta=1e30).item() == pytest.approx(
        5e19
    )


def test_sums_of_exponentials_of_infinities() -> None:
    def lse(x: Any) -> Any:
        return x.logsumexp(0)

    assert lse(fa.tensor([-INF, -INF])).item() == -INF
    assert gradients(lse, [-INF, -INF]) == [[0.5, 0.5]]
    assert gradients(lse, [INF, 1.0]) == [[1, 0]]
    assert gradients(lse, [-INF, 0.0, 0.0]) == [[0, 0.5, 0.5]]
    assert gradients(fa.logaddexp, [-INF], [-INF]) == [[0.5], [0.5]]
    assert fa.logaddexp(fa.tensor(-INF), fa.tensor(-INF)).item() == -INF
    sums = fa.logcumsumexp(fa.tensor([0.0, NAN, 1.0, -INF, INF, 2.0]), 0)
    np.testing.assert_array_equal(sums.numpy(), [0, *[NAN] * 5])
    got = gradients(lambda x: fa.logcumsumexp(x, 0)[1:], [-INF, 0.0, 0.0])
    assert got == [[0, pytest.approx(1.5), pytest.approx(0.5)]]
    assert fa.softmax(fa.tensor([3e38, -3e38]), 0).tolist() == [1, 0]


def test_divergence_of_each_row() -> None:
    """The sum over the first dim's size, which a single number has not."""
    rng = np.random.default_rng(6)
    for shape in ((5,), (3, 4), (2, 3, 4)):
        x, t = rng.normal(size=shape), rng.uniform(0.1, 1, size=shape)
        got = F.kl_div(fa.tensor(x), fa.tensor(t), reduction="batchmean")
        assert got.item() == pytest.approx((t * (np.log(t) - x)).sum() / shape[0], rel=1e-12)


def test_likelihoods_whose_quotient_leaves_the_range() -> None:
    for off, var in ((1e-8, 1e-318), (-1e-8, 1e-318), (3.0, 2.0), (INF, 1.0), (1.0, INF)):
        operands = (fa.tensor(v, dtype=fa.float64) for v in (0.5 + off, 0.5, var))
        got = fa._C._ops.gaussian_nll_elements(*operands).item()
        exact = (0.5 + off) - 0.5  # what is left of it
        assert got == pytest.approx(0.5 * (math.log(var) + exact * exact / var), rel=1e-10)


def test_divergence_of_a_number() -> None:
    got = F.kl_div(fa.tensor(0.5), fa.tensor(0.25), reduction="batchmean")
    assert got.item() == pytest.approx(0.25 * (math.log(0.25) - 0.5), rel=1e-6)


def test_clipping_and_pooling() -> None:
    p, q = fa.nn.Parameter(fa.zeros(1)), fa.nn.Parameter(fa.zeros(1))
    p.grad, q.grad = fa.tensor([3e38]), fa.tensor([3e38])
    total = fa.nn.utils.clip_grad_norm_([p, q], 1.0)
    assert total.item() == INF
    assert [p.grad.item(), q.grad.item()] == pytest.approx([math.sqrt(0.5)] * 2, rel=1e-5)
    p.grad, q.grad = fa.tensor([3e20]), fa.tensor([4e20])
    assert fa.nn.utils.clip_grad_norm_([p, q], 5.0).item() == pytest.approx(5e20)
    assert [p.grad.item(), q.grad.item()] == pytest.approx([3, 4])
    h = fa.nn.Parameter(fa.zeros(4, dtype=fa.float16))
    h.grad = fa.full((4,), 6e4, dtype=fa.float16)
    fa.nn.utils.clip_grad_norm_([h], 2.0)
    assert h.grad.tolist() == [1] * 4
    assert fa.nn.utils.get_total_norm([fa.full((4,), 6e4, dtype=fa.float16)]).item() == 120_000
    pooled = F.lp_pool1d(fa.tensor([[[3e25, 4e25, 0.0, 1e25]]]), 2, 2)
    assert pooled.flatten().tolist() == pytest.approx([5e25, 1e25], rel=1e-5)
    x = fa.tensor([[[1e20], [2e20]]])
    got = F.local_response_norm(x, 2, alpha=1.0, beta=0.5, k=1.0)
    assert got.flatten().tolist() == pytest.approx([math.sqrt(2), 2 / math.sqrt(2.5)], rel=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_cross_entropy_of_large_scores(dtype: str, reduction: str) -> None:
    """Scores beside an offset: nothing but their differences matters."""
    rng = np.random.default_rng(0)
    near = np.round(rng.uniform(-4, 4, (6, 9)) * 8) / 8  # exact beside the offset
    target = rng.integers(0, 9, 6)
    p = np.exp(near) / np.exp(near).sum(1, keepdims=True)
    losses = -np.log(p[np.arange(6), target])
    slopes = p - np.eye(9)[target]
    want = {"none": losses, "mean": losses.mean(), "sum": losses.sum()}[reduction]
    for offset in (0.0, 1e6, -1e6):
        x = fa.tensor(near + offset, dtype=getattr(fa, dtype), requires_grad=True)
        got = fa.nn.functional.cross_entropy(x, fa.tensor(target), reduction=reduction)
        within = {"rtol": 0, "atol": 64 * float(fa.finfo(x.dtype).eps)}
        np.testing.assert_allclose(got.detach().numpy(), want, **within)
        (grad,) = fa.autograd.grad(got.sum(), x)
        np.testing.assert_allclose(
            grad.numpy(), slopes / (6 if reduction == "mean" else 1), **within
        )


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_averages_whose_sum_leaves_the_range(dtype: str, channels_last: bool) -> None:
    most = float(fa.finfo(getattr(fa, dtype)).max)
    x = np.full((1, 8, 6, 6), most / 2, dtype)
    x[0, 1] = 3e-30
    x[0, 2, 0, 0] = np.inf
    t = fa.tensor(x)
    if channels_last:
        t = t.contiguous(memory_format=fa.channels_last)
    windows = x.reshape(1, 8, 3, 2, 3, 2) / 36
    fine = windows.sum((3, 5)) * 9
    for got, want in (
        (fa.nn.functional.avg_pool2d(t, 2), fine),
        (fa.nn.functional.adaptive_avg_pool2d(t, 3), fine),
        (fa.nn.functional.adaptive_avg_pool2d(t, 1), windows.sum((2, 3, 4, 5))[..., None, None]),
        (fa.nn.functional.avg_pool2d(t, 2, divisor_override=1)[0, 0], np.full((3, 3), np.inf)),
    ):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


def test_spacing_to_the_ends() -> None:
    got = fa.linspace(-1.7e308, 1.7e308, 5, dtype=fa.float64)
    np.testing.assert_allclose(got.numpy(), [-1.7e308, -0.85e308, 0, 0.85e308, 1.7e308], rtol=1e-15)
    top = 2**63 - 1
    assert fa.linspace(0, top, 3, dtype=fa.int64).tolist() == [0, top // 2, top]
    assert fa.linspace(2**62, 2**62 + 4, 5, dtype=fa.int64).tolist() == [
        2**62 + i for i in range(5)
    ]
    assert fa.linspace(-top, top, 2, dtype=fa.int64).tolist() == [-top, top]


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_whole_numbers_at_equal_distances(dtype: str) -> None:
    """Rounded towards zero from the exact value, which doubles miss by one here and there."""
    for start, end in (
        (-50, 127),
        (-50, -4),
        (0, 10),
        (3, -100),
        *[(0, 2**53)] * (dtype == "int64"),
    ):
        for steps in (2, 3, 4, 43, 45, 53, 100):
            got = fa.linspace(start, end, steps, dtype=getattr(fa, dtype)).tolist()
            parts = steps - 1
            assert got == [
                math.trunc(start + Fraction((end - start) * i, parts)) for i in range(steps)
            ]


def test_running_statistics_of_far_channels() -> None:
    x = np.array([[1e18], [3e18], [-2e18], [5e18]])
    mean, var = fa.zeros(1), fa.zeros(1)
    fa.nn.functional.batch_norm(
        fa.tensor(x, dtype=fa.float32), mean, var, training=True, momentum=1.0
    )
    np.testing.assert_allclose(mean.numpy(), x.mean(0), rtol=1e-6)
    np.testing.assert_allclose(var.numpy(), x.var(0, ddof=1), rtol=1e-6)


@pytest.mark.parametrize("dtype", [fa.float32, fa.float64])
def test_edges_of_bins_decide(dtype: fa.dtype) -> None:
    """An element just below an edge, or on it, where a quotient rounds to the other side."""
    for bins, low, high in ((2, -1.0, 1.0), (10, 0.0, 1.0), (49, 0.1, 0.7), (7, -3.0, 1e-3)):
        edges = np.linspace(low, high, bins + 1)
        x = np.concatenate(
            [edges, np.nextafter(edges, -9), np.nextafter(edges, 9), [-1e-300, 1e-300]]
        )
        x = fa.tensor(x, dtype=dtype)
        # An end that is rounded to an element's width is within.
        values = x.double().numpy()
        ends = fa.tensor([low, high], dtype=dtype).double().tolist()
        values = np.where((values >= ends[0]) & (values < low), low, values)
        values = np.where((values <= ends[1]) & (values > high), high, values)
        want = np.histogram(values, bins, (low, high))[0]
        assert fa.histc(x, bins, low, high).tolist() == want.tolist()


# ---- values that cancel, and edges of another width ----


@pytest.mark.parametrize("rows", [2, 30, 300])
@pytest.mark.parametrize("dtype", [fa.float32, fa.float64])
def test_distances_of_rows_far_from_the_origin(rows: int, dtype: Any) -> None:
    rng = np.random.default_rng(rows)
    a = np.float32(rng.normal(size=(rows, 3)) + 1e4).astype(np.float64)
    b = np.concatenate([a[: rows // 2], a[rows // 2 :] + 1.0])
    want = np.sqrt(((a[:, None] - b[None]) ** 2).sum(-1))
    got = fa.cdist(fa.tensor(a, dtype=dtype), fa.tensor(b, dtype=dtype)).double().numpy()
    np.testing.assert_allclose(got, want, rtol=2e-6 if dtype == fa.float32 else 1e-12)


def test_edges_of_a_histogram_in_the_width_of_the_elements() -> None:
    x = fa.tensor([-3e38, 3e38, 0.1])
    assert fa.histc(x, 2, -3e38, 3e38).tolist() == [1.0, 2.0]
    assert fa.histc(x[2:], 1, 0.1, 0.2).tolist() == [1.0]


def test_slope_of_an_angle_out_of_the_range_of_squares() -> None:
    for size in (1e30, 1e-30):
        z = fa.tensor([complex(size, size)], dtype=fa.complex64, requires_grad=True)
        z.angle().sum().backward()
        np.testing.assert_allclose(z.grad.numpy(), [(-1 + 1j) / (2 * size)], rtol=1e-5)


def test_gradients_at_odd_places_seen_as_complex() -> None:
    z = fa.randn(3, dtype=fa.complex64, requires_grad=True)
    grad = fa.arange(7.0)[1:]
    fa.view_as_real(z).reshape(-1).backward(grad)
    assert z.grad.tolist() == [1 + 2j, 3 + 4j, 5 + 6j]
