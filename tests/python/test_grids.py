"""gradient, unravel_index, histograms and range beside NumPy."""

from __future__ import annotations

from typing import Any

import facula as fa
import numpy as np
import pytest

X = np.random.default_rng(5).normal(size=(6, 5))


@pytest.mark.parametrize("order", [1, 2])
def test_gradient(order: int) -> None:
    coordinates = [np.array([0, 1, 1.5, 3, 5, 5.5]), np.array([0, 0.5, 2, 2.5, 4])]
    cases: list[tuple[Any, Any]] = [
        (None, ()),
        (0.5, (0.5,)),
        ((2.0, 0.25), (2.0, 0.25)),
        ([fa.tensor(c) for c in coordinates], coordinates),
    ]
    for spacing, numpy_spacing in cases:
        got = fa.gradient(fa.tensor(X), spacing=spacing, edge_order=order)
        want = np.gradient(X, *numpy_spacing, edge_order=order)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-12, atol=1e-12)
    (got,) = fa.gradient(fa.tensor(X), dim=-1, edge_order=order)
    np.testing.assert_allclose(got.numpy(), np.gradient(X, axis=-1, edge_order=order))
    point = fa.tensor(X, requires_grad=True)
    assert fa.autograd.gradcheck(lambda x: fa.gradient(x, edge_order=order), (point,))


def test_gradient_errors() -> None:
    x = fa.tensor(X)
    with pytest.raises(RuntimeError, match="edge_order must be 1 or 2"):
        fa.gradient(x, edge_order=3)
    with pytest.raises(RuntimeError, match="at least edge_order"):
        fa.gradient(fa.ones(2), edge_order=2)
    with pytest.raises(RuntimeError, match="spacing has 1 entries, but input has 2 dims"):
        fa.gradient(x, spacing=[1.0])
    with pytest.raises(IndexError, match="dim 2 is out of range"):
        fa.gradient(x, dim=2)
    with pytest.raises(RuntimeError, match="named twice"):
        fa.gradient(x, dim=(0, -2))


def test_unravel_index() -> None:
    places = np.array([[0, 5], [11, 23]])
    got = fa.unravel_index(fa.tensor(places), (2, 3, 4))
    for a, b in zip(got, np.unravel_index(places, (2, 3, 4)), strict=True):
        np.testing.assert_array_equal(a.numpy(), b)
    assert [t.item() for t in fa.unravel_index(fa.tensor(-1), (2, 3))] == [1, 2]
    assert fa.unravel_index(fa.tensor([3]), 5)[0].tolist() == [3]
    with pytest.raises(ValueError, match="indices must be integers"):
        fa.unravel_index(fa.tensor([1.0]), (2,))
    with pytest.raises(ValueError, match="must not be negative"):
        fa.unravel_index(fa.tensor([1]), (2, -1))
    with pytest.raises(TypeError, match="shape must be ints"):
        fa.unravel_index(fa.tensor([1]), (2, 1.5))


@pytest.mark.parametrize("density", [False, True])
def test_histogram(density: bool) -> None:
    x, weight = X.ravel(), np.abs(X.ravel()) + 0.1
    for bins, ends in ((4, None), (5, (-1.0, 1.5)), (np.array([-2.0, 0.0, 0.5, 1.0]), None)):
        given = fa.tensor(bins) if isinstance(bins, np.ndarray) else bins
        got = fa.histogram(
            fa.tensor(X),
            given,
            range=ends,
            weight=fa.tensor(weight.reshape(X.shape)),
            density=density,
        )
        want = np.histogram(x, bins, ends, weights=weight, density=density)
        np.testing.assert_allclose(got.hist.numpy(), want[0], rtol=1e-12)
        np.testing.assert_allclose(got.bin_edges.numpy(), want[1], rtol=1e-12)
    hist, edges = fa.tensor([1.0, 1.0]).histogram(2)
    assert hist.tolist() == [0, 2] and edges.tolist() == [0.5, 1.0, 1.5]
    with pytest.raises(RuntimeError, match="bins must be 1 or more"):
        fa.histogram(fa.ones(2), 0)
    with pytest.raises(RuntimeError, match="finite and ascend"):
        fa.histogram(fa.ones(2), 2, range=(1.0, 0.0))


@pytest.mark.parametrize("density", [False, True])
def test_histogramdd(density: bool) -> None:
    rows = np.random.default_rng(8).normal(size=(40, 3))
    weight = np.random.default_rng(9).random(40)
    edges = [np.array([-1.0, 0.0, 2.0]), np.array([-3.0, 0.5, 3.0]), np.array([-0.5, 0.5])]
    cases: list[tuple[Any, Any, Any, Any]] = [
        (3, None, 3, None),
        ([2, 3, 4], [-1.0, 1.0, -2.0, 2.0, -3.0, 3.0], [2, 3, 4], [(-1, 1), (-2, 2), (-3, 3)]),
        ([fa.tensor(e) for e in edges], None, edges, None),
    ]
    for bins, ends, numpy_bins, numpy_ends in cases:
        got = fa.histogramdd(
            fa.tensor(rows), bins, range=ends, weight=fa.tensor(weight), density=density
        )
        want = np.histogramdd(rows, numpy_bins, numpy_ends, weights=weight, density=density)
        np.testing.assert_allclose(got.hist.numpy(), want[0], rtol=1e-12)
        for a, b in zip(got.bin_edges, want[1], strict=True):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-12)
    with pytest.raises(RuntimeError, match="input must have 2 dims"):
        fa.histogramdd(fa.ones(3), 2)


def test_range_has_its_end() -> None:
    assert fa.range(1, 4).tolist() == [1, 2, 3, 4]
    assert fa.range(0, 1, 0.25).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert fa.range(3, 1, -1, dtype=fa.int64).tolist() == [3, 2, 1]
    with pytest.raises(RuntimeError, match="nonzero"):
        fa.range(0, 1, 0)
    with pytest.raises(RuntimeError, match="inconsistent"):
        fa.range(1, 0)
