"""Levels, which function transforms and batches of gradients open."""

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


@contextmanager
def gradient_level(number: int | None = None) -> Iterator[int]:
    """A level of gradients, whose number it gives; with a number, that level once more."""
    opened = _C._push_gradient_level(number)
    try:
        yield opened
    finally:
        _C._pop_level(opened)
