"""Batch normalisation in steps, as processes that share a batch take them.

Each part of the batch gives its mean and 1 / sqrt(variance + eps); those of all parts are gathered,
and the result, and the gradient, follow from the gathered ones. Channels are dim 1.
"""

from __future__ import annotations

from typing import Any

import facula
from facula._errors import tell_all

__all__ = [
    "batch_norm_backward_elemt",
    "batch_norm_backward_reduce",
    "batch_norm_elemt",
    "batch_norm_gather_stats",
    "batch_norm_gather_stats_with_counts",
    "batch_norm_stats",
    "batch_norm_update_stats",
]


def _dims(input: Any, caller: str) -> list[int]:
    if input.dim() < 2:
        raise RuntimeError(f"{caller}(): input is {tuple(input.shape)}, expected (N, C, ...)")
    return [d for d in range(input.dim()) if d != 1]


def _by_channel(values: Any, input: Any) -> Any:
    return values.view(1, -1, *[1] * (input.dim() - 2))


def _wide(t: Any) -> Any:
    return t.float() if t.dtype in (facula.float16, facula.bfloat16) else t


def _moments(input: Any, caller: str) -> tuple[Any, Any]:
    dims = _dims(input, caller)
    wide = _wide(input)
    mean = wide.mean(dims)
    return mean, (wide - _by_channel(mean, input)).square().mean(dims)


def batch_norm_stats(input: Any, eps: float) -> tuple[Any, Any]:
    """Mean and 1 / sqrt(variance + eps) of each channel of (N, C, ...), in float32 of halves."""
    mean, var = _moments(input, "batch_norm_stats")
    return mean, (var + eps).rsqrt()


def batch_norm_update_stats(
    input: Any, running_mean: Any, running_var: Any, momentum: float
) -> tuple[Any, Any]:
    """Mean and variance of each channel; the running ones, if given, move towards them."""
    mean, var = _moments(input, "batch_norm_update_stats")
    _move(mean, var, running_mean, running_var, momentum, input.numel() // input.size(1))
    return mean, var


def _move(mean: Any, var: Any, running_mean: Any, running_var: Any, by: float, n: Any) -> None:
    with facula.no_grad():
        if running_mean is not None:
            running_mean.mul_(1 - by).add_(mean.to(running_mean.dtype), alpha=by)
        if running_var is not None:
            unbiased = var * (n / (n - 1))
            running_var.mul_(1 - by).add_(unbiased.to(running_var.dtype), alpha=by)


def batch_norm_elemt(input: Any, weight: Any, bias: Any, mean: Any, invstd: Any, eps: float) -> Any:
    """(input - mean) * invstd * weight + bias by channel; `eps` is in `invstd`."""
    _dims(input, "batch_norm_elemt")
    scale = invstd if weight is None else invstd * weight
    out = (_wide(input) - _by_channel(mean, input)) * _by_channel(scale, input)
    if bias is not None:
        out = out + _by_channel(bias, input)
    return out.to(input.dtype)


def batch_norm_gather_stats(
    input: Any,
    mean: Any,
    invstd: Any,
    running_mean: Any,
    running_var: Any,
    momentum: float,
    eps: float,
    count: int,
) -> tuple[Any, Any]:
    """The whole batch's mean and 1 / sqrt(variance + eps), of parts of `count` elements each."""
    counts = facula.full((mean.size(0),), count, dtype=mean.dtype, device=mean.device)
    return batch_norm_gather_stats_with_counts(
        input, mean, invstd, running_mean, running_var, momentum, eps, counts
    )


def batch_norm_gather_stats_with_counts(
    input: Any,
    mean: Any,
    invstd: Any,
    running_mean: Any,
    running_var: Any,
    momentum: float,
    eps: float,
    counts: Any,
) -> tuple[Any, Any]:
    """The whole batch's mean and 1 / sqrt(variance + eps) by channel, of its parts'.

    Args:
        input: a part, (N, C, ...); its dtype alone matters.
        mean: (parts, C).
        invstd: (parts, C).
        running_mean: (C,), or None; moves towards the mean by `momentum`.
        running_var: (C,), or None; moves towards the variance that divides by n - 1.
        counts: (parts,) elements of a channel in each part.
    """
    if mean.dim() != 2 or mean.shape != invstd.shape or counts.numel() != mean.size(0):
        raise RuntimeError(
            f"batch_norm_gather_stats(): mean is {tuple(mean.shape)}, invstd "
            f"{tuple(invstd.shape)}, counts {tuple(counts.shape)}; expected (parts, C) twice and "
            f"(parts,)"
        )
    weights = counts.to(mean.dtype).view(-1, 1)
    total = weights.sum()
    whole = (weights * mean).sum(0) / total
    parts = invstd.square().reciprocal() - eps
    var = (weights * (parts + (mean - whole).square())).sum(0) / total
    _move(whole, var, running_mean, running_var, momentum, total)
    return whole, (var + eps).rsqrt()


def batch_norm_backward_reduce(
    grad_out: Any,
    input: Any,
    mean: Any,
    invstd: Any,
    weight: Any,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[Any, Any, Any, Any]:
    """Sums by channel that gradients need: of grad, of grad * (input - mean), and the gradients of
    weight and bias; None where they are not asked for."""
    dims = _dims(input, "batch_norm_backward_reduce")
    grad = _wide(grad_out)
    sum_dy = grad.sum(dims)
    sum_dy_xmu = (grad * (_wide(input) - _by_channel(mean, input))).sum(dims)
    return (
        sum_dy if input_g else None,
        sum_dy_xmu if input_g else None,
        (sum_dy_xmu * invstd) if weight_g else None,
        sum_dy if bias_g else None,
    )


def batch_norm_backward_elemt(
    grad_out: Any,
    input: Any,
    mean: Any,
    invstd: Any,
    weight: Any,
    sum_dy: Any,
    sum_dy_xmu: Any,
    count: Any,
) -> Any:
    """The gradient of a part's input, of the sums over all parts and the counts of all parts."""
    _dims(input, "batch_norm_backward_elemt")
    total = count.sum() if isinstance(count, facula.Tensor) else count
    scale = invstd if weight is None else invstd * weight
    slope = _by_channel(invstd.square() * sum_dy_xmu / total, input)
    centred = _wide(input) - _by_channel(mean, input)
    grad = _wide(grad_out) - _by_channel(sum_dy / total, input) - centred * slope
    return (grad * _by_channel(scale, input)).to(input.dtype)


tell_all(globals(), __all__)
