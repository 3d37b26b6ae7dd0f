"""facula.masked beside numpy.ma."""

from __future__ import annotations

from typing import Any

import facula as fa
import numpy as np
import pytest

GENERATOR = np.random.default_rng(11)
X = GENERATOR.normal(size=(3, 4, 5))
MASK = GENERATOR.random((3, 4, 5)) > 0.4
MASK[..., 0] = True  # no row without elements
MASKED = np.ma.array(X, mask=~MASK)


def both(name: str, dim: Any, **options: Any) -> Any:
    return getattr(fa.masked, name)(fa.tensor(X), dim, mask=fa.tensor(MASK), **options).numpy()


@pytest.mark.parametrize("dim", [0, -1, (0, 2), None])
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "amax", "amin", "var", "std"])
def test_reductions(name: str, dim: Any) -> None:
    numpy_name = {"amax": "max", "amin": "min"}.get(name, name)
    options = {"ddof": 1} if name in ("var", "std") else {}
    if name == "prod" and isinstance(dim, tuple):
        want = MASKED.prod(2).prod(0)
    else:
        want = getattr(MASKED, numpy_name)(axis=dim, **options)
    mask = MASK.sum(axis=dim) > (name in ("var", "std"))
    got = both(name, dim)
    np.testing.assert_allclose(np.where(mask, got, 0), np.where(mask, want, 0), rtol=1e-12)
    kept = both(name, dim, keepdim=True)
    assert kept.ndim == 3 and kept.size == np.size(got)


def test_places_and_medians() -> None:
    np.testing.assert_array_equal(both("argmax", 2), MASKED.filled(-np.inf).argmax(2))
    np.testing.assert_array_equal(both("argmin", 2), MASKED.filled(np.inf).argmin(2))
    for dim in (0, 2):
        want = np.apply_along_axis(
            lambda row: (
                np.nan
                if np.isnan(row).all()
                else np.sort(row[~np.isnan(row)])[(np.count_nonzero(~np.isnan(row)) - 1) // 2]
            ),
            dim,
            MASKED.filled(np.nan),
        )
        np.testing.assert_array_equal(both("median", dim), want)
    whole = (X * 100).astype(np.int64)
    got = fa.masked.median(fa.tensor(whole), 2, mask=fa.tensor(MASK)).numpy()
    want = np.sort(np.where(MASK, whole, 10**6), 2)
    np.testing.assert_array_equal(
        got, np.take_along_axis(want, (MASK.sum(2, keepdims=True) - 1) // 2, 2)[..., 0]
    )
    with pytest.raises(ValueError, match="masked whole"):
        fa.masked.median(fa.tensor([1, 2]), 0, mask=fa.tensor([False, False]))


def test_running_and_normalized() -> None:
    np.testing.assert_allclose(both("cumsum", 1), MASKED.filled(0).cumsum(1))
    np.testing.assert_allclose(both("cumprod", 1), MASKED.filled(1).cumprod(1))
    power = np.where(MASK, np.exp(X), 0)
    np.testing.assert_allclose(both("softmax", 2), power / power.sum(2, keepdims=True))
    np.testing.assert_allclose(both("logsumexp", 2), np.log(power.sum(2)))
    with np.errstate(divide="ignore"):
        logs = np.log(power / power.sum(2, keepdims=True))
    np.testing.assert_allclose(both("log_softmax", 2), logs)
    least = np.where(MASK, np.exp(-X), 0)
    np.testing.assert_allclose(both("softmin", 2), least / least.sum(2, keepdims=True))
    kept = MASKED.filled(0)
    norm = np.sqrt((kept**2).sum(2))
    got = fa.masked.norm(fa.tensor(X), 2, 2, mask=fa.tensor(MASK))
    np.testing.assert_allclose(got.numpy(), norm)
    unit = fa.masked.normalize(fa.tensor(X), 2, 2, mask=fa.tensor(MASK))
    np.testing.assert_allclose(unit.numpy(), kept / norm[..., None])
    both_logs = fa.masked.logaddexp(
        fa.tensor(X), fa.tensor(X[::-1].copy()), input_mask=fa.tensor(MASK)
    )
    with np.errstate(divide="ignore"):
        want = np.logaddexp(np.where(MASK, X, -np.inf), X[::-1])
    np.testing.assert_allclose(both_logs.numpy(), want)


def test_masked_elements_take_no_gradient() -> None:
    x = fa.tensor(X, requires_grad=True)
    fa.masked.mean(x, mask=fa.tensor(MASK)).backward()
    np.testing.assert_allclose(x.grad.numpy(), MASK / MASK.sum())


def test_nothing_counts() -> None:
    none = fa.tensor([False, False])
    x = fa.tensor([1.0, 2.0])
    assert fa.masked.sum(x, mask=none) == 0 and fa.masked.prod(x, mask=none) == 1
    assert fa.masked.amax(x, mask=none) == -np.inf and fa.masked.mean(x, mask=none).isnan()
    assert fa.masked.sum(fa.tensor([2, 3]), mask=none).dtype == fa.int64


def test_errors() -> None:
    x = fa.tensor([1.0, 2.0])
    with pytest.raises(TypeError, match="mask must be bool"):
        fa.masked.sum(x, mask=fa.tensor([1, 0]))
    with pytest.raises(IndexError, match="mask has 2 dims, more than the 1"):
        fa.masked.sum(x, mask=fa.tensor([[True, False]]))
    with pytest.raises(IndexError, match="dim 1 is out of range"):
        fa.masked.sum(x, 1)
    with pytest.raises(RuntimeError, match="names a dim twice"):
        fa.masked.sum(x, (0, -1))
    with pytest.raises(RuntimeError, match="unbiased or correction"):
        fa.masked.var(x, unbiased=True, correction=1)
