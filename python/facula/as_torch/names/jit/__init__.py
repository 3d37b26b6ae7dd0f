"""What `torch.jit` has beside facula.jit: names that its own files share with packages."""

from __future__ import annotations

from typing import Any

from facula import _C
from facula.jit import script_if_tracing

__all__ = ["last_executed_optimized_graph", "run_frozen_optimizations"]

_script_if_tracing = script_if_tracing


def _overload_method(fn: Any) -> Any:
    """The method as it is: a call finds its types itself."""
    return fn


_overload = _overload_method


def _unwrap_optional(x: Any) -> Any:
    """The value, which is not None.

    Raises:
        AssertionError: it is None.
    """
    assert x is not None, "Unwrapping null optional"
    return x


def run_frozen_optimizations(mod: Any, optimize_numerics: bool = True, **options: Any) -> None:
    """Nothing is left to do: `freeze` does it."""


def last_executed_optimized_graph() -> Any:
    """Raises: graphs run as they are, none is made for a call."""
    file, line = _C._user_line()
    raise RuntimeError(
        f"last_executed_optimized_graph() ({file}:{line}): ask the module or function for its graph"
    )
