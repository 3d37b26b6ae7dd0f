"""Tracing: a module's `forward` runs with proxies, and leaves a graph."""

from __future__ import annotations

import builtins
import collections
import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import facula
from facula import nn
from facula.fx import graph_module
from facula.fx.graph import Graph
from facula.fx.graph_module import GraphModule
from facula.fx.node import Node
from facula.fx.proxy import ParameterProxy, Proxy, Scope, TracerBase

__all__ = ["PH", "Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]


class PHBase:
    """Stands for an input within a concrete argument."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()

_tracing = [0]
# (globals of the module that wraps, name of the function)
_wrapped: dict[tuple[int, str], dict[str, Any]] = {}


def is_fx_tracing() -> bool:
    """Is something being traced?"""
    return _tracing[0] > 0


def wrap(fn_or_name: str | Callable[..., Any]) -> Any:
    """Let a function be one node of a graph, instead of tracing into it.

    Called at the top of a module with the name of one of its globals or of a builtin, or used as
    a decorator there.

    Raises:
        RuntimeError: it is neither a name nor a function.
        NotImplementedError: it is called within a function.
    """
    if not isinstance(fn_or_name, str) and not callable(fn_or_name):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe()
    caller = None if frame is None else frame.f_back
    if caller is None or caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(caller.f_globals), name] = caller.f_globals
    return fn_or_name


def _proxy_among(args: Any, kwargs: Any) -> Proxy | None:
    found: list[Proxy] = []

    def look(a: Any) -> Any:
        if isinstance(a, Proxy):
            found.append(a)
        return a

    from facula.fx.node import map_aggregate

    map_aggregate((args, kwargs), look)
    return found[0] if found else None


def _recorder(original: Any) -> Any:
    """A function that becomes a node where it meets a proxy."""

    @functools.wraps(original)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        proxy = _proxy_among(args, kwargs)
        if proxy is None:
            return original(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", original, args, kwargs)

    return recorded


class _Patches:
    """Attributes and globals that are others while something is traced."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def item(self, space: dict[str, Any], name: str, value: Any) -> None:
        if name in space:
            before = space[name]
            self._undo.append(lambda: space.__setitem__(name, before))
        else:
            self._undo.append(lambda: space.pop(name, None))
        space[name] = value

    def attribute(self, owner: Any, name: str, value: Any) -> None:
        if name in vars(owner):
            before = vars(owner)[name]
            self._undo.append(lambda: setattr(owner, name, before))
        else:
            self._undo.append(lambda: delattr(owner, name))
        setattr(owner, name, value)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()


class Tracer(TracerBase):
    """Records what a module does with its inputs.

    Args:
        autowrap_modules: modules of Python whose functions are nodes, `math` by default.
        autowrap_functions: functions of globals that are nodes.
        param_shapes_constant: shapes of parameters are numbers while tracing.
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        self._autowrapped = {
            id(f): f
            for module in autowrap_modules
            for n, f in vars(module).items()
            if not n.startswith("_") and callable(f)
        }
        self._autowrapped.update({id(f): f for f in autowrap_functions})
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.root: Any = None
        self.scope = Scope("", None)
        self.module_stack: Any = collections.OrderedDict()
        self.node_name_to_scope: dict[str, Any] = {}
        self.submodule_paths: dict[Any, str] | None = None

    # ---- what subclasses define otherwise

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Is a module one node? facula's own are, save Sequential."""
        ours = m.__module__.split(".")[0] == "facula" and not m.__module__.startswith("facula.fx")
        return ours and not isinstance(m, nn.Sequential)

    def path_of_module(self, mod: nn.Module) -> str:
        """The path of a submodule of the root.

        Raises:
            NameError: it is none.
        """
        paths = self.submodule_paths or {}
        if mod in paths:
            return paths[mod]
        for name, module in self.root.named_modules():
            if module is mod:
                return str(name)
        raise NameError("module is not installed as a submodule")

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> Any:
        """What a call of a submodule becomes: a node of a leaf, the trace of another."""
        path = self.path_of_module(m)
        before, self.scope = self.scope, Scope(path, type(m))
        self.module_stack[path] = (path, type(m))
        try:
            if self.is_leaf_module(m, path):
                return self.create_proxy("call_module", path, args, kwargs)
            return forward(*args, **kwargs)
        finally:
            self.module_stack.pop(path, None)
            self.scope = before

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What an attribute of a module is while tracing: parameters are nodes."""
        if not isinstance(attr_val, nn.Parameter) and not (
            self.proxy_buffer_attributes and isinstance(attr_val, facula.Tensor)
        ):
            return attr_val
        tensors = self.root.named_parameters()
        if not isinstance(attr_val, nn.Parameter):
            tensors = self.root.named_buffers()
        for name, tensor in tensors:
            if tensor is attr_val:
                if name not in parameter_proxy_cache:
                    how = {}
                    # Tracers of packages may not take this argument.
                    taken = inspect.signature(self.create_proxy).parameters
                    if self.param_shapes_constant and "proxy_factory_fn" in taken:
                        make = functools.partial(self._parameter_proxy, name, attr_val)
                        how["proxy_factory_fn"] = make
                    parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {}, **how)
                return parameter_proxy_cache[name]
        return attr_val

    def _parameter_proxy(self, name: str, param: Any, node: Node) -> Any:
        return ParameterProxy(self, node, name, param)

    def create_arg(self, a: Any) -> Any:
        """What stands for a value; tensors and parameters become attributes of the root."""
        if isinstance(a, nn.Parameter):
            for name, parameter in self.root.named_parameters():
                if parameter is a:
                    return self.create_node("get_attr", name, (), {})
        if isinstance(a, facula.Tensor):
            for name, buffer in self.root.named_buffers():
                if buffer is a:
                    return self.create_node("get_attr", name, (), {})
            path = self._tensor_attributes.get(id(a))
            if path is None:
                number = 0
                while hasattr(self.root, f"_tensor_constant{number}"):
                    number += 1
                path = f"_tensor_constant{number}"
                setattr(self.root, path, a)
                self._tensor_attributes[id(a)] = path
            return self.create_node("get_attr", path, (), {})
        if isinstance(a, nn.Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        return super().create_arg(a)

    def create_node(self, kind: str, target: Any, args: Any, kwargs: Any, name: Any = None,
                    type_expr: Any = None) -> Node:  # fmt: skip
        """A node, whose scope is noted."""
        node = super().create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if self.module_stack:
            node.meta["nn_module_stack"] = dict(self.module_stack)
        return node

    # ---- tracing

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module or a function.

        Args:
            root: what is traced.
            concrete_args: inputs by name that are what is given, not traced: flags, say.

        Raises:
            TraceError: the program asks what is known only when it runs.
        """
        if isinstance(root, nn.Module):
            self.root = root
            function: Any = getattr(type(root), self.traced_func_name)
            self.root_module_name = type(root).__name__
            self.submodule_paths = {m: name for name, m in root.named_modules()}
        else:
            self.root = nn.Module()
            function = root
            self.root_module_name = root.__name__
            self.submodule_paths = None
        self.graph = Graph(
            tracer_cls=type(self) if "<locals>" not in type(self).__qualname__ else None
        )
        self._tensor_attributes = self._constants(self.root)
        called, args, named = self._inputs(
            function, isinstance(root, nn.Module), concrete_args or {}
        )
        with self._patched(inspect.unwrap(function)):
            result = self.create_arg(called(*args, **named))
        kind = getattr(inspect.unwrap(function), "__annotations__", {}).get("return")
        self.create_node("output", "output", (result,), {}, type_expr=kind)
        self.submodule_paths = None
        return self.graph

    def _constants(self, root: nn.Module) -> dict[int, str]:
        found = {}
        for prefix, module in root.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, facula.Tensor):
                    found[id(value)] = f"{prefix}.{name}".lstrip(".")
        return found

    def _inputs(self, function: Any, is_module: bool, concrete: dict[str, Any]) -> Any:
        """The function to call, and proxies for its parameters.

        `*args` and `**kwargs` are one proxy each, which the function can hand on but not unpack.
        """
        code = inspect.unwrap(function).__code__
        parameters = list(inspect.signature(function).parameters.values())
        starred = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)
        given: list[Any] = []
        if is_module:
            if not parameters or parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            given.append(self.root)
            parameters = parameters[1:]
        annotations = getattr(inspect.unwrap(function), "__annotations__", {})
        named: dict[str, Any] = {}
        for p in parameters:
            value = concrete.get(p.name, PH)
            if value is PH:
                stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
                default = () if p.default is p.empty or stars else (p.default,)
                kind = annotations.get(p.name)
                value = self.create_proxy("placeholder", stars + p.name, default, {}, None, kind)
            if p.kind is p.KEYWORD_ONLY and not starred:
                named[p.name] = value
            else:
                given.append(value)
        if not starred:
            return function, given, named
        function = inspect.unwrap(function)
        # Locals of parameters stand in this order: positional ones, named ones, *args, **kwargs.
        order = {name: i for i, name in enumerate(code.co_varnames)}
        names = [p.name for p in parameters]
        first = given[:1] if is_module else []
        rest = sorted(zip(names, given[len(first) :], strict=True), key=lambda item: order[item[0]])
        plain = code.replace(
            co_argcount=len(given),
            co_posonlyargcount=0,
            co_kwonlyargcount=0,
            co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
        )
        made = FunctionType(
            plain, function.__globals__, function.__name__, None, function.__closure__
        )
        return made, [*first, *(value for _, value in rest)], {}

    @contextlib.contextmanager
    def _patched(self, function: Any) -> Iterator[None]:
        """Modules and wrapped functions tell the tracer of their calls."""
        patches = _Patches()
        known: dict[str, Any] = {}
        original_call, original_getattr = nn.Module.__call__, nn.Module.__getattr__

        def module_call(mod: Any, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return original_call(mod, *args, **kwargs)

            self._wrap_in(patches, getattr(getattr(type(mod), "forward", None), "__globals__", {}))
            if _proxy_among(args, kwargs) is None and mod not in (self.submodule_paths or {}):
                return forward(*args, **kwargs)
            return self.call_module(mod, forward, args, kwargs)

        def module_getattr(mod: Any, name: str) -> Any:
            return self.getattr(name, original_getattr(mod, name), known)

        _tracing[0] += 1
        self._patched_spaces: set[int] = set()
        patches.attribute(nn.Module, "__call__", module_call)
        patches.attribute(nn.Module, "__getattr__", module_getattr)
        for (_, name), space in _wrapped.items():
            original = space.get(name, getattr(builtins, name, None))
            if original is not None:
                patches.item(space, name, _recorder(original))
        for module in self._autowrap_search:
            self._wrap_in(patches, vars(module))
        self._wrap_in(patches, getattr(function, "__globals__", {}))
        try:
            yield
        finally:
            patches.undo()
            _tracing[0] -= 1

    def _wrap_in(self, patches: _Patches, space: dict[str, Any]) -> None:
        if id(space) in self._patched_spaces:
            return
        self._patched_spaces.add(id(space))
        for name, value in list(space.items()):
            if not name.startswith("_") and callable(value) and id(value) in self._autowrapped:
                patches.item(space, name, _recorder(value))


class _Leaves(Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


def _retrace(module: nn.Module) -> Graph:
    return _Leaves().trace(module)


graph_module.retrace = _retrace


def symbolic_trace(
    root: nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """Run a module or a function with proxies; the graph module of what it did.

    Control flow is followed once: what depends on a tensor's values raises.

    Args:
        root: the module, or a function.
        concrete_args: inputs by name that keep a value, and are no inputs of the graph.

    Raises:
        TraceError: the program asks what is known only when it runs.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
