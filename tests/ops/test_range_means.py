"""Means and losses whose parts leave the range though they do not, beside exact arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction as Q
from typing import Any

import facula as fa
import mpmath as mp
import numpy as np
import pytest

F = fa.nn.functional
KINDS = [fa.float16, fa.bfloat16, fa.float32, fa.float64]
WIDE = [fa.float32, fa.float64]
kinds = pytest.mark.parametrize("dtype", KINDS, ids=str)
wide = pytest.mark.parametrize("dtype", WIDE, ids=str)


def of(values: Any, dtype: Any, grad: bool = False) -> Any:
    return fa.tensor(values, dtype=fa.float64).to(dtype).requires_grad_(grad)


def numbers(t: Any) -> list[Q]:
    return [Q(v) for v in t.detach().double().flatten().tolist()]


def near(got: Any, want: Any, ulp: float = 4) -> None:
    """Within so many units in the last place, and finite."""
    info = fa.finfo(got.dtype)
    for g, w in zip(got.detach().double().flatten().tolist(), want, strict=True):
        assert math.isfinite(g), (g, float(w))
        room = float(abs(w)) * ulp * info.eps + ulp * info.tiny * info.eps
        assert abs(float(Q(g) - Q(w))) <= room, (g, float(w))


def top_of(dtype: Any) -> float:
    return float(fa.finfo(dtype).max) * 0.875


def average(values: list[Q]) -> Q:
    return sum(values, Q(0)) / len(values)


# ---- losses of differences ----


@kinds
@pytest.mark.parametrize("n", [2, 1000])
def test_mse_loss(dtype: Any, n: int) -> None:
    """Squares beyond the range, and below it."""
    root = math.sqrt(top_of(dtype) / 2)
    for size in (1.25 * root, 0.9 * root * math.sqrt(n) / 2, float(fa.finfo(dtype).tiny) * 8, 3.0):
        if size > top_of(dtype):
            continue
        a = of([size, size / 2] + [0.0] * (n - 2), dtype, grad=True)
        b = of([-size / 8] + [0.0] * (n - 1), dtype)
        d = [x - y for x, y in zip(numbers(a), numbers(b), strict=True)]
        loss = F.mse_loss(a, b)
        near(loss, [average([x * x for x in d])])
        loss.backward()
        near(a.grad, [2 * x / n for x in d])
    zeros = of([0.0] * n, dtype)
    assert F.mse_loss(zeros, zeros).item() == 0
    assert F.mse_loss(of([math.inf, 0.0], dtype), of([0.0, 0.0], dtype)).item() == math.inf
    assert math.isnan(F.mse_loss(of([math.nan, 0.0], dtype), of([0.0, 0.0], dtype)).item())


def test_losses_of_float16() -> None:
    """Rounded once: neither differences, elements nor sums are."""
    half = fa.float16
    a, b = of([60000.0, 3.0, -250.0], half), of([-10000.0, 2.5, 250.0], half)
    d = [abs(x - y) for x, y in zip(numbers(a), numbers(b), strict=True)]
    near(F.l1_loss(a, b), [average(d)], 1)
    near(F.smooth_l1_loss(a, b), [average([x - Q(1, 2) if x >= 1 else x * x / 2 for x in d])], 1)
    far = of([60000.0, 0.0], half)
    near(F.huber_loss(far, far * 0, delta=1.5), [Q(3, 4) * 59999 + Q(3, 16)], 1)
    near(F.mse_loss(of([300.0, 0.0], half), of([0.0, 0.0], half)), [45000], 1)
    ones = fa.ones(100_000, dtype=half)
    for loss in (F.l1_loss, F.mse_loss, F.smooth_l1_loss, F.huber_loss):
        assert loss(ones * 2, ones).item() == (1 if loss in (F.l1_loss, F.mse_loss) else 0.5)
        assert loss(ones * 2, ones).dtype == half
        assert loss(ones, ones, reduction="none").dtype == half
    rank = F.margin_ranking_loss(of([-60000.0, 0.0], half), of([10000.0, 0.0], half), ones[:2])
    near(rank, [35000], 1)
    gauss = F.gaussian_nll_loss(of([300.0, 0.0], half), of([0.0, 0.0], half), ones[:2])
    near(gauss, [22500], 1)
    logits = of([[60000.0, 60000.0]], half)
    assert F.binary_cross_entropy_with_logits(logits, logits * 0).item() == 60000
    x = of([[0.0, 60000.0, 60000.0]], half)
    near(F.multi_margin_loss(x, fa.tensor([0])), [Q(2 * 60001, 3)], 1)
    mixed = F.mse_loss(of([300.0, 0.0], half), fa.zeros(2))
    assert mixed.dtype == fa.float32 and mixed.item() == 45000


# ---- losses of classes ----


@kinds
def test_margin_losses(dtype: Any) -> None:
    top = top_of(dtype)
    x, y = of([[0.0, top, top]], dtype, grad=True), fa.tensor([0])
    third = Q(2, 3) * (numbers(x)[1] + 1)
    losses: list[Callable[..., Any]] = [
        lambda **k: F.multi_margin_loss(x, y, **k),
        lambda **k: F.multi_margin_loss(x[0], y[0], **k)[None],
        lambda **k: F.multi_margin_loss(x, y, weight=fa.ones(3, dtype=dtype), **k),
        lambda **k: F.multilabel_margin_loss(x, fa.tensor([[0, -1, -1]]), **k),
    ]
    for loss in losses:
        for reduction in ("mean", "sum", "none"):
            x.grad = None
            got = loss(reduction=reduction)
            near(got, [third])
            got.sum().backward()
            near(x.grad, [Q(-2, 3), Q(1, 3), Q(1, 3)])
    root = math.sqrt(top / 2)
    many = of([[1.0] + [root] * 4], dtype)
    gap = numbers(many)[1]
    near(F.multi_margin_loss(many, y, p=2), [gap * gap * 4 / 5])
    rows = of([[1.0] + [root * 1.5] * 4, [9.0] + [0.0] * 4], dtype)  # a row beyond, the mean not
    gap = numbers(rows)[1]
    near(F.multi_margin_loss(rows, fa.tensor([0, 0]), p=2), [gap * gap * 4 / 10])


@kinds
def test_likelihood_losses(dtype: Any) -> None:
    top = top_of(dtype)
    x = of([[-top, 0.0], [-top, 0.0]], dtype, grad=True)
    y, p = fa.tensor([0, 0]), of([[1.0, 0.0], [1.0, 0.0]], dtype)
    score = -numbers(x)[0]
    heavy, ones = of([5.0, 1.0], dtype), of([1.0, 1.0], dtype)
    for weight in (None, ones, heavy):
        near(F.nll_loss(x, y, weight), [score])
        near(F.cross_entropy(x, y, weight), [score])
        near(F.cross_entropy(x[..., None], y[:, None], weight), [score])
        if weight is not heavy or dtype != fa.float64:  # weighted scores are beyond float64
            near(F.cross_entropy(x, y, weight, label_smoothing=0.1), [score * Q(95, 100)])
        if weight is not heavy:
            near(F.cross_entropy(x, p, weight), [score])
            near(F.cross_entropy(x, p, weight, label_smoothing=0.1), [score * Q(95, 100)])
    one = of([[-top / 3, 0.0], [-0.0, 0.0]], dtype)  # a row beyond, the mean not
    certain = of([[1.0, 0.0], [0.0, 0.0]], dtype)
    if dtype != fa.float64:
        near(F.cross_entropy(one, certain, heavy), [-numbers(one)[0] * Q(5, 2)])
    # weights whose sum leaves the range
    full = of([top, top], dtype)
    three = of([[-3.0, 0.0], [-3.0, 0.0]], dtype, grad=True)
    F.nll_loss(three, y, full).backward()
    if dtype != fa.float64:
        near(F.nll_loss(three, y, full), [3])
        near(three.grad, [Q(-1, 2), 0, Q(-1, 2), 0])
    scores = of([[-top / 3 * 2] * 2, [0.0, 0.0]], dtype)
    target = of([[1.0, 1.0], [0.0, 0.0]], dtype)
    near(F.kl_div(scores, target, reduction="batchmean"), [-numbers(scores)[0]])


@wide
def test_variance_of_gaussian_nll(dtype: Any) -> None:
    """(1 - d^2 / v) / 2v, of which no square has to be in the range."""
    small = 1e-36 if dtype == fa.float32 else 1e-300
    for d, v in (
        (2 * math.sqrt(small), small),
        (2 / math.sqrt(small), 1 / small),
        (3.0, 2.0),
        (0.0, 1.0),
    ):
        x, var = of([d], dtype, grad=True), of([v], dtype, grad=True)
        loss = F.gaussian_nll_loss(x, of([0.0], dtype), var, eps=float(fa.finfo(dtype).tiny))
        loss.backward()
        (a,), (b,) = numbers(x), numbers(var)
        near(var.grad, [(1 - a * a / b) / (2 * b)])
        near(x.grad, [a / b])
        value = Q(float(mp.log(mp.mpf(b.numerator) / b.denominator))) / 2 + a * a / b / 2
        near(loss, [value], 16)


# ---- means of places ----


@kinds
def test_scattered_means(dtype: Any) -> None:
    top = top_of(dtype)
    src = of([top, top, top / 2, 1.0, -3.0], dtype)
    index = fa.tensor([0, 0, 0, 2, 2])
    x = numbers(src)
    table = of([top, 5.0, 2.0, 7.0], dtype)
    got = table.scatter_reduce(0, index, src, "mean", include_self=False)
    near(got, [average(x[:3]), 5, -1, 7], 2)
    got = table.scatter_reduce(0, index, src, "mean")
    near(got, [average([*x[:3], numbers(table)[0]]), 5, 0, 7], 2)
    rows = src[:2, None].expand(2, 3).clone().requires_grad_()
    for bags in (
        F.embedding_bag(fa.tensor([[0, 1]]), rows, mode="mean"),
        F.embedding_bag(fa.tensor([0, 1]), rows, fa.tensor([0]), mode="mean"),
        F.embedding_bag(fa.tensor([[0, 1, 1]]), rows, mode="mean", padding_idx=0),
    ):
        near(bags, [x[0]] * 3, 2)
        rows.grad = None
        bags.sum().backward()
        assert rows.grad.sum().item() == 3
    empty = F.embedding_bag(fa.tensor([0, 1]), rows, fa.tensor([0, 0, 2]), mode="mean")
    near(empty, [0] * 3 + [x[0]] * 3 + [0] * 3, 2)
    assert (
        F.embedding_bag(fa.zeros(2, 0, dtype=fa.int64), rows, mode="mean").tolist() == [[0] * 3] * 2
    )
    endless = of([math.inf, 1.0], dtype)
    got = of([0.0], dtype).scatter_reduce(0, index[:2], endless, "mean")
    assert got.item() == math.inf


def test_histograms_to_the_ends() -> None:
    def counts(values: list[float], bins: int, *ends: float) -> list[float]:
        return fa.histc(fa.tensor(values, dtype=fa.float64), bins, *ends).tolist()

    most = 1.7e308
    assert counts([-most, most, 0], 3) == [1, 1, 1]
    assert counts([-most, most, 0, most / 2], 4, -most, most) == [1, 0, 1, 2]
    assert counts([-most, most, 0, math.inf], 2, -most, most) == [1, 2]
    assert counts([5e-324, 1.5e-323, 0], 4) == [1, 1, 0, 1]
    assert counts([1e-310, 4e-310, 2.1e-310], 3) == [1, 1, 1]
    single = fa.histc(fa.tensor([-3e38, 3e38, 0.0]), 3)
    assert single.tolist() == [1, 1, 1]


# ---- normalisations ----


def response(x: list[Any], size: int, alpha: float, beta: float, k: float) -> list[Any]:
    found = []
    for c in range(len(x)):
        window = x[max(0, c - size // 2) : c + size - size // 2]
        mean = mp.fsum(v * v for v in window) / size
        found.append(x[c] / (mp.mpf(k) + mp.mpf(alpha) * mean) ** mp.mpf(beta))
    return found


@wide
@pytest.mark.parametrize("k", [0.0, 1.0, -1.0])
@pytest.mark.parametrize("scale", [1e-20, 1e-6, 300.0, 1e20, 1e30])
def test_local_response_norm(dtype: Any, k: float, scale: float) -> None:
    if k < 0 and scale < 1e3:
        return  # a root of a negative number
    with mp.workdps(40):
        for size, alpha, beta in ((2, 1e-4, 0.75), (3, 2.0, 0.5), (3, 1e-4, 1.0)):
            x = of([[[1.0 * scale], [-2.5 * scale], [3.0 * scale]]], dtype, grad=True)
            given = [mp.mpf(v) for v in x.double().flatten().tolist()]
            got = F.local_response_norm(x, size, alpha, beta, k)
            want = response(given, size, alpha, beta, k)
            assert got.double().flatten().tolist() == pytest.approx(
                [float(w) for w in want], rel=4e-6
            )
            got.sum().backward()
            slopes = []
            for i in range(3):
                at = list(given)

                def total(v: Any, i: int = i, at: Any = at, s: Any = (size, alpha, beta, k)) -> Any:
                    return mp.fsum(response([*at[:i], v, *at[i + 1 :]], *s))

                step = abs(given[i]) * mp.mpf(10) ** -12
                slopes.append(float((total(given[i] + step) - total(given[i] - step)) / (2 * step)))
            most = max(map(abs, slopes))
            if most > float(fa.finfo(dtype).max):
                continue
            room = {"rel": 2e-5, "abs": 1e-5 * most + 2e-45}
            assert x.grad.double().flatten().tolist() == pytest.approx(slopes, **room)


@pytest.mark.parametrize("p", [1, 2, 3, math.inf])
@pytest.mark.parametrize("dtype", [fa.float16, fa.bfloat16], ids=str)
def test_renorm_stays_within(dtype: Any, p: float) -> None:
    rng = np.random.default_rng(2)
    most = float(fa.finfo(dtype).max)
    for scale in (1.0, 1e-2, most / 16):
        x = of((rng.standard_normal((40, 7)) * scale).clip(-most, most).tolist(), dtype)
        got = fa.renorm(x, p, 0, 0.5)
        wide_x, wide_got = x.double().numpy(), got.double().numpy()
        before, after = (np.linalg.norm(v, p, axis=1) for v in (wide_x, wide_got))
        assert (after <= 0.5 * (1 + 1e-6)).all()
        large = before > 0.5
        exact = wide_x[large] * (0.5 / before[large])[:, None]
        step = np.maximum(np.abs(exact), float(fa.finfo(dtype).tiny)) * float(fa.finfo(dtype).eps)
        assert (np.abs(wide_got[large] - exact) <= step).all()
        assert (wide_got[~large] == wide_x[~large]).all()
    y = of([[3.0, 4.0]], dtype, grad=True)
    fa.renorm(y, 2, 0, 1.0).sum().backward()
    assert y.grad.tolist()[0] == pytest.approx([4 / 125, -3 / 125], rel=0.1, abs=5e-3)
