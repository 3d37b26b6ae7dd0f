"""Levels of batches, which `vmap` and batches of gradients open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from facula import _C


@contextmanager
def batch_level(size: int, randomness: str) -> Iterator[int]:
    """A level of a batch of `size` calls, whose number it gives."""
    opened = _C._push_batch_level(size, randomness)
    try:
        yield opened
    finally:
        _C._pop_level(opened)
