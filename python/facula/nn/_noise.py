"""Functions that draw random numbers: dropout of whole channels, alpha dropout, Gumbel softmax."""

from __future__ import annotations

import warnings
from typing import Any

import facula
from facula.autograd._levels import drawn_into

__all__ = [
    "alpha_dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
    "gumbel_softmax",
]


def check_probability(p: float, who: str) -> None:
    """Raise what the operators raise of a probability."""
    try:
        inside = 0.0 <= p <= 1.0
    except TypeError:
        raise TypeError(f"{who}: argument 'p' must be a float, not {type(p).__name__}") from None
    if not inside:
        raise ValueError(f"{who}: p must be in [0, 1], not {p}")


def _draw_kept(input: Any, shape: list[int], p: float) -> Any:
    """Which elements stay, in a shape that broadcasts to the input's: 1 - p of them."""
    return drawn_into(shape, input.dtype, input.device).bernoulli_(1.0 - p) != 0


def _channels(input: Any, p: float, inplace: bool, batched: bool) -> Any:
    """Zero whole channels: of dim 1 in a batch, else of dim 0."""
    led = 2 if batched else 1
    kept = _draw_kept(input, [*input.shape[:led], *([1] * (input.dim() - led))], p)
    scale = 1.0 / (1.0 - p) if p < 1.0 else 0.0
    # A choice, not a product: what is dropped is 0 also where it was infinite.
    if inplace:
        return input.mul_(scale).masked_fill_(~kept, 0)
    return facula.where(kept, input * scale, 0)


def _warn_unusual(input: Any, name: str, space: int) -> None:
    warnings.warn(
        f"{name}(): input is {tuple(input.shape)}, but channels with {space} dims are expected: "
        f"(N, C, ...) or (C, ...), {space + 2} or {space + 1} dims in all",
        stacklevel=3,
    )


def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zero whole channels of (N, C, L) or (C, L) with probability p (Tompson et al. 2015).

    Raises:
        RuntimeError: input has another number of dims.
    """
    check_probability(p, "dropout1d()")
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"dropout1d(): input is {tuple(input.shape)}, expected (N, C, L) or (C, L); "
            "for single elements use dropout()"
        )
    return _channels(input, p, inplace, input.dim() == 3) if training and p > 0 else input


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zero whole channels of (N, C, H, W) with probability p.

    As in torch, the first two dims are always N and C: of (N, C, L) channels are zeroed, of (N, C)
    single elements; other than 3 or 4 dims warn.

    Raises:
        RuntimeError: input has less than 2 dims.
    """
    check_probability(p, "dropout2d()")
    if input.dim() < 2:
        raise RuntimeError(
            f"dropout2d(): input is {tuple(input.shape)}, expected (N, C, H, W); "
            "for single elements use dropout()"
        )
    if input.dim() not in (3, 4):
        _warn_unusual(input, "dropout2d", 2)
    return _channels(input, p, inplace, True) if training and p > 0 else input


def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zero whole channels of (N, C, D, H, W), or of (C, D, H, W), with probability p.

    As in torch, all but 5 dims are taken as (C, ...); other than 4 or 5 dims warn.

    Raises:
        RuntimeError: input is 0-d.
    """
    check_probability(p, "dropout3d()")
    if input.dim() < 1:
        raise RuntimeError("dropout3d(): input is 0-d, expected (N, C, D, H, W) or (C, D, H, W)")
    if input.dim() not in (4, 5):
        _warn_unusual(input, "dropout3d", 3)
    return _channels(input, p, inplace, input.dim() == 5) if training and p > 0 else input


# Negative saturation value of selu: -scale * alpha (Klambauer et al. 2017).
_ALPHA = -1.7580993408473766


def _alpha(input: Any, p: float, training: bool, inplace: bool, shape: list[int], name: str) -> Any:
    check_probability(p, f"{name}()")
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return input.zero_() if inplace else facula.dropout(input, 1.0)
    kept = _draw_kept(input, shape, p)
    # Scale and shift give back zero mean and unit variance.
    a = ((_ALPHA * _ALPHA * p + 1) * (1 - p)) ** -0.5
    b = -a * _ALPHA * p
    if inplace:
        return input.masked_fill_(~kept, _ALPHA).mul_(a).add_(b)
    return facula.where(kept, input, _ALPHA) * a + b


def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """Dropout that keeps mean and variance of selu's outputs (Klambauer et al. 2017)."""
    return _alpha(input, p, training, inplace, list(input.shape), "alpha_dropout")


def feature_alpha_dropout(
    input: Any, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Any:
    """Alpha dropout of whole channels of (N, C, ...)."""
    shape = [*input.shape[:2], *([1] * (input.dim() - 2))]
    return _alpha(input, p, training, inplace, shape, "feature_alpha_dropout")


def gumbel_softmax(
    logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Any:
    """Sample from the Gumbel-softmax distribution (Jang et al. 2017).

    With `hard` the result is one-hot, with the gradient of the soft sample.
    """
    noise = -drawn_into(logits.shape, logits.dtype, logits.device).exponential_().log()
    soft = facula.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = facula.zeros_like(logits).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft
