"""Levels, which function transforms and batches of gradients open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import facula
from facula import _C

__all__ = ["batch_level", "gradient_level", "unit_vectors"]

# `with batch_level(size, randomness) as number:` a level of a batch of `size` calls.
batch_level = _C._BatchLevel
# `with gradient_level() as number:` a level of gradients; with a number, that level once more.
gradient_level = _C._GradientLevel


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
