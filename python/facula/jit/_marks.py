"""Marks of functions for `script`, and functions that a script understands by themselves."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable
from typing import Any, Final

from facula.jit import _tracing, _types

__all__ = [
    "Attribute",
    "Final",
    "Future",
    "annotate",
    "export",
    "fork",
    "form",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "mark_of",
    "script_method",
    "unused",
    "wait",
]


def form(name: str) -> Callable[[Any], Any]:
    """A decorator: `script` has a form of its own for the function."""

    def mark(function: Any) -> Any:
        function.__jit_form__ = name
        return function

    return mark


def mark_of(function: Any) -> str:
    """The mark of a function: "ignore", "unused", "export", or ""."""
    found = getattr(function, "__jit_mark__", "")
    return found if builtins.isinstance(found, str) else ""


def _marked(function: Any, mark: str) -> Any:
    if builtins.isinstance(function, property):
        function.fget.__jit_mark__ = mark  # type: ignore[union-attr]
    else:
        function.__jit_mark__ = mark
    return function


def export(fn: Any) -> Any:
    """Let `script` compile this method of a module, which `forward` need not call."""
    return _marked(fn, "export")


def script_method(fn: Any) -> Any:
    """As `export`, of a method of a ScriptModule."""
    return _marked(fn, "export")


def ignore(drop: Any = False, **options: Any) -> Any:
    """Let a function or method stay Python: a script calls it as it is, and cannot be saved.

    Used plainly, or as `ignore(drop=True)`, which is `unused`.
    """
    if callable(drop):
        return _marked(drop, "ignore")
    if not builtins.isinstance(drop, bool):
        raise RuntimeError(f"Argument to @torch.jit.ignore must be a bool or a function: {drop}")
    dropped = drop or bool(options.get("drop_on_export"))
    return functools.partial(_marked, mark="unused" if dropped else "ignore")


def unused(fn: Any) -> Any:
    """Let a script raise where it calls this function or method, which is not compiled."""
    return _marked(fn, "unused")


def interface(obj: Any) -> Any:
    """The class as it is: calls of submodules are bound when a module is scripted."""
    return obj


@form("attribute")
def Attribute(value: Any, type: Any) -> Any:
    """The value, whose type is that of an attribute."""
    return value


@form("annotate")
def annotate(the_type: Any, the_value: Any) -> Any:
    """The value, of a type that a script would not find itself."""
    return the_value


@form("isinstance")
def isinstance(obj: Any, target_type: Any) -> bool:
    """Is it of a type, its items too? Also of `List[int]`, `Optional[Tensor]` and their like.

    >>> import facula
    >>> facula.jit.isinstance([1, 2], list[int]), facula.jit.isinstance([1, "a"], list[int])
    (True, False)
    """
    kinds = target_type if builtins.isinstance(target_type, tuple) else (target_type,)
    for kind in kinds:
        text = _types.text_of(kind)
        if text:
            if _types.matches(obj, text):
                return True
        elif builtins.isinstance(kind, type) and builtins.isinstance(obj, kind):
            return True
    return False


@form("true")
def is_scripting() -> bool:
    """True within a script, False in Python."""
    return False


@form("false")
def is_tracing() -> bool:
    """Is something traced in this thread?"""
    return _tracing.current() is not None


class Future:
    """The result of a function, or what it raised."""

    def __init__(self, value: Any = None) -> None:
        self._value = value
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Is the result there? Always."""
        return True

    def wait(self) -> Any:
        """The result; what the function raised is raised here."""
        if self._error is not None:
            raise self._error
        return self._value

    value = wait


@form("fork")
def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Call a function; `wait` gives its result. It runs at once, here: operators use all threads.

    In a script it is the call itself.
    """
    future = Future()
    try:
        future._value = func(*args, **kwargs)
    except Exception as error:
        future._error = error
    return future


@form("wait")
def wait(future: Future) -> Any:
    """The result of what `fork` called."""
    return future.wait()
