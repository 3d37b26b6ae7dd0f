"""Levels, which function transforms and batches of gradients open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import facula
from facula import _C

__all__ = ["batch_level", "drawn_into", "gradient_level", "unit_vectors"]

# `with batch_level(size, randomness) as number:` a level of a batch of `size` calls.
batch_level = _C._BatchLevel
# `with gradient_level() as number:` a level of gradients; with a number, that level once more.
gradient_level = _C._GradientLevel


def drawn_into(shape: Sequence[int], dtype: Any, device: Any) -> Any:
    """Memory to draw random numbers into: each row's own where rows of vmap draw different ones."""
    batches = []
    if _C._level_depth():
        batches = [
            (number, size)
            for number, kind, size, randomness, _ in reversed(_C._open_levels())
            if kind == "batch" and randomness == "different"
        ]
    sizes = [size for _, size in batches]
    memory = facula.empty((*sizes, *shape), dtype=dtype, device=device)
    for number, _ in batches:
        memory = _C._enter_level(memory, number, 0)
    return memory


def unit_vectors(tensors: Sequence[Any]) -> list[Any]:
    """For tensors of n elements in all: n unit vectors, as a tensor (n, *shape) for each."""
    counts = [t.numel() for t in tensors]
    total = sum(counts)
    chunks = []
    start = 0
    for t, count in zip(tensors, counts, strict=True):
        chunk = facula.zeros(total, count, dtype=t.dtype, device=t.device)
        chunk.diagonal(-start).fill_(1)
        chunks.append(chunk.view(total, *t.shape))
        start += count
    return chunks
