"""`torch._dynamo`, whose work is done without it: `facula.compile` captures calls of operators."""

from typing import Any

from facula.as_torch._refused import refused_class
from facula.as_torch.names.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    reset,
)

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "disable",
    "graph_break",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "reset",
]


OptimizedModule = refused_class("_dynamo.OptimizedModule")  # what `compile` never gives


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Nothing: addresses are no concern of a compiler."""


mark_dynamic = maybe_mark_dynamic = mark_static = mark_static_address


def graph_break(msg: str = "") -> None:
    """Nothing: there is no graph to break."""
