"""`torch.compiler` where nothing is compiled: its decorators leave functions as they are."""

from __future__ import annotations

from typing import Any

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
]


def disable(fn: Any = None, recursive: bool = True, **options: Any) -> Any:
    """The function as it is, or a decorator that leaves it so."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """The function as it is."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """The function as it is."""
    return fn


def cudagraph_mark_step_begin() -> None:
    """Nothing: there are no graphs behind a program's back."""


def is_compiling() -> bool:
    """Never."""
    return False


def is_dynamo_compiling() -> bool:
    """Never."""
    return False


def is_exporting() -> bool:
    """Never."""
    return False


def list_backends(exclude_tags: Any = None) -> list[str]:
    """None."""
    return []


def reset() -> None:
    """Nothing to forget."""
