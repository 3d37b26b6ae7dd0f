"""Windows of signals (Harris 1978, On the use of windows for harmonic analysis).

Each takes `M`, how many values; with `sym` the window is symmetric, else it is one period of M + 1
values, as Fourier transforms want it. `dtype` is a floating-point dtype, by default the default
dtype.

>>> fa.signal.windows.hann(5)
tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import facula
from facula._errors import tell_all

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _window(
    name: str,
    M: int,
    sym: bool,
    dtype: Any,
    layout: Any,
    device: Any,
    requires_grad: bool,
    formula: Callable[[Any, float], Any],
) -> Any:
    """formula(places 0 to M - 1, where the last value of a whole period lies), in float64."""
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    dtype = facula.get_default_dtype() if dtype is None else dtype
    if not dtype.is_floating_point:
        raise ValueError(f"{name} expects a floating-point dtype, got {dtype}")
    if layout not in (None, facula.strided):
        raise ValueError(f"{name} is implemented for strided tensors only, got {layout}")
    at = facula.arange(M, dtype=facula.float64, device=device)
    last = float(M if not sym and M > 1 else M - 1)
    window = formula(at, last)
    return window.to(dtype).requires_grad_(requires_grad)


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """1 - |2 n / N - 1|, a triangle."""

    def formula(at: Any, last: float) -> Any:
        return 1 - (at * (2 / last) - 1).abs() if last > 0 else facula.ones_like(at)

    return _window("Bartlett", M, sym, dtype, layout, device, requires_grad, formula)


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """sin(pi (n + 1/2) / (N + 1)), half a wave."""

    def formula(at: Any, last: float) -> Any:
        return ((at + 0.5) * (facula.pi / max(last + 1, 1))).sin()

    return _window("Cosine", M, sym, dtype, layout, device, requires_grad, formula)


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """exp(-|n - center| / tau).

    Raises:
        ValueError: `tau` is not positive, or there is a `center` and `sym`.
    """
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")

    def formula(at: Any, last: float) -> Any:
        middle = last / 2 if center is None else center
        return (-(at - middle).abs() / tau).exp()

    return _window("Exponential", M, sym, dtype, layout, device, requires_grad, formula)


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """exp(-(n - N / 2)^2 / (2 std^2)).

    Raises:
        ValueError: `std` is not positive.
    """
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")

    def formula(at: Any, last: float) -> Any:
        return (-0.5 * ((at - last / 2) / std) ** 2).exp()

    return _window("Gaussian", M, sym, dtype, layout, device, requires_grad, formula)


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """i0(beta sqrt(1 - (2 n / N - 1)^2)) / i0(beta).

    Raises:
        ValueError: `beta` is negative.
    """
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def formula(at: Any, last: float) -> Any:
        if last <= 0:
            return facula.ones_like(at)
        inside = (1 - (at * (2 / last) - 1) ** 2).clamp(min=0).sqrt()
        whole = facula.special.i0e(facula.tensor(beta, dtype=facula.float64, device=at.device))
        return facula.special.i0e(inside * beta) / whole * ((inside - 1) * beta).exp()

    return _window("Kaiser", M, sym, dtype, layout, device, requires_grad, formula)


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """The sum of (-1)^k a[k] cos(2 pi k n / N).

    Raises:
        TypeError: `a` is not iterable.
        ValueError: `a` is empty.
    """
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    terms = list(a)
    if not terms:
        raise ValueError("Coefficients cannot be empty")

    def formula(at: Any, last: float) -> Any:
        if last <= 0:
            return facula.ones_like(at)
        window = facula.zeros_like(at)
        for k, term in enumerate(terms):
            window = window + (-1) ** k * term * (at * (2 * facula.pi * k / last)).cos()
        return window

    return _window("General cosine", M, sym, dtype, layout, device, requires_grad, formula)


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """alpha - (1 - alpha) cos(2 pi n / N)."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return general_cosine(M, a=[alpha, 1 - alpha], sym=sym, **options)


def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """0.54 - 0.46 cos(2 pi n / N)."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return general_cosine(M, a=[0.54, 0.46], sym=sym, **options)


def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """(1 - cos(2 pi n / N)) / 2."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return general_cosine(M, a=[0.5, 0.5], sym=sym, **options)


def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N)."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **options)


def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """Nuttall's window of four terms and least side lobes (Nuttall 1981)."""
    options = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **options)


tell_all(globals(), __all__)
