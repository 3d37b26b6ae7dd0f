"""`torch._dynamo` where nothing is compiled."""

from facula.as_torch.names.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    reset,
)

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "disable",
    "graph_break",
    "is_compiling",
    "list_backends",
    "reset",
]


def graph_break(msg: str = "") -> None:
    """Nothing: there is no graph to break."""
