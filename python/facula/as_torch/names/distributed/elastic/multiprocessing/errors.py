"""What the launcher raises, and torch's mark for functions whose errors it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from facula.distributed._processes import Failure as ChildFailedError

__all__ = ["ChildFailedError", "record"]

F = TypeVar("F", bound=Callable[..., Any])


def record(fn: F, error_handler: Any = None) -> F:
    """The function itself: its traceback is in the log of its process."""
    return fn
