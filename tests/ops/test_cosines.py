"""Cosines and correlations: within [-1, 1], symmetric, rounded once in dtypes of 16 bits."""

from __future__ import annotations

import warnings

import facula as fa
import numpy as np
import pytest

HALVES = ["bfloat16", "float16"]


def drawn(rows: int, columns: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, columns))


def exact_cosines(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    x, y = x.astype(np.longdouble), y.astype(np.longdouble)
    norms = np.sqrt((x * x).sum(1) * (y * y).sum(1))
    return np.asarray((x * y).sum(1) / norms, np.float64)


@pytest.mark.parametrize("dtype", [*HALVES, "float32", "float64"])
@pytest.mark.parametrize("columns", [3, 7, 64, 1000])
def test_cosine_similarity_is_a_cosine(columns: int, dtype: str) -> None:
    kind = getattr(fa, dtype)
    x = fa.tensor(drawn(300, columns, 1)).to(kind)
    for other in (x, -x, (x.double() * 3).to(kind), x.roll(1, 1)):
        got = fa.nn.functional.cosine_similarity(x, other)
        assert got.dtype == kind and got.abs().max() <= 1
        want = exact_cosines(x.double().numpy(), other.double().numpy())
        room = np.abs(want) * fa.finfo(kind).eps * (0.51 if dtype in HALVES else 8)
        room = room + (1e-6 if dtype in HALVES else fa.finfo(kind).eps * 8)
        assert (np.abs(got.double().numpy() - want) <= room).all()


@pytest.mark.parametrize("dtype", [*HALVES, "float32", "float64"])
@pytest.mark.parametrize("columns", [3, 7, 64, 1000])
def test_correlations(columns: int, dtype: str) -> None:
    kind = getattr(fa, dtype)
    x = fa.tensor(drawn(20, columns, 2)).to(kind)
    got = fa.corrcoef(x)
    assert got.dtype == kind and got.abs().max() <= 1
    assert (got == got.T).all()
    want = np.corrcoef(x.double().numpy())
    room = np.abs(want) * fa.finfo(kind).eps * (0.51 if dtype in HALVES else 8)
    room = room + (1e-6 if dtype in HALVES else fa.finfo(kind).eps * 16)
    assert (np.abs(got.double().numpy() - want) <= room).all()


def test_correlations_of_no_observations() -> None:
    for shape in ((3, 0), (0,)):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = np.corrcoef(np.zeros(shape))
        np.testing.assert_array_equal(fa.corrcoef(fa.zeros(shape)).numpy(), want)


def test_slope_of_what_was_rounded_to_one() -> None:
    """A clamp would have none; that of rows nearly parallel has the size of their angle."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(200, 8))
    y = x + 1e-4 * rng.normal(size=x.shape)
    a = fa.tensor(x.astype(np.float32), requires_grad=True)
    fa.nn.functional.cosine_similarity(a, fa.tensor(y.astype(np.float32))).sum().backward()
    sizes = np.linalg.norm(x, axis=1, keepdims=True)
    cosines = exact_cosines(x, y)[:, None]
    want = (y / np.linalg.norm(y, axis=1, keepdims=True) - cosines * x / sizes) / sizes
    assert np.abs(a.grad.numpy() - want).max() < 1e-6 < np.abs(want).min(1).max()
