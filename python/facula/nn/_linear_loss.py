"""Cross entropy of scores that an affine map gives."""

from __future__ import annotations

from typing import Any

from facula import _C

__all__ = ["linear_cross_entropy"]


def linear_cross_entropy(
    input: Any,
    linear_weight: Any,
    target: Any,
    *,
    linear_bias: Any = None,
    weight: Any = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Any:
    """`cross_entropy(linear(input, linear_weight, linear_bias), target, ...)`.

    Args:
        input: (N, in_features) or (in_features,).
        linear_weight: (C, in_features), or (C, d_1, ..., d_K, in_features) for scores
            (N, C, d_1, ..., d_K).
        target: class indices, or probabilities.
        linear_bias: of linear_weight's shape without its last dim.
        ignore_index: a class that does not count; with indices alone. None is -100 for them.
        options: how to cut the batch into parts, which changes the memory it takes, not the result:
            all scores are computed at once here.
    """
    if input.dim() not in (1, 2):
        raise ValueError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    sizes = tuple(linear_weight.shape[:-1])
    flat = linear_weight.reshape(-1, linear_weight.shape[-1])
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    scores = _C._nn_functional.linear(input, flat, bias).reshape(*input.shape[:-1], *sizes)
    if target.is_floating_point() and ignore_index is not None:
        raise ValueError("ignore_index cannot be specified when target contains probabilities")
    return _C._nn_functional.cross_entropy(
        scores,
        target,
        weight=weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
