"""Results that fit where sums, products or factors on the way to them do not."""

from __future__ import annotations

import math
from typing import Any

import facula as fa
import numpy as np
import pytest

F = fa.nn.functional
SIZES = [1, 2, 3, 4, 7, 16, 17, 30, 101, 1009, 4096]  # powers of two, products, primes
NORMS = ["backward", "ortho", "forward"]


def halves(rng: np.random.Generator, shape: Any, dtype: Any) -> Any:
    return (rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape)).astype(dtype)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_transforms_of_large_numbers(dtype: Any, n: int, norm: str) -> None:
    """As of numbers that are smaller by a power of two, where the result fits."""
    down = 2.0 ** (120 if dtype is np.complex64 else 1000)
    x = halves(np.random.default_rng(n), (3, n), dtype)
    x[1] *= 1e-3
    big = x.copy()
    big[0] = (big[0] * dtype(down)) * dtype(2.0 ** (7 if dtype is np.complex64 else 23))
    big[0] /= max(1.0, np.abs(x[0]).max())
    scale = (big[0][0] / x[0][0]).real.astype(np.longdouble)
    limit = np.finfo(dtype).max
    tolerance = 60 * np.finfo(dtype).eps
    for function in ("fft", "ifft"):
        got = getattr(fa.fft, function)(fa.tensor(big), norm=norm).numpy()
        want = getattr(np.fft, function)(x.astype(np.complex128), norm=norm)
        np.testing.assert_allclose(
            got[1:], want[1:], rtol=0, atol=tolerance * np.abs(want[1:]).max()
        )
        exact = want[0].astype(np.clongdouble) * scale
        fits = np.maximum(np.abs(exact.real), np.abs(exact.imag)) < 0.99 * limit
        assert fits.any()
        near = (np.abs(got[0][fits] - exact[fits]) <= tolerance * np.abs(exact).max()).all()
        assert near, (function, got[0], exact)


def test_inverse_transforms_of_the_largest() -> None:
    for dtype, top in ((fa.complex64, 3e38), (fa.complex128, 1e308)):
        x = fa.full((4,), top, dtype=dtype)
        assert fa.fft.ifft(x).tolist() == pytest.approx([x[0].item(), 0, 0, 0])
        many = fa.stack([x, fa.arange(4).to(dtype)])
        alone = fa.fft.ifft(fa.arange(4).to(dtype))
        assert fa.equal(fa.fft.ifft(many)[1], alone)
        assert fa.fft.ifft2(fa.full((4, 6), top, dtype=dtype))[0, 0].item() == pytest.approx(
            top, rel=1e-6
        )
    real = fa.full((5,), 1e308, dtype=fa.float64)
    np.testing.assert_allclose(
        fa.fft.rfft(real, norm="forward").tolist(), [1e308, 0, 0], atol=1e293
    )
    half = fa.full((3,), 1e308, dtype=fa.complex128)
    np.testing.assert_allclose(fa.fft.irfft(half, n=4).tolist(), [1e308, 0, 0, 0], atol=1e293)
    np.testing.assert_allclose(
        fa.fft.hfft(half, n=4, norm="forward").tolist(), [1e308, 0, 0, 0], atol=1e293
    )
    strided = fa.full((4, 3), 1e308, dtype=fa.complex128).t()
    assert fa.fft.ifft(strided)[:, 0].tolist() == [1e308] * 3


def test_transforms_of_what_is_not_finite() -> None:
    x = fa.tensor([[1.0, math.inf, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0]], dtype=fa.float64)
    got = fa.fft.ifft(x.to(fa.complex128))
    assert not fa.isfinite(got[0]).any()
    np.testing.assert_allclose(got[1].tolist(), np.fft.ifft([1.0, 2.0, 3.0, 4.0]))


@pytest.mark.parametrize("name", ["float32", "float64", "complex64", "complex128"])
def test_determinants(name: str) -> None:
    """Factors that leave the range on the way, in any order."""
    dtype = getattr(fa, name)
    far = 1e30 if dtype in (fa.float32, fa.complex64) else 1e200
    for numbers in (
        [far, far, 1 / far, 1 / far],
        [1 / far, 1 / far, far, far],
        [far] * 9 + [1 / far] * 9,
    ):
        a = fa.diag(fa.tensor(numbers, dtype=dtype))
        assert fa.linalg.det(a).item() == pytest.approx(1, rel=1e-5)
        assert fa.linalg.det(a.flip(0)).item() == pytest.approx(
            (-1) ** (len(numbers) * (len(numbers) - 1) // 2), rel=1e-5
        )
    assert fa.linalg.det(fa.diag(fa.tensor([far, far], dtype=dtype))).abs().item() == math.inf
    assert fa.linalg.det(fa.diag(fa.tensor([1 / far, 1 / far], dtype=dtype))).item() == 0
    assert fa.linalg.det(fa.diag(fa.tensor([far, 0.0, far], dtype=dtype))).item() == 0
    assert fa.linalg.det(fa.zeros(0, 0, dtype=dtype)).item() == 1
    assert fa.isnan(fa.linalg.det(fa.tensor([[1.0, math.nan], [0.0, 1.0]], dtype=dtype)))


def test_gradient_of_a_determinant() -> None:
    numbers = [1e200, 1e200, 1e-200, 1e-200]
    a = fa.diag(fa.tensor(numbers, dtype=fa.float64)).requires_grad_()
    fa.linalg.det(a).backward()
    np.testing.assert_allclose(a.grad.diagonal().tolist(), [1 / v for v in numbers], rtol=1e-12)


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("large", [True, False])
def test_weights_of_normalisation(name: str, large: bool) -> None:
    """A weight at the end of the range and a narrow spread: only their product leaves it."""
    dtype = getattr(fa, name)
    far = 1e34 if name == "float32" else 1e304
    weight, spread = (far, 2.0**-20) if large else (1 / far, 2.0**20)
    x = fa.tensor([1.0, 1.0 + spread, 1.0 - spread, 1.0], dtype=dtype)
    want = np.array([0.0, 1.0, -1.0, 0.0]) * math.sqrt(2) * weight
    w = fa.full((1,), weight, dtype=dtype)
    calls = {
        "group": lambda: F.group_norm(x.reshape(1, 1, 4), 1, w, eps=0.0),
        "layer": lambda: F.layer_norm(x, (4,), w.expand(4).clone(), eps=0.0),
        "batch": lambda: F.batch_norm(x.reshape(4, 1), None, None, w, None, True, eps=0.0),
        "planes": lambda: F.batch_norm(x.reshape(1, 1, 4), None, None, w, None, True, eps=0.0),
        "given": lambda: F.batch_norm(
            x.reshape(4, 1),
            fa.ones(1, dtype=dtype),
            fa.full((1,), spread**2 / 2, dtype=dtype),
            w,
            eps=0.0,
        ),
    }
    for call, function in calls.items():
        got = function().reshape(-1).tolist()
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6 * weight, err_msg=call)


def test_huber_of_far_numbers() -> None:
    a, b = fa.tensor([3e38, 1.0, 0.0]), fa.tensor([-3e38, -1.0, 0.05])
    got = F.huber_loss(a, b, "none", 0.1)
    np.testing.assert_allclose(got.tolist(), [6e37, 0.195, 0.00125], rtol=1e-6)
    x = a.clone().requires_grad_()
    F.huber_loss(x, b, "sum", 0.1).backward()
    np.testing.assert_allclose(x.grad.tolist(), [0.1, 0.1, -0.05], rtol=1e-6)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_16_bit_results_are_rounded_once(name: str) -> None:
    """What products and sums of 16-bit numbers leave out on the way comes back in the result."""
    dtype = getattr(fa, name)
    x = fa.tensor([300.0, 300.0, 0.0], dtype=dtype), fa.tensor([300.0, 300.0, 1.0], dtype=dtype)
    assert fa.linalg.cross(*x).tolist() == [300, -300, 0]
    line = fa.tensor([200.0, 600.0, 1000.0, 600.0], dtype=dtype)
    rows = line.double().numpy()
    want = float(fa.tensor(np.cov(rows), dtype=fa.float64).to(dtype))
    assert fa.cov(line).item() == want
    y, at = fa.tensor([400.0, 400.0, 400.0], dtype=dtype), fa.tensor([0.0, 200.0, 1.0], dtype=dtype)
    assert fa.trapezoid(y, at).item() == 400
    ends = fa.tensor([5e4, 5e4, -5e4, -5e4], dtype=dtype)
    assert fa.trapezoid(ends).item() == 0
