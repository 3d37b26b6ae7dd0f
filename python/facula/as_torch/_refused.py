"""Names of torch that exist so that programs can import them, and raise when they are used."""

from __future__ import annotations

import functools
import os
from types import ModuleType
from typing import Any

__all__ = [
    "is_refused",
    "refused_class",
    "refused_function",
    "refused_module",
    "refused_names",
]


def _raise(path: str) -> Any:
    raise RuntimeError(f"torch.{path}: facula has no such thing yet; it can be imported, not used")


def refused_function(path: str) -> Any:
    """A function that raises RuntimeError."""

    def function(*args: Any, **kwargs: Any) -> Any:
        _raise(path)

    function.__name__ = function.__qualname__ = path.rpartition(".")[2]
    function.__doc__ = f"Raises RuntimeError: facula has no torch.{path} yet."
    function._is_refused = True  # type: ignore[attr-defined]
    return function


class RefusedMember:
    """A member of a refused class, as defaults and tables name it; calling it raises."""

    _is_refused = True

    def __init__(self, path: str) -> None:
        self._path = path

    def __repr__(self) -> str:
        return "torch." + self._path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RefusedMember) and other._path == self._path

    def __hash__(self) -> int:
        return hash(self._path)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        _raise(self._path)


class _Refused(type):
    _path: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls.__dict__.get("_path") is None:  # a class that a program derives, as it may
            return super().__call__(*args, **kwargs)
        _raise(cls._path)

    def __getattr__(cls, name: str) -> Any:
        if name[:1] == "_" or "_path" not in cls.__dict__:
            raise AttributeError(name)
        return RefusedMember(f"{cls._path}.{name}")


def refused_class(path: str) -> Any:
    """A class without instances: for annotations and `isinstance`."""
    name = path.rpartition(".")[2]
    space = {"_path": path, "_is_refused": True, "__module__": "torch." + path.rpartition(".")[0]}
    return _Refused(name, (), space)


@functools.cache
def refused_names() -> dict[str, list[str]]:
    """By namespace, the names of refused.txt."""
    file = os.path.join(os.path.dirname(os.path.abspath(__file__)), "refused.txt")
    found = {}
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            path, _, names = line.partition("#")[0].partition(":")
            if path.strip():
                found[path.strip()] = names.split()
    return found


@functools.cache
def refused_module(path: str) -> ModuleType:
    """A module of the names that refused.txt has for a namespace."""
    module = ModuleType("facula.as_torch.names." + path)
    for name in refused_names()[path]:
        make = refused_class if name.lstrip("_")[:1].isupper() else refused_function
        setattr(module, name, make(f"{path}.{name}"))
    return module


def is_refused(obj: Any) -> bool:
    """Is it one of these?"""
    return getattr(obj, "_is_refused", False) is True
