"""Sizes of results that Python code computes, checked before tables for them are made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import facula

__all__ = ["check_features", "check_size", "empty_result"]

_LARGE = 1 << 20  # elements; below that tables need little memory


def check_size(name: str, shape: Sequence[int], like: Any) -> None:
    """Raise where no tensor of this shape, with the dtype and device of `like`, can be."""
    if min(shape, default=0) < 0 or math.prod(max(n, 1) for n in shape) >= 1 << 62:
        raise ValueError(
            f"{name}(): the result would be {tuple(shape)}; sizes must not be negative, and a "
            "tensor has fewer than 2 ** 62 elements"
        )
    if math.prod(shape) > _LARGE:
        facula.empty(shape, dtype=like.dtype, device=like.device)  # or it raises


def check_features(layer: str, **sizes: int) -> None:
    """Raise where a layer's sizes are negative, or so large that a few of them have no sum."""
    for name, size in sizes.items():
        if not 0 <= size < 1 << 58:
            raise ValueError(f"{layer}: {name} must be from 0 to 2 ** 58 - 1, got {size}")


def empty_result(input: Any, shape: Sequence[int]) -> Any:
    """A result without elements; its gradient still leads to `input`."""
    return facula.empty(shape, dtype=input.dtype, device=input.device) + input.sum()
