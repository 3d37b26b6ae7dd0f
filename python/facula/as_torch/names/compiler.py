"""`torch.compiler` over `facula.compiler`: any Python can be captured, so most of it is a no-op."""

from __future__ import annotations

from typing import Any

from facula import compiler

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
    """`facula.compiler.disable`; what the function calls is part of it in any case."""
    return compiler.disable(fn)


def allow_in_graph(fn: Any) -> Any:
    """The function as it is."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """The function as it is."""
    return fn


def cudagraph_mark_step_begin() -> None:
    """Nothing: there are no graphs behind a program's back."""


def is_compiling() -> bool:
    """Never: programs ask in order to leave out what a graph cannot hold, and here it can."""
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
    """`facula.compiler.cache_clear`."""
    compiler.cache_clear()
