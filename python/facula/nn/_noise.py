"""Functions that draw random numbers: dropout of whole channels, alpha dropout, Gumbel softmax."""

from __future__ import annotations

from typing import Any

import facula

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


def _kept(input: Any, p: float, scale: float, shape: list[int]) -> tuple[Any, Any]:
    """input * scale, zero with probability p whatever the input; and what was kept."""
    keep = facula.empty(shape, dtype=facula.bool, device=input.device).bernoulli_(1.0 - p)
    return facula._C._ops.dropout_backward(input, keep, scale), keep


def _channels(input: Any, p: float, training: bool, inplace: bool, name: str, space: int) -> Any:
    check_probability(p, f"{name}()")
    if input.dim() not in (space + 1, space + 2):
        raise RuntimeError(
            f"{name}(): input is {tuple(input.shape)}, expected (N, C, ...) or (C, ...) "
            f"with {space} dims after C"
        )
    if not training or p == 0.0:
        return input
    kept = [*input.shape[: input.dim() - space], *([1] * space)]
    out = _kept(input, p, 1.0 / (1.0 - p) if p < 1.0 else 0.0, kept)[0]
    return input.copy_(out) if inplace else out


def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zero whole channels of (N, C, L) or (C, L) with probability p (Tompson et al. 2015)."""
    return _channels(input, p, training, inplace, "dropout1d", 1)


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zero whole channels of (N, C, H, W) or (C, H, W) with probability p."""
    return _channels(input, p, training, inplace, "dropout2d", 2)


def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Zero whole channels of (N, C, D, H, W) or (C, D, H, W) with probability p."""
    return _channels(input, p, training, inplace, "dropout3d", 3)


# Negative saturation value of selu: -scale * alpha (Klambauer et al. 2017).
_ALPHA = -1.7580993408473766


def _alpha(input: Any, p: float, training: bool, inplace: bool, shape: list[int], name: str) -> Any:
    check_probability(p, f"{name}()")
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return input.zero_() if inplace else facula.dropout(input, 1.0)
    # Scale and shift give back zero mean and unit variance.
    a = ((_ALPHA * _ALPHA * p + 1) * (1 - p)) ** -0.5
    b = -a * _ALPHA * p
    scaled, keep = _kept(input, p, a, shape)
    out = scaled.add_((keep.to(input.dtype) - 1).mul_(-_ALPHA * a).add_(b))
    return input.copy_(out) if inplace else out


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
    noise = -facula.empty_like(logits).exponential_().log()
    soft = facula.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = facula.zeros_like(logits).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft
