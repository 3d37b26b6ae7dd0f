"""Modules that run a graph."""

from __future__ import annotations

import copy
import itertools
import linecache
import os
from typing import Any

import facula
from facula import nn
from facula.fx.graph import Graph

__all__ = ["GraphModule"]

_numbers = itertools.count()


def _no_tracer(module: nn.Module) -> Graph:
    raise RuntimeError("facula.fx.tracer gives what traces")


#: The graph of a module whose submodules are all leaves; the tracer's, which stands above.
retrace = _no_tracer


def _compiled(source: str, names: dict[str, Any]) -> Any:
    """The `forward` of a source text, which tracebacks can show."""
    file = f"<facula.fx.{next(_numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = dict(names)
    exec(compile(source, file, "exec"), space)
    return space["forward"]


def _copy_attribute(source: Any, target: nn.Module, path: str) -> None:
    *owners, leaf = path.split(".")
    for owner in owners:
        source = getattr(source, owner)
        inner = getattr(target, owner, None)
        if inner is source:
            return  # the module that holds it is there itself
        if inner is None:
            inner = nn.Module()
            setattr(target, owner, inner)
        target = inner
    value = getattr(source, leaf)
    if isinstance(value, facula.Tensor) and not isinstance(value, nn.Parameter):
        persistent = leaf not in getattr(source, "_non_persistent_buffers_set", ())
        target.register_buffer(leaf, value, persistent=persistent)
    else:
        setattr(target, leaf, value)


def _assign(target: nn.Module, path: str, value: Any) -> None:
    *owners, leaf = path.split(".")
    for owner in owners:
        inner = getattr(target, owner, None)
        if inner is None:
            inner = nn.Module()
            setattr(target, owner, inner)
        target = inner
    if isinstance(value, facula.Tensor) and not isinstance(value, nn.Parameter):
        target.register_buffer(leaf, value)
    else:
        setattr(target, leaf, value)


class GraphModule(nn.Module):
    """A module whose `forward` is the code of a graph.

    Args:
        root: the module that the graph's targets are of, or a dict of what they stand for by
            path. Only what the graph uses is taken; it is shared, not copied.
        graph: the graph; the module owns a copy if another module owns it.
        class_name: the name of the module's class.

    After a change of the graph `recompile` makes the code anew.

    Raises:
        RuntimeError: the dict lacks a target.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        # Each object has a class of its own, which has its `forward`.
        for base in cls.__mro__:
            if "_is_fx_class" not in vars(base):
                cls = base
                break
        own = type(cls.__name__, (cls,), {"_is_fx_class": True, "__module__": cls.__module__})
        return super().__new__(own)

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        targets = [n.target for n in graph.nodes if n.op in ("get_attr", "call_module")]
        if isinstance(root, nn.Module):
            self.training = root.training
            self.__dict__["_root_class"] = type(root)
            for path in targets:
                _copy_attribute(root, self, path)
        else:
            missing = [path for path in targets if path not in root]
            if missing:
                raise RuntimeError(f"GraphModule(): root lacks {missing}, which the graph uses")
            for path in sorted(set(targets), key=lambda p: p.count(".")):
                _assign(self, path, root[path])
        self.meta: dict[str, Any] = {}
        self.graph = graph
        self._tracer_cls = graph._tracer_cls
        self._tracer_extras = graph._tracer_extras

    @property
    def graph(self) -> Graph:
        """What `forward` runs; assigning another one makes the code anew."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        self.__dict__["_graph"] = copy.deepcopy(g) if g.owning_module not in (None, self) else g
        self._graph.owning_module = self
        self.recompile()

    def recompile(self) -> Any:
        """Make `forward` from the graph as it is now; gives the code."""
        code = self._graph.python_code("self")
        self.__dict__["_code"] = code.src
        type(self).forward = _compiled(code.src, code.globals)
        return code

    @property
    def code(self) -> str:
        """The source of `forward`."""
        if "_code" not in self.__dict__:
            raise RuntimeError("Code has not been generated! call recompile()")
        return str(self.__dict__["_code"])

    # ---- its modules

    def add_submodule(self, target: str, m: nn.Module) -> bool:
        """Put a module at a path, with empty ones on the way; False if something else is there."""
        module: Any = self
        *owners, leaf = target.split(".")
        for owner in owners:
            inner = getattr(module, owner, None)
            if inner is None:
                inner = nn.Module()
                setattr(module, owner, inner)
            if not isinstance(inner, nn.Module):
                return False
            module = inner
        module.add_module(leaf, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Take the module at a path away; False if there is none."""
        owner, _, leaf = target.rpartition(".")
        try:
            module = self.get_submodule(owner)
        except AttributeError:
            return False
        if leaf not in module._modules:
            return False
        delattr(module, leaf)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Take away the modules that the graph does not call, nor read from, nor lie within."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            parts = node.target.split(".")
            used.update(".".join(parts[: i + 1]) for i in range(len(parts)))
            if node.op == "call_module":
                called = self.get_submodule(node.target)
                used.update(f"{node.target}.{n}" for n, _ in called.named_modules() if n)
        for name in [n for n, _ in self.named_modules() if n and n not in used]:
            self.delete_submodule(name)

    # ---- copies and files

    def __deepcopy__(self, memo: Any) -> GraphModule:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        state = {
            k: copy.deepcopy(v, memo)
            for k, v in self.__dict__.items()
            if k not in ("_graph", "_code")
        }
        made.__dict__.update(state)
        type(made).__name__ = type(self).__name__
        made.graph = copy.deepcopy(self._graph)
        return made

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, copy.deepcopy(self.graph), type(self).__name__)
        made.meta = dict(self.meta)
        return made

    def __reduce__(self) -> Any:
        state = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_root_class")}
        code = self._graph.python_code("self")
        names = {k: v for k, v in code.globals.items() if k != "facula"}
        return _restored, (state, code.src, names, type(self).__name__)

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Raises NotImplementedError: save the module by facula.save."""
        raise NotImplementedError("GraphModule.to_folder(): save the module by facula.save instead")

    def print_readable(self, print_output: bool = True, **options: Any) -> str:
        """The code as that of a class; printed too."""
        body = "\n".join("    " + line if line else "" for line in self.code.splitlines())
        text = f"class {type(self).__name__}(facula.nn.Module):\n{body}\n"
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        return "\n".join([super().__str__(), self.code])


def _restored(state: dict[str, Any], source: str, names: dict[str, Any], class_name: str) -> Any:
    """A graph module from its parts: the graph is traced from the code."""
    holder = nn.Module()
    holder.__dict__.update(state)
    function = _compiled(source, {"facula": facula, **names})
    holder_class = type(class_name, (nn.Module,), {"forward": function})
    holder.__class__ = holder_class

    graph = retrace(holder)
    made = GraphModule(holder, graph, class_name)
    made.meta = state.get("meta", {})
    return made
