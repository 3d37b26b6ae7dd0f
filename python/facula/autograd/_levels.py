"""Levels of batches, which `vmap` and batches of gradients open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import facula
from facula import _C


@contextmanager
def batch_level(size: int, randomness: str) -> Iterator[int]:
    """A level of a batch of `size` calls, whose number it gives."""
    opened = _C._push_batch_level(size, randomness)
    try:
        yield opened
    finally:
        _C._pop_level(opened)


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
