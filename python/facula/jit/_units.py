"""What is compiled together: functions, each once, and the methods of modules."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from facula import nn
from facula.jit._graph import Graph
from facula.jit._modules import ScriptModule
from facula.jit._syntax import ScriptError, Source
from facula.jit._values import ModuleAt

__all__ = ["Context", "Unit", "is_library"]


#: (unit, source, graph, owner): fills in a graph; `_compile`'s, which stands above.
compile_function: list[Callable[[Any, Source, Graph, ModuleAt | None], None]] = []


def is_library(module: nn.Module) -> bool:
    """Is it a module of facula itself, which runs as it is and which files name by its class?"""
    kind = getattr(type(module), "_kind", None) or type(module)
    public = getattr(nn, kind.__name__, None) is kind or kind.__module__.startswith(
        "facula.nn.modules."
    )
    return public and "forward" not in module.__dict__ and kind.__module__.startswith("facula.nn.")


class Unit:
    """What is compiled together: functions, each once, and methods of modules."""

    def __init__(self) -> None:
        self.functions: dict[int, Graph] = {}
        self.modules: dict[int, Context] = {}
        self.kept: list[Any] = []
        self.changing: set[str] = set()  # names of attributes that some method sets

    def scan(self, root: nn.Module) -> None:
        """Note which attributes the methods of a module and of those below it set."""
        for kind in {k for m in root.modules() for k in type(m).__mro__}:
            if not kind.__module__.startswith(("facula.", "builtins")):
                self.changing |= _set_names(kind)

    def function(self, function: Any, source: Source | None, node: Any) -> Graph:
        """The graph of a function, compiled at its first use; it may call itself."""
        known = self.functions.get(id(function))
        if known is None:
            made = Source(function)
            known = self.functions[id(function)] = Graph(function.__name__, [])
            self.kept.append(function)
            with _noted(source, node):
                compile_function[0](self, made, known, None)
        return known

    def module(self, module: nn.Module) -> Context:
        """What is known of a module."""
        found = self.modules.get(id(module))
        if found is None:
            found = self.modules[id(module)] = Context(self, module)
        return found

    def add(self, caller: Graph, graph: Graph) -> str:
        """The name by which one graph calls another."""
        name = graph.name
        while name in caller.functions and caller.functions[name] is not graph:
            name += "_"
        caller.functions[name] = graph
        return name

    def add_python(self, caller: Graph, function: Any) -> str:
        """The name by which a graph calls a function that stays Python."""
        graph = Graph(function.__name__, [], compiled=function)
        graph.is_python = True  # type: ignore[attr-defined]
        known = self.functions.setdefault(id(function), graph)
        self.kept.append(function)
        return self.add(caller, known)

    def class_of(self, function: Any, owner: ModuleAt | None) -> type | None:
        """The class whose method a function is, for super()."""
        if owner is None:
            return None
        for kind in type(owner.module).__mro__:
            for value in vars(kind).values():
                raw = getattr(value, "__func__", getattr(value, "fget", value))
                if raw is function or inspect.unwrap(raw) is function if callable(raw) else False:
                    return kind
        return None


@contextlib.contextmanager
def _noted(source: Source | None, node: Any) -> Iterator[None]:
    """Errors within tell where the call stands."""
    try:
        yield
    except ScriptError as error:
        if source is not None:
            raise ScriptError(
                f"{error}\n  called from {source.file}:{source.first + node.lineno - 1}, in"
                f" {source.name}"
            ) from None
        raise


@functools.cache
def _set_names(kind: type) -> frozenset[str]:
    """Attributes that the methods of a class set, but for `__init__`."""
    found: set[str] = set()
    for name, value in vars(kind).items():
        function = inspect.unwrap(value) if callable(value) else getattr(value, "fget", None)
        if name == "__init__" or not inspect.isfunction(function):
            continue
        with contextlib.suppress(OSError, SyntaxError):
            tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
            nodes = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute)]
            found |= {n.attr for n in nodes if isinstance(n.ctx, ast.Store)}
    return frozenset(found)


class Context:
    """A module that is scripted: its graphs by name of the method."""

    def __init__(self, unit: Unit, module: nn.Module) -> None:
        self.unit, self.module = unit, module
        self.graphs: dict[str, Graph] = {}
        self.python: dict[str, Any] = {}
        self.is_library = is_library(module)
        if isinstance(module, ScriptModule) and module._graphs:
            self.graphs.update(module._graphs)

    def method(self, name: str, function: Any, source: Source | None, node: Any) -> Graph:
        """The graph of a method; `function` is that of a base class, for super()."""
        own = self.module.__dict__.get(name)
        plain = getattr(own, "__func__", own) or getattr(type(self.module), name, None)
        if function is not None and function is not plain:
            name = f"{name}__{function.__qualname__.rpartition('.')[0].rpartition('.')[2]}"
        else:
            function = inspect.unwrap(plain) if plain is not None else None
        known = self.graphs.get(name)
        if known is not None:
            return known
        if function is None:
            raise ScriptError(f"script(): {type(self.module).__name__} has no method {name!r}")
        made = Source(function)
        known = self.graphs[name] = Graph(name, [])
        with _noted(source, node):
            compile_function[0](self.unit, made, known, ModuleAt((), self.module))
        return known

    def keep_python(self, name: str, function: Any) -> str:
        """Keep a method as Python; gives the name under which it is."""
        self.python[name] = function
        return name
