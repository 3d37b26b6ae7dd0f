"""`script`: functions and modules compiled from their Python source."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import linecache
import os
import textwrap
import typing
from collections.abc import Callable
from typing import Any

import facula
from facula import nn
from facula.jit import _compile, _marks, _tracing
from facula.jit._modules import (
    LibraryScriptModule,
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    as_script,
    class_of,
    holder_of,
    note_places,
)
from facula.jit._syntax import ScriptError
from facula.jit._units import Unit, is_library

__all__ = ["CompilationUnit", "script", "script_if_tracing"]

assert _compile  # which fills in what units compile
_numbers = itertools.count()


def _is_off() -> bool:
    return os.environ.get("PYTORCH_JIT") == "0"


def script(
    obj: Any,
    optimize: Any = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """A function or module compiled from its source, control flow included; also a decorator.

    The subset of Python: numbers, strings, tensors, tuples, lists and dicts of these, `if`, `for`,
    `while`, comprehensions, f-strings, `assert`, `raise`, `with no_grad()`, functions of facula, of
    `math` and of Python's own plain ones, and calls of other functions, which are compiled too.
    Of modules: parameters, buffers, plain attributes, submodules, `ModuleList` and `ModuleDict`
    (loops over them are unrolled), methods. Modules of facula.nn run as they are. What is known
    before it runs is decided then: `is_scripting()`, `hasattr(self, ...)`, `self.layer is None`.

    Args:
        obj: a function or a module. Classes, and what is scripted already, come back as they are.
        optimize, example_inputs: taken for torch's programs, and not used.

    Returns:
        A ScriptFunction, or a module with the parameters, buffers and plain attributes of `obj`.

    Raises:
        ScriptError: something is not in the subset. The line is shown, with what to write instead.

    >>> import facula
    >>> @facula.jit.script
    ... def clipped(x: facula.Tensor, most: float) -> facula.Tensor:
    ...     if bool(x.norm() > most):
    ...         x = x * (most / x.norm())
    ...     return x
    >>> clipped(facula.tensor([3.0, 4.0]), 1.0)  # doctest: +SKIP
    tensor([0.6000, 0.8000])
    """
    if _is_off() or isinstance(obj, (ScriptFunction, type)):
        return obj
    if isinstance(obj, LibraryScriptModule) or (isinstance(obj, ScriptModule) and obj._graphs):
        return obj
    if isinstance(obj, nn.Module):
        return _scripted(obj)
    if inspect.ismethod(obj) and isinstance(obj.__self__, nn.Module):
        raise RuntimeError(
            f"script(): {obj.__qualname__} is a method of a module: script the module, with the"
            " method marked by facula.jit.export"
        )
    if not callable(obj):
        raise TypeError(f"script() takes a function or a module, not {type(obj).__name__}")
    function = inspect.unwrap(obj)
    if not inspect.isfunction(function):
        raise TypeError(f"script(): {obj!r} has no source in Python; call it as it is")
    unit = Unit()
    made = ScriptFunction(unit.function(function, None, None), obj.__doc__)
    made.__module__ = obj.__module__
    return made


def _scripted(module: nn.Module) -> Any:
    unit = Unit()
    unit.scan(module)
    for found in list(_with_own_code(module)):
        context = unit.module(found)
        if context.graphs or context.is_library:
            continue
        for name in _exported(found):
            context.method(name, None, None, None)
    made: dict[int, Any] = {}

    def convert(old: nn.Module) -> Any:
        if id(old) in made:
            return made[id(old)]
        if _is_whole(old):
            return old
        context = unit.module(old)
        kind: Any = type(old)
        if not context.is_library:
            for graph in context.graphs.values():
                note_places(graph, [old])
            kind = class_of(
                RecursiveScriptModule, type(old).__name__, context.graphs, context.python
            )
        new = made[id(old)] = kind.__new__(kind)
        if context.is_library:
            new.__dict__.update(old.__dict__)
            new.__dict__["_modules"] = {
                n: None if m is None else convert(m) for n, m in old._modules.items()
            }
            return new
        return holder_of(old, new, lambda name, child: convert(child))

    found = convert(module)
    return found if isinstance(found, ScriptModule) else as_script(found)


def _is_whole(module: nn.Module) -> bool:
    """Are it and all below it facula's own, or scripted already?"""
    return all(
        is_library(m) or (isinstance(m, ScriptModule) and bool(m._graphs)) for m in module.modules()
    )


def _with_own_code(module: nn.Module) -> Any:
    for found in module.modules():
        if not (isinstance(found, ScriptModule) and found._graphs):
            yield found


def _exported(module: nn.Module) -> list[str]:
    """The methods to compile: `forward`, and those that are marked."""
    found = []
    for name in dir(type(module)):
        raw = inspect.getattr_static(type(module), name)
        if callable(raw) and _marks.mark_of(raw) == "export":
            found.append(name)
    own = module.__dict__.get("forward")
    forward = getattr(own, "__func__", None) or type(module).forward
    if forward is not nn.Module.forward and _marks.mark_of(forward) == "":
        found.insert(0, "forward")
    return list(dict.fromkeys(found))


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is scripted where it is called while tracing, and plain Python elsewhere."""
    made: list[Any] = []

    @functools.wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        if _tracing.current() is None or _is_off():
            return fn(*args, **kwargs)
        if not made:
            made.append(script(fn))
        return made[0](*args, **kwargs)

    called.__script_if_tracing_wrapper = True  # type: ignore[attr-defined]
    return called


class CompilationUnit:
    """Functions of a source text, scripted; each is an attribute.

    >>> import facula
    >>> unit = facula.jit.CompilationUnit("def twice(x):\\n    return x + x\\n")
    >>> unit.twice(facula.ones(2))
    tensor([2., 2.])
    """

    def __init__(self, lang: str | None = None, _frames_up: int = 0) -> None:
        self._functions: dict[str, ScriptFunction] = {}
        if lang is not None:
            self.define(lang)

    def define(self, lang: str, rcb: Any = None, _frames_up: int = 0) -> None:
        """Add the functions of a text.

        Raises:
            ScriptError: it is not in the subset, or has something else than functions.
        """
        text = textwrap.dedent(lang)
        file = f"<facula.jit.CompilationUnit {next(_numbers)}>"
        tree = ast.parse(text, file)
        if not all(isinstance(node, ast.FunctionDef) for node in tree.body):
            raise ScriptError("CompilationUnit: the text has something else than functions")
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        space: dict[str, Any] = {"torch": facula, "facula": facula, "Tensor": facula.Tensor}
        space.update({n: getattr(typing, n) for n in ("List", "Dict", "Tuple", "Optional", "Any")})
        exec(compile(text, file, "exec"), space)
        unit = Unit()
        for node in tree.body:
            name = node.name  # type: ignore[attr-defined]
            self._functions[name] = ScriptFunction(unit.function(space[name], None, None))

    def find_function(self, name: str) -> ScriptFunction | None:
        """A function, or None."""
        return self._functions.get(name)

    def get_functions(self) -> list[ScriptFunction]:
        """All functions."""
        return list(self._functions.values())

    def __getattr__(self, name: str) -> ScriptFunction:
        found = self.__dict__.get("_functions", {}).get(name)
        if found is None:
            raise AttributeError(f"'CompilationUnit' has no attribute '{name}'")
        return found
