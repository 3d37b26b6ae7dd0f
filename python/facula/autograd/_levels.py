"""Levels, which function transforms and batches of gradients open."""

from __future__ import annotations

from facula import _C

__all__ = ["batch_level", "gradient_level"]

# `with batch_level(size, randomness) as number:` a level of a batch of `size` calls.
batch_level = _C._BatchLevel
# `with gradient_level() as number:` a level of gradients; with a number, that level once more.
gradient_level = _C._GradientLevel
