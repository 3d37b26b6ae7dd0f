"""Scripted and traced functions and modules: what runs graphs, and keeps their tensors."""

from __future__ import annotations

import copy
import inspect
import pickle
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import facula
from facula import nn
from facula.jit import _tracing
from facula.jit._graph import Call, Graph, Name, Parameter, Path, Return, atoms_of, leaves, walk
from facula.jit._running import code_text
from facula.overrides import DisableTorchFunction

__all__ = [
    "LibraryScriptModule",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptMethod",
    "ScriptModule",
    "TopLevelTracedModule",
    "as_script",
    "class_of",
    "graphs_of",
    "holder_of",
    "is_plain",
    "note_places",
]

_INTERNAL = frozenset(vars(nn.Module()))


class _Writers:
    """What writes files: `_files` puts its functions here."""

    save: Any
    to_bytes: Any


writers = _Writers()


def is_plain(value: Any, depth: int = 0) -> bool:
    """Is it a value that programs and their files hold as an attribute?"""
    if value is None or type(value) in (bool, int, float, complex, str):
        return True
    if isinstance(value, (facula.dtype, facula.device, facula.layout, facula.memory_format)):
        return True
    if depth > 20:
        return False
    if type(value) in (list, tuple) or isinstance(value, facula.Size):
        return all(is_plain(item, depth + 1) for item in value)
    if type(value) is dict:
        return all(is_plain(k, 20) and is_plain(v, depth + 1) for k, v in value.items())
    return False


class ScriptFunction:
    """A function that runs its graph."""

    def __init__(self, graph: Graph, doc: str | None = None) -> None:
        self.graph = graph
        self.name = self.__name__ = self.__qualname__ = graph.name
        self.__doc__ = doc
        self._function = graph.callable()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder = _tracing.current()
        if recorder is not None:
            return _recorded(recorder, self, args, kwargs)
        return self._function(*args, **kwargs)

    @property
    def code(self) -> str:
        """The graph as the Python that it runs."""
        return code_text(self.graph)

    @property
    def inlined_graph(self) -> Graph:
        """The graph."""
        return self.graph

    @property
    def qualified_name(self) -> str:
        """The name of the graph."""
        return self.name

    def graph_for(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph, which is one for all arguments."""
        return self.graph

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Write it to a file; see facula.jit.save."""
        writers.save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        """The bytes of its file."""
        return bytes(writers.to_bytes(self, _extra_files))

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else types.MethodType(self, owner)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise pickle.PicklingError("a ScriptFunction is saved by facula.jit.save, not pickled")

    def __deepcopy__(self, memo: Any) -> ScriptFunction:
        return self

    def __repr__(self) -> str:
        return f"<facula.jit.ScriptFunction {self.name}>"


def _recorded(recorder: Any, function: ScriptFunction, args: Any, kwargs: Any) -> Any:
    """The call of a scripted function while something is traced."""
    name = function.name
    functions = recorder.graph.functions
    while name in functions and functions[name] is not function.graph:
        name += "_"
    functions[name] = function.graph
    atoms = [recorder.atom(a) for a in args]
    named = {k: recorder.atom(v) for k, v in kwargs.items()}
    with DisableTorchFunction():
        result = function._function(*args, **kwargs)
    return recorder.note("call", name, atoms, named, result)


class ScriptMethod:
    """A method of a module with its graph, as `module.forward.graph` asks for."""

    def __init__(self, module: Any, graph: Graph) -> None:
        self.owner, self.graph, self.name = module, graph, graph.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.graph.callable()(self.owner, *args, **kwargs)

    @property
    def code(self) -> str:
        """The graph as the Python that it runs."""
        return code_text(self.graph)


class ScriptModule(nn.Module):
    """A module whose methods run graphs, or a base class for modules that are to be scripted."""

    _graphs: Mapping[str, Graph] = {}
    _original_name = ""

    @property
    def original_name(self) -> str:
        """The name of the class that it was made of."""
        return self._original_name or type(self).__name__

    def _get_name(self) -> str:
        return self.original_name

    def _graph_of(self, method: str = "forward") -> Graph:
        found = type(self)._graphs.get(method)
        if found is None:
            raise AttributeError(f"{self.original_name} has no graph of its own for {method!r}")
        return found

    @property
    def graph(self) -> Graph:
        """The graph of `forward`."""
        return self._graph_of()

    @property
    def inlined_graph(self) -> Graph:
        """The graph of `forward`."""
        return self._graph_of()

    @property
    def code(self) -> str:
        """`forward` as the Python that it runs."""
        return code_text(self._graph_of())

    def graph_for(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph of `forward`, which is one for all arguments."""
        return self._graph_of()

    def get_method(self, name: str) -> ScriptMethod:
        """A method with its graph."""
        return ScriptMethod(self, self._graph_of(name))

    _get_method = get_method

    def _has_method(self, name: str) -> bool:
        return name in self._graphs

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Write it to a file; see facula.jit.save."""
        writers.save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: Any = None) -> bytes:
        """The bytes of its file."""
        return bytes(writers.to_bytes(self, _extra_files))

    def __copy__(self) -> Any:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        for name in ("_parameters", "_buffers", "_modules"):
            made.__dict__[name] = dict(self.__dict__[name])
        return made

    def __deepcopy__(self, memo: Any) -> Any:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self.__dict__.items()})
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        if not self._graphs:
            return super().__reduce_ex__(protocol)
        raise pickle.PicklingError(
            f"{self.original_name} is a scripted module: save it by facula.jit.save, not by pickle"
        )


class RecursiveScriptModule(ScriptModule):
    """What `script` and `load` make of a module."""


class LibraryScriptModule(RecursiveScriptModule):
    """One of facula's own layers as a scripted module: it runs as it is."""

    _kind: Any = None

    def _graph_of(self, method: str = "forward") -> Graph:
        if method != "forward":
            return super()._graph_of(method)
        names = [p for p in inspect.signature(self._kind.forward).parameters if p != "self"]
        call = Call([("result", "")], "module", "forward", [Path(()), *map(Name, names)])
        parameters = [Parameter(name) for name in ("self", *names)]
        return Graph("forward", parameters, "", [call, Return(Name("result"))])


def as_script(module: nn.Module) -> Any:
    """One of facula's layers as a scripted module, with the same tensors and submodules."""
    kind = type(module)
    space = {"_kind": kind, "_original_name": kind.__name__, "__module__": __name__}
    made = type("RecursiveScriptModule", (LibraryScriptModule, kind), space)
    new = made.__new__(made)
    new.__dict__.update(module.__dict__)
    for name in ("_parameters", "_buffers", "_modules"):
        new.__dict__[name] = dict(module.__dict__[name])
    return new


class TopLevelTracedModule(ScriptModule):
    """What `trace` makes of a module."""


class TracedPart(ScriptModule):
    """A submodule of a traced module: it keeps its tensors, the graph of the whole uses them."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Not there.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            f"{self.original_name} is a part of a traced module, whose graph runs as one; "
            "trace this part by itself to call it"
        )


def _method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a class of modules, which tells what traces of its call."""
    tracing = _tracing._local

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = getattr(tracing, "recorder", None)
        if recorder is not None:
            path = recorder.submodules.get(id(self))
            if isinstance(path, Path):
                atoms = [path, *(recorder.atom(a) for a in args)]
                named = {k: recorder.atom(v) for k, v in kwargs.items()}
                recorder.whole.add(path)
                with DisableTorchFunction():
                    result = function(self, *args, **kwargs)
                return recorder.note("module", name, atoms, named, result)
        return function(self, *args, **kwargs)

    method.__name__ = name
    return method


def note_places(graph: Graph, modules: Sequence[Any]) -> None:
    """Note where modules keep what a graph names, where all of them keep it in the same place."""
    paths = {
        Path(leaf.parts[:n])
        for s in walk(graph.body)
        for atom in atoms_of(s)
        for leaf in leaves(atom)
        if isinstance(leaf, Path)
        for n in range(1, len(leaf.parts) + 1)
    }
    graph.places.clear()
    for path in paths:
        found = {_place_of(module, path) for module in modules}
        if len(found) == 1 and "" not in found:
            graph.places[path] = found.pop()


def _place_of(module: Any, path: Path) -> str:
    *owners, leaf = path.parts
    for part in owners:
        module = module.__dict__["_modules"].get(part) if isinstance(module, nn.Module) else None
    if not isinstance(module, nn.Module):
        return ""
    places = ("_parameters", "_buffers", "_modules")
    return next((p for p in places if leaf in module.__dict__[p]), "")


def class_of(
    base: type, original_name: str, graphs: Mapping[str, Graph], functions: Mapping[str, Any] = {}
) -> Any:
    """A class of modules with these methods; `functions` are methods in Python beside them."""
    space: dict[str, Any] = {"_graphs": dict(graphs), "_original_name": original_name}
    space["__module__"] = base.__module__
    for name, graph in graphs.items():
        space[name] = _method(name, graph.callable())
    space.update(functions)
    return type(base.__name__, (base,), space)


def graphs_of(module: Any) -> Mapping[str, Graph]:
    """The graphs of a module's methods, or none."""
    return module._graphs if isinstance(module, ScriptModule) else {}


def holder_of(module: nn.Module, made: Any, children: Callable[[str, nn.Module], Any]) -> Any:
    """Give a new module what an old one keeps: its tensors, plain attributes, changed children."""
    nn.Module.__init__(made)
    kept, old = made.__dict__, module.__dict__
    kept["training"] = module.training
    kept["_parameters"] = dict(old["_parameters"])
    kept["_buffers"] = dict(old["_buffers"])
    kept["_non_persistent_buffers_set"] = set(old["_non_persistent_buffers_set"])
    for name, value in old.items():
        if name not in _INTERNAL and (is_plain(value) or isinstance(value, facula.Tensor)):
            kept[name] = value
    for name, child in old["_modules"].items():
        kept["_modules"][name] = None if child is None else children(name, child)
    return made
