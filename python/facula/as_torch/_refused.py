"""Names of torch that exist so that programs can import them, and raise when they are used."""

from __future__ import annotations

from typing import Any

__all__ = ["is_refused", "refused_class", "refused_function"]


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


class _Refused(type):
    _path: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        _raise(cls._path)


def refused_class(path: str) -> Any:
    """A class without instances: for annotations and `isinstance`."""
    name = path.rpartition(".")[2]
    space = {"_path": path, "_is_refused": True, "__module__": "torch." + path.rpartition(".")[0]}
    return _Refused(name, (), space)


def is_refused(obj: Any) -> bool:
    """Is it one of these?"""
    return getattr(obj, "_is_refused", False) is True
