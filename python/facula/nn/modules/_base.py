"""Small things that the layers share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["ntuple"]


def ntuple(value: Any, n: int) -> tuple[Any, ...]:
    """`value` itself as a tuple if it is iterable, else repeated `n` times."""
    return tuple(value) if isinstance(value, Iterable) else (value,) * n
