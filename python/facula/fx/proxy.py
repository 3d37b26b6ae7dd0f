"""Values that record what is done with them."""

from __future__ import annotations

import collections
import dis
import enum
import inspect
import operator
from collections.abc import Iterator
from typing import Any

import facula
from facula.fx.graph import Graph
from facula.fx.node import Argument, Node, map_aggregate

__all__ = ["Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "Scope", "TraceError"]
__all__ += ["TracerBase"]

_BASE_TYPES = (str, int, float, bool, complex, facula.dtype, facula.device, facula.Tensor)
_OTHER_TYPES = (facula.memory_format, facula.layout, facula.Size, type(None), type(...), range)


class TraceError(ValueError):
    """The program asks of a traced value what is known only when it runs."""


class Scope:
    """The module within which a node was traced: its path and its class."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path = module_path
        self.module_type = module_type


class TracerBase:
    """Makes nodes and proxies; a subclass says what is traced."""

    graph: Graph
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"
    param_shapes_constant = False

    def create_node(
        self,
        kind: str,
        target: Any,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A node at the end of the graph."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """The proxy of a node."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Any = None,
    ) -> Any:
        """A node for a call with proxies among its arguments, as a proxy."""
        sent, named = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, sent, named, name, type_expr)
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Any) -> Argument:
        """What stands for a value in a node's arguments.

        Raises:
            NotImplementedError: it is nothing that a graph can hold.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            fields = tuple(self.create_arg(item) for item in a)
            return self.create_node("call_function", type(a), fields, {})
        if isinstance(a, facula.Size):
            return a if not any(isinstance(i, Proxy) for i in a) else tuple(map(self.create_arg, a))
        if isinstance(a, (tuple, list)):
            return (
                [self.create_arg(item) for item in a]
                if isinstance(a, list)
                else tuple(self.create_arg(item) for item in a)
            )
        if isinstance(a, dict):
            if any(isinstance(key, (Proxy, Node)) for key in a):
                raise RuntimeError("a dict with traced values as keys cannot be an argument")
            return {key: self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(*(self.create_arg(part) for part in (a.start, a.stop, a.step)))
        if isinstance(a, (*_BASE_TYPES, *_OTHER_TYPES, enum.Enum)) or callable(a):
            return a
        raise NotImplementedError(f"a {type(a).__name__} cannot be an argument of a graph's node")

    def to_bool(self, obj: Proxy) -> bool:
        """What `if proxy:` asks.

        Raises:
            TraceError: always; subclasses may know.
        """
        raise TraceError(
            f"symbolically traced variables cannot be used as inputs to control flow: the truth of "
            f"{obj.node.name} is known only when the graph runs"
        )

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """What `for x in proxy` asks; unpacking into n names works.

        Raises:
            TraceError: its length is known only when the graph runs.
        """
        frame = inspect.currentframe()
        caller = None if frame is None or frame.f_back is None else frame.f_back.f_back
        if caller is not None:
            found = [i for i in dis.get_instructions(caller.f_code) if i.offset == caller.f_lasti]
            if found and found[0].opname == "UNPACK_SEQUENCE":
                return (obj[i] for i in range(found[0].argval))
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a "
            "loop or as a *args or **kwargs function argument; mark the function that does so by "
            "facula.fx.wrap, or keep its module a leaf"
        )

    def keys(self, obj: Proxy) -> Any:
        """What `**proxy` asks."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Appends to a graph what is done with its proxies."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack: Any = collections.OrderedDict()


class Proxy:
    """Stands for the result of a node; operations with it append nodes to the graph."""

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        facula._C._use_overrides()
        self.tracer = tracer if tracer is not None else GraphAppendingTracer(node.graph)
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        # Protocols by which arrays are recognised, which it does not speak.
        if k[:2] == "__" and k[-2:] == "__":
            raise AttributeError(k)
        return Attribute(self, k)

    def __getstate__(self) -> Any:
        return self.__dict__

    def __setstate__(self, state: Any) -> None:
        self.__dict__ = state

    def __deepcopy__(self, memo: Any) -> Any:
        raise RuntimeError(f"{self!r} is a traced value and cannot be copied")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __abs__(self) -> Any:
        return self.tracer.create_proxy("call_function", abs, (self,), {})

    def keys(self) -> Any:
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            "recorded, please call facula.fx.wrap('len') at module scope"
        )

    def __contains__(self, item: Any) -> bool:
        raise TraceError(f"whether {self!r} contains a value is known only when the graph runs")

    def __index__(self) -> int:
        raise TraceError(f"{self!r} as an integer is known only when the graph runs")

    __int__ = __float__ = __complex__ = __index__  # type: ignore[assignment]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tracers: list[TracerBase] = []

        def note(a: Any) -> Any:
            if isinstance(a, Proxy) and a.tracer not in tracers:
                tracers.append(a.tracer)
            return a

        map_aggregate((args, kwargs), note)
        if len(tracers) != 1:
            raise RuntimeError(f"{func}: the arguments are of {len(tracers)} tracers")
        from facula.overrides import is_tensor_method_or_property

        if is_tensor_method_or_property(func):
            return tracers[0].create_proxy("call_method", func.__name__, args, kwargs)
        return tracers[0].create_proxy("call_function", func, args, kwargs)


class Attribute(Proxy):
    """An attribute of a proxy; calling it is a method call, another use reads it."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        if self._node is None:  # a method that is called needs none
            args = (self.root, self.attr)
            self._node = self.tracer.create_proxy("call_function", getattr, args, {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter, whose shape is known while tracing."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        self.param = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        return self.param.shape

    def size(self, dim: int | None = None) -> Any:
        return self.param.size() if dim is None else self.param.size(dim)

    def dim(self) -> int:
        return int(self.param.dim())

    @property
    def ndim(self) -> int:
        return int(self.param.ndim)

    def numel(self) -> int:
        return int(self.param.numel())

    def nelement(self) -> int:
        return int(self.param.nelement())


def _add_operators() -> None:
    plain = "add sub mul floordiv truediv mod pow lshift rshift and_ or_ xor matmul"
    for name in [*plain.split(), *"eq ne lt gt le ge getitem neg invert pos".split()]:
        magic = f"__{name.strip('_')}__"
        setattr(Proxy, magic, _operation(getattr(operator, name), magic, reflected=False))
    for name in plain.split():
        magic = f"__r{name.strip('_')}__"
        setattr(Proxy, magic, _operation(getattr(operator, name), magic, reflected=True))


def _operation(function: Any, magic: str, *, reflected: bool) -> Any:
    def operation(self: Proxy, *others: Any) -> Any:
        args = (others[0], self) if reflected else (self, *others)
        return self.tracer.create_proxy("call_function", function, args, {})

    operation.__name__ = operation.__qualname__ = magic
    return operation


def _setitem(self: Proxy, key: Any, value: Any) -> None:
    self.tracer.create_proxy("call_function", operator.setitem, (self, key, value), {})


_add_operators()
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]  # __eq__ above is a node
