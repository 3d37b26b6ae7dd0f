"""Windows of signals (Harris 1978, On the use of windows for harmonic analysis)."""

from __future__ import annotations

from typing import Any

import facula
from facula._errors import tell_all

__all__ = [
    "bartlett_window",
    "blackman_window",
    "hamming_window",
    "hann_window",
    "kaiser_window",
]


def _places(n: int, periodic: bool, who: str, options: dict[str, Any]) -> Any:
    """0..n-1, and by what to divide for 0..1; float64 until the end."""
    if n < 0:
        raise RuntimeError(f"{who}(): window_length must not be negative, but got {n}")
    dtype = options["dtype"] or facula.get_default_dtype()
    if not dtype.is_floating_point:
        raise RuntimeError(f"{who}(): expected a floating-point dtype, but got {dtype}")
    options["dtype"] = dtype
    at = facula.arange(n, dtype=facula.float64, device=options["device"])
    return at, max(n if periodic else n - 1, 1)


def _made(window: Any, options: dict[str, Any]) -> Any:
    window = facula.ones_like(window) if window.numel() == 1 else window
    return window.to(options["dtype"]).requires_grad_(options["requires_grad"])


def _options(dtype: Any, device: Any, requires_grad: bool) -> dict[str, Any]:
    return {"dtype": dtype, "device": device, "requires_grad": requires_grad}


def _cosines(n: int, periodic: bool, terms: Any, who: str, options: dict[str, Any]) -> Any:
    at, last = _places(n, periodic, who, options)
    window = facula.zeros_like(at)
    for k, term in enumerate(terms):
        window = window + (-1) ** k * term * facula.cos(at * (2 * facula.pi * k / last))
    return _made(window, options)


def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """(1 - cos(2 pi n / N)) / 2 for n = 0..window_length - 1.

    Args:
        window_length: how many values.
        periodic: N is window_length, as for Fourier transforms; else window_length - 1, so that
            the window is symmetric.
    """
    options = _options(dtype, device, requires_grad)
    return _cosines(window_length, periodic, (0.5, 0.5), "hann_window", options)


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """alpha - beta cos(2 pi n / N); see `hann_window`."""
    options = _options(dtype, device, requires_grad)
    return _cosines(window_length, periodic, (alpha, beta), "hamming_window", options)


def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N); see `hann_window`."""
    options = _options(dtype, device, requires_grad)
    return _cosines(window_length, periodic, (0.42, 0.5, 0.08), "blackman_window", options)


def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """1 - |2 n / N - 1|; see `hann_window`."""
    options = _options(dtype, device, requires_grad)
    at, last = _places(window_length, periodic, "bartlett_window", options)
    return _made(1 - (at * (2 / last) - 1).abs(), options)


def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """i0(beta sqrt(1 - (2 n / N - 1)^2)) / i0(beta); see `hann_window`."""
    options = _options(dtype, device, requires_grad)
    at, last = _places(window_length, periodic, "kaiser_window", options)
    inside = (1 - (at * (2 / last) - 1) ** 2).clamp(min=0).sqrt()
    whole = facula.special.i0(facula.tensor(beta, dtype=facula.float64, device=at.device))
    return _made(facula.special.i0(inside * beta) / whole, options)


tell_all(globals(), __all__)
