"""interpolate with antialias and of uint8, against Pillow."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest
from facula.nn.functional import interpolate

Image = pytest.importorskip("PIL.Image")

FILTERS = {"bilinear": "BILINEAR", "bicubic": "BICUBIC", "lanczos": "LANCZOS"}
X = np.random.default_rng(0).uniform(0, 255, (2, 3, 17, 23)).astype(np.float32)


def resized(x: np.ndarray, size: tuple[int, int], mode: str) -> np.ndarray:
    kind = getattr(Image.Resampling, FILTERS[mode])
    planes = [
        np.asarray(Image.fromarray(p).resize(size[::-1], kind)) for p in x.reshape(-1, *x.shape[2:])
    ]
    return np.stack(planes).reshape(*x.shape[:2], *size)


@pytest.mark.parametrize("size", [(5, 7), (30, 11), (17, 23), (1, 1), (9, 40)])
@pytest.mark.parametrize("mode", FILTERS)
def test_antialias(mode: str, size: tuple[int, int]) -> None:
    want = resized(X, size, mode)
    got = interpolate(fa.tensor(X), size=size, mode=mode, antialias=True)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=2e-3)
    whole = X.astype(np.uint8)
    got = interpolate(fa.tensor(whole), size=size, mode=mode, antialias=True)
    assert got.dtype is fa.uint8
    if size != (9, 40):  # where Pillow takes the columns first
        assert np.abs(got.numpy().astype(int) - resized(whole, size, mode).astype(int)).max() <= 1


def test_gradients() -> None:
    x = fa.tensor(X[:1, :1, :5, :6].astype(np.float64), requires_grad=True)
    for mode in FILTERS:
        assert fa.autograd.gradcheck(
            lambda t, m=mode: interpolate(t, (2, 9), mode=m, antialias=True), (x,)
        )


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_bytes_are_rounded(mode: str) -> None:
    whole = X.astype(np.uint8)
    wide = interpolate(fa.tensor(whole).double(), (17, 30), mode=mode).round().clamp(0, 255)
    exact = interpolate(wide, (9, 30), mode=mode).round().clamp(0, 255)
    got = interpolate(fa.tensor(whole), (9, 30), mode=mode)
    assert got.dtype is fa.uint8
    # Beside a half single precision may round otherwise.
    assert np.abs(got.numpy().astype(int) - exact.numpy()).max() <= 1


def test_refusals() -> None:
    x = fa.tensor(X)
    with pytest.raises(NotImplementedError, match=r"not implemented for facula\.int32"):
        interpolate(x.int(), (3, 3), mode="bilinear")
    with pytest.raises(ValueError, match="antialias is for the modes"):
        interpolate(x, (3, 3), antialias=True)
    with pytest.raises(ValueError, match="needs antialias=True"):
        interpolate(x, (3, 3), mode="lanczos")
