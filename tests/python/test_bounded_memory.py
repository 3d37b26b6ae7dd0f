"""Functions of pairs, bags and windows, in memory of the order of what goes in and comes out.

Each is compared with NumPy's loops; small inputs go the same way as large ones.
"""

from __future__ import annotations

import itertools
import math

import facula as fa
import numpy as np
import pytest
from facula.nn import _embedding, _losses, _norms
from facula.nn import functional as F


def numbers(t):
    return np.array(t.detach().tolist())


@pytest.fixture(autouse=True)
def parts(monkeypatch, request):
    if "large" in request.keywords or "large" in request.node.name:
        return
    for module, name in ((_losses, "_MANY_PAIRS"), (_norms, "_MANY"), (_embedding, "_MANY")):
        monkeypatch.setattr(module, name, 0)


# ---- losses of all pairs


def margin(x, y):
    """Value and slope of one row, pair by pair."""
    labels = list(itertools.takewhile(lambda j: j >= 0, y))
    loss, slope = 0.0, np.zeros(len(x))
    for i in labels:
        for j in set(range(len(x))) - set(labels):
            gap = 1 - x[i] + x[j]
            if gap > 0:
                loss += gap / len(x)
                slope[j] += 1 / len(x)
                slope[i] -= 1 / len(x)
    return loss, slope


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_multilabel_margin(reduction):
    rng = np.random.default_rng(0)
    x = 2 * rng.standard_normal((5, 12)) + 1000
    y = np.full((5, 12), -1)
    for row, count in enumerate((0, 1, 4, 12, 11)):
        y[row, :count] = rng.permutation(12)[:count]
    y[1, 2] = 3  # after the first -1 nothing counts
    t = fa.tensor(x, requires_grad=True)
    got = F.multilabel_margin_loss(t, fa.tensor(y), reduction=reduction)
    got.sum().backward()
    values, slopes = (np.array(a) for a in zip(*map(margin, x, y), strict=True))
    want = {"none": values, "sum": values.sum(), "mean": values.mean()}[reduction]
    np.testing.assert_allclose(numbers(got), want, rtol=1e-12, atol=1e-12)
    scale = 5 if reduction == "mean" else 1
    np.testing.assert_allclose(numbers(t.grad), slopes / scale, rtol=1e-12, atol=1e-15)
    one = F.multilabel_margin_loss(t[2], fa.tensor(y[2]), reduction=reduction)
    assert one.shape == () and one.item() == pytest.approx(values[2])


def test_multilabel_margin_of_no_numbers():
    x, y = fa.tensor([[0.0, 1.0, 2.0]]), fa.tensor([[1, -1, -1]])
    for place, value, want in [
        (0, math.nan, math.nan),
        (1, math.nan, math.nan),
        (0, math.inf, math.inf),
        (0, -math.inf, 2 / 3),
        (1, math.inf, 0.0),
        (1, -math.inf, math.inf),
    ]:
        other = x.clone()
        other[0, place] = value
        got = F.multilabel_margin_loss(other, y).item()
        assert got == pytest.approx(want, nan_ok=True), (place, value)


def test_multilabel_margin_of_large_rows():
    """All pairs of 4 rows of 30000 are 14 GB of float32."""
    fa.manual_seed(0)
    x = fa.rand(4, 30000, dtype=fa.float32)
    y = fa.stack([fa.randperm(30000) for _ in range(4)])
    y[:, 100:] = -1
    got = F.multilabel_margin_loss(x, y, reduction="none")
    for row in range(4):
        own, labels = numbers(x[row]), numbers(y[row][:100]).astype(int)
        rest = np.delete(own, labels)
        want = sum(np.maximum(0, 1 - own[i] + rest).sum() for i in labels) / 30000
        assert got[row].item() == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize("p", [0, 1, 2, 3.0, math.inf])
def test_pdist(p):
    rng = np.random.default_rng(1)
    x = rng.integers(-3, 4, (9, 4)).astype(float)
    t = fa.tensor(x, requires_grad=True)
    got = F.pdist(t, p)
    pairs = list(itertools.combinations(range(9), 2))
    want = [np.linalg.norm(x[i] - x[j], p) for i, j in pairs]
    np.testing.assert_allclose(numbers(got), want, rtol=1e-12)
    if p in (1, 2, 3.0):
        weights = rng.standard_normal(len(pairs))
        (got * fa.tensor(weights)).sum().backward()
        slope = np.zeros_like(x)
        for (i, j), distance, w in zip(pairs, want, weights, strict=True):
            d = x[i] - x[j]
            own = w * np.sign(d) * np.abs(d) ** (p - 1) / max(distance, 1e-300) ** (p - 1)
            slope[i] += own
            slope[j] -= own
        np.testing.assert_allclose(numbers(t.grad), slope, rtol=1e-10, atol=1e-12)
    for few in (0, 1):
        assert F.pdist(fa.zeros(few, 3), p).shape == (0,)


# ---- bags


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding_idx", [None, 2])
def test_bags(mode, padding_idx):
    rng = np.random.default_rng(2)
    table, index = rng.standard_normal((6, 5)), rng.integers(0, 6, 40)
    offsets = [0, 3, 3, 20]
    factors = rng.random(40) if mode == "sum" else np.ones(40)
    t = fa.tensor(table, requires_grad=True)
    weights = fa.tensor(factors, requires_grad=True) if mode == "sum" else None
    args = {"mode": mode, "padding_idx": padding_idx, "per_sample_weights": weights}
    got = F.embedding_bag(fa.tensor(index), t, fa.tensor(offsets), **args)
    push = rng.standard_normal((4, 5))
    (got * fa.tensor(push)).sum().backward()
    slope, want, own = np.zeros_like(table), np.zeros((4, 5)), np.zeros(40)
    for bag, (start, end) in enumerate(zip(offsets, [*offsets[1:], 40], strict=True)):
        at = [k for k in range(start, end) if index[k] != padding_idx]
        if not at:
            continue
        rows = table[index[at]] * factors[at, None]
        want[bag] = {"sum": rows.sum, "mean": rows.mean, "max": rows.max}[mode](0)
        for k in at:
            if mode == "max":
                continue
            share = 1 if mode == "sum" else 1 / len(at)
            slope[index[k]] += share * factors[k] * push[bag]
            own[k] = table[index[k]] @ push[bag]
        if mode == "max":
            for d in range(5):
                slope[index[at][rows[:, d].argmax()], d] += push[bag, d]
    np.testing.assert_allclose(numbers(got), want, rtol=1e-12)
    np.testing.assert_allclose(numbers(t.grad), slope, rtol=1e-12, atol=1e-13)
    if weights is not None:
        np.testing.assert_allclose(numbers(weights.grad), own, rtol=1e-12, atol=1e-13)
    square = F.embedding_bag(fa.tensor(index.reshape(8, 5)), t, mode=mode, padding_idx=padding_idx)
    flat = F.embedding_bag(
        fa.tensor(index), t, fa.arange(0, 40, 5), mode=mode, padding_idx=padding_idx
    )
    np.testing.assert_array_equal(numbers(square), numbers(flat))


def test_bags_of_shortened_rows():
    table = fa.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]])
    got = F.embedding_bag(fa.tensor([0, 1, 1, 0]), table, fa.tensor([0, 2]), max_norm=1.0)
    np.testing.assert_allclose(numbers(got), [[0.45, 0.6], [0.45, 0.6]], rtol=1e-6)
    np.testing.assert_allclose(numbers(table), [[0.6, 0.8], [0.3, 0.4], [6, 8]], rtol=1e-6)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_a_large_bag(mode):
    """As many rows as would be 1 GB."""
    table = (fa.arange(10000.0) % 7).reshape(10, 1000)
    got = F.embedding_bag(fa.full((250_000,), 3), table, fa.tensor([0]), mode=mode)
    scale = 250_000 if mode == "sum" else 1
    np.testing.assert_allclose(numbers(got[0]), scale * numbers(table[3]), rtol=1e-3)


# ---- windows at random places


@pytest.mark.parametrize("space, kernel", [(2, (1, 1)), (2, (5, 3)), (2, (4, 8)), (3, (2, 3, 5))])
def test_windows(space, kernel):
    rng = np.random.default_rng(3)
    sizes, outs = (9, 10, 8)[:space], (3, 2, 4)[:space]
    x = rng.integers(0, 5, (2, 2, *sizes)).astype(float)  # many are equal
    x[0, 0].flat[17] = np.nan
    u = rng.random((2, 2, space))
    pool = getattr(F, f"fractional_max_pool{space}d")
    t = fa.tensor(x, requires_grad=True)
    values, places = pool(
        t, kernel, output_size=outs, return_indices=True, _random_samples=fa.tensor(u)
    )
    values.nansum().backward()
    order = [1, 0] if space == 2 else [0, 1, 2]
    hits = np.zeros_like(x)
    for n, c in np.ndindex(2, 2):
        starts = []
        for d in range(space):
            step = (sizes[d] - kernel[d]) / (outs[d] - 1)
            r = u[n, c, order[d]]
            inner = [int((i + r) * step) - int(r * step) for i in range(outs[d] - 1)]
            starts.append([*inner, sizes[d] - kernel[d]])
        for at in np.ndindex(*outs):
            corner = [starts[d][i] for d, i in enumerate(at)]
            window = x[n, c][tuple(slice(s, s + k) for s, k in zip(corner, kernel, strict=True))]
            first = np.unravel_index(window.argmax(), kernel)  # the first NaN, else the first top
            place = np.ravel_multi_index([s + f for s, f in zip(corner, first, strict=True)], sizes)
            assert places[(n, c, *at)].item() == place
            np.testing.assert_equal(values[(n, c, *at)].item(), window.max())
            hits[n, c].flat[place] += not np.isnan(window.max())
    np.testing.assert_array_equal(numbers(t.grad), hits)


def test_large_windows():
    """The numbers of all windows would be 6e9."""
    x = fa.arange(160_000.0).reshape(1, 1, 400, 400)
    got = F.fractional_max_pool2d(x, 250, output_size=300 // 2)
    assert got.shape == (1, 1, 150, 150) and got.max().item() == 159_999
