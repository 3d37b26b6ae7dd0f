"""What an expression of a program is while it is compiled: known now, or computed when it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Bound", "Known", "MethodAt", "ModuleAt", "Row", "Runtime", "SuperOf", "Value"]


class Value:
    """One of the classes below."""


@dataclass
class Runtime(Value):
    """An atom, with its type as far as known."""

    atom: Any
    type: str = ""


@dataclass
class Known(Value):
    """A Python object: a constant, a function, a class, a module of Python."""

    value: Any


@dataclass
class Row(Value):
    """Several values in a row, some of which exist while compiling alone: submodules.

    `fields` are the names of a named tuple's, `name` that of its class.
    """

    items: list[Value]
    fields: tuple[str, ...] = ()
    name: str = ""


@dataclass
class ModuleAt(Value):
    """A submodule, by its path from the module whose method is compiled."""

    path: tuple[str, ...]
    module: Any


@dataclass
class MethodAt(Value):
    """A method of a submodule."""

    owner: ModuleAt
    name: str
    function: Any = None  # that of a base class, where it is not the module's own


@dataclass
class SuperOf(Value):
    """`super()` in a method of a class."""

    owner: ModuleAt
    kind: type


@dataclass
class Bound(Value):
    """A method of a value."""

    owner: Runtime
    name: str
