"""Functions on sizes that a compiler may not know yet; here they are Python's numbers."""

from __future__ import annotations

import builtins
import math
from typing import Any

from facula.as_torch._refused import refused_class

__all__ = [
    "SymBool",
    "SymFloat",
    "SymInt",
    "sym_float",
    "sym_fresh_size",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sqrt",
    "sym_sum",
]

# For `isinstance`; nothing is one.
SymInt = refused_class("SymInt")
SymFloat = refused_class("SymFloat")
SymBool = refused_class("SymBool")


def sym_int(a: Any) -> int:
    """The number without its fraction."""
    return math.trunc(a)


def sym_float(a: Any) -> float:
    """The number as a float."""
    return builtins.float(a)


def sym_max(a: Any, b: Any) -> Any:
    """The larger one."""
    return builtins.max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller one."""
    return builtins.min(a, b)


def sym_not(a: Any) -> bool:
    """`not a`."""
    return not a


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """`t if b else f`."""
    return t if b else f


def sym_sum(args: Any) -> Any:
    """The sum of several."""
    return builtins.sum(args)


def sym_sqrt(a: Any) -> float:
    """The square root."""
    return math.sqrt(a)


def sym_fresh_size(expr: Any) -> Any:
    """The number itself."""
    return expr
