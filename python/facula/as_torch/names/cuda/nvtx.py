"""`torch.cuda.nvtx`: ranges for a profiler that is not there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = ["mark", "range", "range_pop", "range_push"]


def range_push(msg: str) -> int:
    """-1, as torch answers without NVTX."""
    return -1


def range_pop() -> int:
    """-1, as torch answers without NVTX."""
    return -1


def mark(msg: str) -> None:
    """Nothing."""


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Nothing."""
    yield
