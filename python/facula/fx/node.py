"""One step of a graph: an input, a call, an attribute of the module, or the result."""

from __future__ import annotations

import builtins
import operator
import types
from collections.abc import Callable
from typing import Any

from facula.fx.immutable_collections import immutable_dict, immutable_list

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

Target = Any  # a function for "call_function", else a name
Argument = Any  # nodes, numbers, strings, tensors, and tuples, lists, dicts, slices of them

OPS = frozenset(
    ("placeholder", "call_function", "call_method", "call_module", "get_attr", "output", "root")
)
_SIDE_EFFECTS: set[Any] = {operator.setitem, print, setattr}


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Keep calls of `fn` whose results nobody uses."""
    _SIDE_EFFECTS.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """`fn` of everything that tuples, lists, dicts and slices hold, in immutable ones of them."""
    if isinstance(a, tuple):
        items = tuple(map_aggregate(x, fn) for x in a)
        return items if not hasattr(a, "_fields") else type(a)(*items)
    if isinstance(a, list):
        return immutable_list(map_aggregate(x, fn) for x in a)
    if isinstance(a, dict):
        return immutable_dict((k, map_aggregate(v, fn)) for k, v in a.items())
    if isinstance(a, slice):
        parts = (map_aggregate(x, fn) for x in (a.start, a.stop, a.step))
        return slice(*parts)
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """`fn` of every node in an argument."""
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


class Node:
    """A step of a Graph; graphs make them (`graph.call_function(...)`), nobody else.

    Attributes:
        op: "placeholder" (an input), "get_attr" (`target` is the attribute's path),
            "call_function" (of `target`), "call_method" (`target` of `args[0]`), "call_module"
            (the submodule at `target`), "output" (returns `args[0]`).
        name: unique in the graph.
        args, kwargs: what it is called with; assigning keeps `users` right.
        users: nodes that use its result, as the keys of a dict.
        meta: a dict for whatever passes note.
    """

    def __init__(
        self,
        graph: Any,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any = None,
    ) -> None:
        if op not in OPS:
            raise ValueError(f"Node(): op is {op!r}, none of {sorted(OPS)}")
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"Node(): the target of a call_function is {target!r}, no function"
                )
        elif not isinstance(target, str):
            raise ValueError(f"Node(): the target of a {op} must be a str, not {target!r}")
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._input_nodes: dict[Node, None] = {}
        self._args: tuple[Argument, ...] = ()
        self._kwargs: dict[str, Argument] = {}
        self._prev = self._next = self
        self._erased = False
        self._set(tuple(args), dict(kwargs))

    # ---- what it is called with

    @property
    def args(self) -> tuple[Argument, ...]:
        return self._args

    @args.setter
    def args(self, args: tuple[Argument, ...]) -> None:
        self._set(tuple(args), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Argument]) -> None:
        self._set(self._args, dict(kwargs))

    def _set(self, args: Any, kwargs: Any) -> None:
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._input_nodes = {}

        def note(node: Node) -> Node:
            self._input_nodes.setdefault(node)
            node.users.setdefault(self)
            return node

        self._args, self._kwargs = map_arg(args, note), map_arg(kwargs, note)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes it uses, each once."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Set one positional argument."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Put a positional argument before the one at `idx`."""
        if not 0 <= idx <= len(self.args):
            raise IndexError(f"insert_arg(): idx {idx} is not in 0..{len(self.args)}")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Set one named argument."""
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use `new_input` wherever it uses `old_input`."""

        def change(node: Node) -> Node:
            return new_input if node is old_input else node

        self._set(map_arg(self.args, change), map_arg(self.kwargs, change))

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Let users use another node; those for which `delete_user_cb` is False keep it.

        Returns the nodes that were changed.
        """
        if propagate_meta:
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # ---- its place

    @property
    def next(self) -> Node:
        """The node after it; after the last one the graph's root."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before it; before the first one the graph's root."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move `x` before it."""
        if self.graph is not x.graph:
            raise AssertionError("prepend(): the nodes are of two graphs")
        if self is x:
            return
        x._leave_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Move `x` behind it."""
        if x is not self:
            self._next.prepend(x)

    def _leave_list(self) -> None:
        before, behind = self._prev, self._next
        before._next, behind._prev = behind, before

    def _position(self) -> int:
        return next(i for i, node in enumerate(self.graph.nodes) if node is self)

    def __lt__(self, other: Node) -> bool:
        return self._position() < other._position()

    def __gt__(self, other: Node) -> bool:
        return other < self

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or other < self

    # ---- what it does

    def is_impure(self, impure_random: bool = True) -> bool:
        """Does it do more than give a result, so that it stays though nobody uses that?"""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            if self.target in _SIDE_EFFECTS or self.kwargs.get("out") is not None:
                return True
            name = getattr(self.target, "__name__", "")
            return _is_in_place(name) or (impure_random and name in ("rand", "randn", "bernoulli"))
        if self.op == "call_method":
            return _is_in_place(self.target)
        if self.op == "call_module":
            owner = self.graph.owning_module
            module = None if owner is None else owner.get_submodule(self.target)
            return bool(getattr(module, "_is_impure", False))
        return False

    def normalized_arguments(self, *args: Any, **kwargs: Any) -> Any:
        """None: there is no table of signatures to sort arguments by."""
        return None

    @property
    def stack_trace(self) -> str | None:
        """Where it was traced, if the tracer noted that."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def _pretty_print_target(self, target: Any) -> str:
        return target if isinstance(target, str) else qualified_name(target)

    def format_node(self, *args: Any, **kwargs: Any) -> str:
        """A line about it."""
        kind = f" : {_type_text(self.type)}" if self.type is not None else ""
        if self.op == "placeholder":
            default = f"(default={self.args[0]!r})" if self.args else ""
            return f"%{self.name}{kind} : [num_users={len(self.users)}] = placeholder[" + (
                f"target={self.target}]{default}"
            )
        if self.op == "output":
            return f"return {self.args[0] if self.args else None}"
        call = "" if self.op == "get_attr" else f"(args = {self.args}, kwargs = {self.kwargs})"
        target = self._pretty_print_target(self.target)
        return f"%{self.name}{kind} : [num_users={len(self.users)}] = {self.op}" + (
            f"[target={target}]{call}"
        )

    def __repr__(self) -> str:
        return self.name


def _is_in_place(name: str) -> bool:
    return name[-1:] == "_" and name[-2:] != "__"


def _type_text(t: Any) -> str:
    return t.__name__ if isinstance(t, type) else str(t)


def qualified_name(function: Any) -> str:
    """The path by which generated code finds a function.

    Raises:
        RuntimeError: it has none, as a lambda.
    """
    name = getattr(function, "__name__", None) or type(function).__name__
    if getattr(builtins, name, None) is function:
        return name
    module = getattr(function, "__module__", None) or ""
    if isinstance(function, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        owner = function.__objclass__
        return f"{owner.__module__.replace('facula._C', 'facula')}.{owner.__name__}.{name}"
    if name == "<lambda>":
        raise RuntimeError("a lambda cannot be called by a graph's code; give the function a name")
    return f"{module.replace('_operator', 'operator')}.{getattr(function, '__qualname__', name)}"
