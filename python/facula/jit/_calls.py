"""Calls in scripted functions: of operators, Python's functions, other functions, submodules."""

from __future__ import annotations

import ast
import builtins
import contextlib
import inspect
import typing
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import facula
from facula import nn
from facula.jit import _library, _marks, _types
from facula.jit._graph import Call, Graph, Name, Path, Star, Throw
from facula.jit._modules import ScriptFunction
from facula.jit._syntax import Source
from facula.jit._values import Bound, Known, MethodAt, ModuleAt, Row, Runtime, SuperOf, Value

if TYPE_CHECKING:
    from facula.jit._units import Unit

__all__ = ["Calls"]

_TYPES = {
    "int": "int", "float": "float", "bool": "bool", "str": "str", "len": "int", "list": "List",
    "tuple": "Tuple", "dict": "Dict", "range": "range", "isinstance": "bool", "ord": "int",
}  # fmt: skip


class Calls:
    """The part of a compiler that calls; `Expressions` and `Function` complete it."""

    unit: Unit
    source: Source
    graph: Graph
    block: list[Any]
    owner: ModuleAt | None
    statics: dict[str, Value]

    if TYPE_CHECKING:

        def value(self, node: ast.expr) -> Value: ...
        def atom(self, node: ast.expr) -> Any: ...
        def to_atom(self, value: Value, node: ast.AST) -> Any: ...
        def type_of(self, value: Value) -> str: ...
        def truth(self, value: Value) -> bool | None: ...
        def items_of(self, owner: ModuleAt, node: ast.AST) -> list[Value]: ...
        def attribute(self, owner: Value, name: str, node: ast.AST, called: bool) -> Value: ...
        def fresh(self, stem: str) -> str: ...

    # ---- statements that calls leave

    def emit(
        self, kind: str, op: str, args: list[Any], kwargs: dict[str, Any], type: str, node: ast.AST
    ) -> Runtime:
        """Append a call; gives the variable of its result."""
        out = self.fresh(op)
        where = self.source.where(node)
        self.block.append(Call([(out, type)], kind, op, args, kwargs, where=where))
        return Runtime(Name(out), type)

    def copy(self, out: str, kind: str, atom: Any, node: ast.AST) -> None:
        """Append an assignment."""
        self.block.append(Call([(out, kind)], "copy", "", [atom], where=self.source.where(node)))

    def emit_into(self, owner: str, method: str, args: list[ast.expr], node: ast.AST) -> None:
        """Append a call of a method, whose result is dropped."""
        atoms = [Name(owner), *map(self.atom, args)]
        self.block.append(Call([], "method", method, atoms, where=self.source.where(node)))

    @contextlib.contextmanager
    def inner(self) -> Iterator[list[Any]]:
        """Statements go to a new block within."""
        outer, self.block = self.block, []
        try:
            yield self.block
        finally:
            self.block = outer

    # ---- the call

    def _Call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value)
            called = self.attribute(owner, node.func.attr, node.func, True)
        else:
            called = self.value(node.func)
        if isinstance(called, Known):
            special = _SPECIAL.get(_key(called.value))
            if special is not None:
                found: Value = getattr(self, special)(called.value, node)
                return found
        args = self._arguments(node.args)
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self.source.error(keyword.value, "`**` is not in the subset: name arguments")
            kwargs[keyword.arg] = self.value(keyword.value)
        return self.call(called, args, kwargs, node)

    def _arguments(self, nodes: list[ast.expr]) -> list[Value]:
        found: list[Value] = []
        for node in nodes:
            if not isinstance(node, ast.Starred):
                found.append(self.value(node))
                continue
            inner = self.value(node.value)
            if isinstance(inner, Row):
                found += inner.items
            else:
                found.append(Runtime(Star(self.to_atom(inner, node)), "*"))
        return found

    def call(self, called: Value, args: list[Value], kwargs: dict[str, Any], node: Any) -> Value:
        """The result of a call."""
        if isinstance(called, ModuleAt):
            return self.call_method(MethodAt(called, "forward"), args, kwargs, node)
        if isinstance(called, MethodAt):
            return self.call_method(called, args, kwargs, node)
        if isinstance(called, Bound):
            return self._call_bound(called, args, kwargs, node)
        if isinstance(called, Known):
            return self._call_known(called.value, args, kwargs, node)
        raise self.source.error(
            node, "what is called is known only when the program runs: call a function by its name"
        )

    def _atoms(
        self, args: list[Value], kwargs: dict[str, Any], node: ast.Call
    ) -> tuple[list[Any], dict[str, Any]]:
        return (
            [self.to_atom(a, node) for a in args],
            {k: self.to_atom(v, node) for k, v in kwargs.items()},
        )

    def _call_bound(
        self, called: Bound, args: list[Value], kwargs: dict[str, Any], node: ast.Call
    ) -> Value:
        name, owner = called.name, called.owner
        atoms, named = self._atoms(args, kwargs, node)
        if owner.type == "Tensor":
            method = getattr(facula.Tensor, name, None)
            known = _library.name_of(method) if method is not None else None
            if known is not None:
                kind = self._result_type(known)
                return self.emit("op", known, [owner.atom, *atoms], named, kind, node)
        kind = ""
        head, inner = _types.split(owner.type)
        if owner.type == "Tensor":
            kind = {"item": "number", "size": "List[int]", "dim": "int", "numel": "int"}.get(
                name, ""
            )
            kind = "int" if name == "size" and args else kind
        elif head == "List" and name in ("pop", "copy"):
            kind = (inner[0] if inner else "") if name == "pop" else owner.type
        elif head == "Dict" and name in ("get", "pop") and inner:
            kind = inner[-1] if name == "pop" else ""
        elif head == "str" and name in ("join", "format", "strip", "replace", "lower", "upper"):
            kind = "str"
        return self.emit("method", name, [owner.atom, *atoms], named, kind, node)

    def _result_type(self, name: str) -> str:
        kinds = _library.result_types(name)
        if kinds is None:
            return ""
        if len(kinds) == 1:
            return kinds[0]
        return f"Tuple[{', '.join(kinds)}]" if kinds else "None"

    def _call_known(
        self, function: Any, args: list[Value], kwargs: dict[str, Any], node: ast.Call
    ) -> Value:
        if isinstance(function, ScriptFunction):
            name = self.unit.add(self.graph, function.graph)
            atoms, named = self._atoms(args, kwargs, node)
            return self.emit("call", name, atoms, named, function.graph.result, node)
        known = _library.python_name_of(function)
        if known is not None:
            return self._call_python(known, args, kwargs, node)
        known = _library.name_of(function)
        if known is not None:
            atoms, named = self._atoms(args, kwargs, node)
            return self.emit("op", known, atoms, named, self._result_type(known), node)
        if isinstance(function, type):
            return self._construct(function, args, kwargs, node)
        if inspect.isfunction(function):
            return self._call_function(function, args, kwargs, node)
        if inspect.ismethod(function) and not isinstance(function.__self__, nn.Module):
            raise self.source.error(node, "a method of an object of Python cannot be called")
        name = getattr(function, "__qualname__", repr(function))
        raise self.source.error(
            node,
            f"{name} cannot be called from a program: functions of facula, `math` and Python's"
            " plain ones can, and functions with their source in a file; mark what is to stay"
            " Python by facula.jit.ignore",
        )

    def _call_function(
        self, function: Any, args: list[Value], kwargs: dict[str, Any], node: ast.Call
    ) -> Value:
        mark = _marks.mark_of(function)
        if any(isinstance(a, (ModuleAt, MethodAt)) for a in [*args, *kwargs.values()]):
            raise self.source.error(
                node, "a submodule cannot be passed to a function: make it a method of the module"
            )
        atoms, named = self._atoms(args, kwargs, node)
        if mark == "unused":
            return self._raise_unused(function, node)
        if mark == "ignore":
            name = self.unit.add_python(self.graph, function)
            kind = _types.text_of(function.__annotations__.get("return", ""), function.__globals__)
            return self.emit("call", name, atoms, named, kind, node)
        graph = self.unit.function(function, self.source, node)
        name = self.unit.add(self.graph, graph)
        return self.emit("call", name, atoms, named, graph.result, node)

    def _raise_unused(self, function: Any, node: ast.AST) -> Value:
        name = getattr(function, "__qualname__", "a function")
        message = f"{name} is marked by jit.unused: a scripted program cannot call it"
        where = self.source.where(node)
        self.block.append(Throw("RuntimeError", message, where=where))
        return Known(None)

    def _construct(
        self, kind: type, args: list[Value], kwargs: dict[str, Any], node: ast.Call
    ) -> Value:
        if kind is facula.Size:
            return self._call_python("tuple", args, kwargs, node)
        if kind is facula.device:
            if all(isinstance(a, Known) for a in args) and not kwargs:
                return Known(facula.device(*(a.value for a in args)))  # type: ignore[attr-defined]
            return self._call_python("device", args, kwargs, node)
        if kind in (facula.finfo, facula.iinfo) or kind.__name__ in ("finfo", "iinfo"):
            return self._call_python(kind.__name__, args, kwargs, node)
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            rest = [kwargs[f] for f in kind._fields[len(args) :] if f in kwargs]
            defaults = getattr(kind, "_field_defaults", {})
            given = len(args) + len(rest)
            rest += [Known(defaults[f]) for f in kind._fields[given:] if f in defaults]
            if len(args) + len(rest) != len(kind._fields):
                raise self.source.error(node, f"{kind.__name__} has the fields {kind._fields}")
            return Row([*args, *rest], kind._fields, kind.__name__)
        if issubclass(kind, BaseException):
            raise self.source.error(node, "an exception can be raised, not kept")
        raise self.source.error(
            node,
            f"objects of {kind.__qualname__} cannot be made in a program: make modules in __init__,"
            " and use tuples, lists and dicts for the rest",
        )

    # ---- submodules

    def call_method(
        self, called: MethodAt, args: list[Value], kwargs: dict[str, Any], node: Any
    ) -> Value:
        """A call of a method of this module or of one below it."""
        owner, name = called.owner, called.name
        context = self.unit.module(owner.module)
        if any(isinstance(a, (ModuleAt, MethodAt)) for a in [*args, *kwargs.values()]):
            raise self.source.error(
                node, "a submodule cannot be passed to a method: take it from `self` there"
            )
        if context.is_library:
            if name == "forward" and called.function is None:
                atoms, named = self._atoms(args, kwargs, node)
                return self.emit("module", name, [Path(owner.path), *atoms], named, "", node)
            if called.function is None:
                raise self.source.error(
                    node, f"of a {type(owner.module).__name__} a program can call forward alone"
                )
        function = called.function
        if function is None:
            function = inspect.unwrap(getattr(type(owner.module), name, None) or (lambda: None))
            own = owner.module.__dict__.get(name)
            function = getattr(own, "__func__", function) if own is not None else function
        mark = _marks.mark_of(function)
        if mark == "unused":
            return self._raise_unused(function, node)
        atoms, named = self._atoms(args, kwargs, node)
        if mark == "ignore":
            known = context.keep_python(name, function)
            return self.emit("module", known, [Path(owner.path), *atoms], named, "", node)
        if isinstance(_raw(owner.module, name), classmethod):
            raise self.source.error(node, "a class method cannot be called in a program")
        graph = context.method(name, called.function, self.source, node)
        path = [Path(owner.path), *atoms]
        return self.emit("module", graph.name, path, named, graph.result, node)

    # ---- Python's own

    def _call_python(
        self, name: str, args: list[Value], kwargs: dict[str, Any], node: ast.Call
    ) -> Value:
        first = args[0] if args else None
        if name == "len" and isinstance(first, ModuleAt):
            return Known(len(first.module))
        if name == "len" and isinstance(first, Row):
            return Known(len(first.items))
        rows = [self._as_row(a, node) for a in args]
        if name in ("enumerate", "zip", "reversed", "list", "tuple") and any(
            r is not None and any(isinstance(i, (ModuleAt, Row)) for i in r.items) for r in rows
        ):
            return self._static(name, args, rows, kwargs, node)
        plain = all(isinstance(a, Known) for a in [*args, *kwargs.values()])
        if plain and args and name not in ("print", "range", "warn"):
            try:
                values = [a.value for a in args]  # type: ignore[attr-defined]
                return Known(
                    _library.PYTHON[name](*values, **{k: v.value for k, v in kwargs.items()})
                )
            except Exception as error:
                raise self.source.error(node, f"{name}(): {error}") from None
        atoms, named = self._atoms(args, kwargs, node)
        kind = _TYPES.get(name, "")
        if name in ("abs", "round", "max", "min") and first is not None and len(args) > 1:
            kinds = {self.type_of(a) for a in args}
            kind = kinds.pop() if len(kinds) == 1 else ""
        if name == "list" and first is not None and self.type_of(first).startswith("List"):
            kind = self.type_of(first)
        if name.startswith("math."):
            kind = "int" if name in ("math.floor", "math.ceil", "math.trunc") else "float"
        if name in ("print", "warn"):
            where = self.source.where(node)
            self.block.append(Call([], "py", name, atoms, named, where=where))
            return Known(None)
        return self.emit("py", name, atoms, named, kind, node)

    def _as_row(self, value: Value, node: ast.AST) -> Row | None:
        if isinstance(value, Row):
            return value
        if isinstance(value, ModuleAt) and isinstance(
            value.module, (nn.ModuleList, nn.Sequential, nn.ParameterList)
        ):
            return Row(self.items_of(value, node))
        return None

    def _static(
        self,
        name: str,
        args: list[Value],
        rows: list[Row | None],
        kwargs: dict[str, Any],
        node: ast.Call,
    ) -> Value:
        """`enumerate`, `zip` and their like over submodules, which are unrolled."""
        first = rows[0]
        if name == "enumerate" and first is not None:
            begin = args[1] if len(args) > 1 else kwargs.get("start", Known(0))
            if not isinstance(begin, Known):
                raise self.source.error(
                    node, "the start of enumerate() over submodules is a number"
                )
            start = begin.value
            return Row([Row([Known(start + i), v]) for i, v in enumerate(first.items)])
        if name == "reversed" and first is not None:
            return Row(first.items[::-1])
        if name in ("list", "tuple") and first is not None:
            return first
        lengths = {len(r.items) for r in rows if r is not None}
        count = min(lengths)
        columns = []
        for arg, row in zip(args, rows, strict=True):
            if row is not None:
                columns.append(row.items[:count])
                continue
            atom = self.to_atom(arg, node)  # a list beside submodules: its items by their places
            columns.append(
                [self.emit("py", "getitem", [atom, i], {}, "", node) for i in range(count)]
            )
        return Row([Row(list(items)) for items in zip(*columns, strict=True)])

    # ---- forms of their own

    def _annotated(self, function: Any, node: ast.Call) -> Value:
        kind = _types.text_of(self._python_value(node.args[0]))
        value = self.value(node.args[1])
        if isinstance(value, Runtime):
            return Runtime(value.atom, kind or value.type)
        return value

    def _attribute_value(self, function: Any, node: ast.Call) -> Value:
        return self.value(node.args[0])

    def _python_value(self, node: ast.expr) -> Any:
        """What an expression is in Python itself, as a type is."""
        function = self.source.function
        space = dict(function.__globals__)
        code = function.__code__
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            with contextlib.suppress(ValueError):
                space[name] = cell.cell_contents
        try:
            return eval(compile(ast.Expression(node), "<annotation>", "eval"), space)
        except Exception as error:
            raise self.source.error(node, f"this is no type: {error}") from None

    def _isinstance(self, function: Any, node: ast.Call) -> Value:
        value = self.value(node.args[0])
        wanted = self._python_value(node.args[1])
        kinds = wanted if isinstance(wanted, tuple) else (wanted,)
        if isinstance(value, ModuleAt):
            plain = tuple(k for k in kinds if isinstance(k, type))
            return Known(isinstance(value.module, plain))
        if isinstance(value, Known):
            return Known(isinstance(value.value, tuple(k for k in kinds if isinstance(k, type))))
        if isinstance(value, Row):
            return Known(any(k is tuple for k in kinds))
        names = [_types.text_of(k) for k in kinds]
        known = [n for n, k in zip(names, kinds, strict=True) if n]
        if all(isinstance(k, type) for k in kinds):  # a class that values never are of drops out
            if not known:
                return Known(False)
        elif len(known) < len(kinds):
            raise self.source.error(node.args[1], "this is no type of values in a program")
        atom = self.to_atom(value, node)
        parts = [self.emit("py", "is_type", [atom, n], {}, "bool", node) for n in known]
        found = parts[0]
        for part in parts[1:]:
            found = self.emit("py", "or_", [found.atom, part.atom], {}, "bool", node)
        return found

    def _hasattr(self, function: Any, node: ast.Call) -> Value:
        owner, name = self.value(node.args[0]), self.value(node.args[1])
        if isinstance(owner, (ModuleAt, Known)) and isinstance(name, Known):
            held = owner.module if isinstance(owner, ModuleAt) else owner.value
            return Known(hasattr(held, name.value))
        raise self.source.error(node, "hasattr() is in the subset of modules alone: use isinstance")

    def _getattr(self, function: Any, node: ast.Call) -> Value:
        owner, name = self.value(node.args[0]), self.value(node.args[1])
        if not isinstance(name, Known) or not isinstance(name.value, str):
            raise self.source.error(node.args[1], "the name of an attribute is a constant")
        held = owner.module if isinstance(owner, ModuleAt) else getattr(owner, "value", None)
        if len(node.args) > 2 and not hasattr(held, name.value):
            return self.value(node.args[2])
        return self.attribute(owner, name.value, node, False)

    def _super(self, function: Any, node: ast.Call) -> Value:
        kind = self.unit.class_of(self.source.function, self.owner)
        if self.owner is None or kind is None:
            raise self.source.error(node, "super() stands in methods of modules alone")
        return SuperOf(self.owner, kind)

    def _true(self, function: Any, node: ast.Call) -> Value:
        return Known(True)

    def _false(self, function: Any, node: ast.Call) -> Value:
        return Known(False)

    def _fork(self, function: Any, node: ast.Call) -> Value:
        args = self._arguments(node.args[1:])
        kwargs = {k.arg: self.value(k.value) for k in node.keywords if k.arg is not None}
        target = node.args[0]
        if isinstance(target, ast.Attribute):
            called = self.attribute(self.value(target.value), target.attr, target, True)
        else:
            called = self.value(target)
        return self.call(called, args, kwargs, node)

    def _wait(self, function: Any, node: ast.Call) -> Value:
        return self.value(node.args[0])

    def _second(self, function: Any, node: ast.Call) -> Value:
        return self.value(node.args[1])

    def _warn(self, function: Any, node: ast.Call) -> Value:
        return self._call_python("warn", self._arguments(node.args[:1]), {}, node)

    def _asserted(self, function: Any, node: ast.Call) -> Value:
        message = node.args[1] if len(node.args) > 1 else ast.Constant("")
        self.asserted(node.args[0], message, node)  # type: ignore[attr-defined]
        return Known(None)

    def _any_all(self, function: Any, node: ast.Call) -> Value:
        """`any`, `all`, `sum`, `list`, `tuple`, `max`, `min` of a comprehension, or of values."""
        args = self._arguments(node.args)
        first = args[0] if args else None
        if function in (any, all) and isinstance(first, Row):
            known = [self.truth(i) for i in first.items]
            if None not in known:
                return Known(function(known))
        kwargs = {k.arg: self.value(k.value) for k in node.keywords if k.arg is not None}
        return self._call_python(function.__name__, args, kwargs, node)


def _raw(module: Any, name: str) -> Any:
    return next((vars(c)[name] for c in type(module).__mro__ if name in vars(c)), None)


def _key(function: Any) -> Any:
    try:
        hash(function)
    except TypeError:
        return None
    return getattr(function, "__jit_form__", function)


_SPECIAL: dict[Any, str] = {
    isinstance: "_isinstance",
    hasattr: "_hasattr",
    getattr: "_getattr",
    super: "_super",
    typing.cast: "_second",
    warnings.warn: "_warn",
    builtins.any: "_any_all",
    builtins.all: "_any_all",
    "annotate": "_annotated",
    "attribute": "_attribute_value",
    "isinstance": "_isinstance",
    "true": "_true",
    "false": "_false",
    "fork": "_fork",
    "wait": "_wait",
    "assert": "_asserted",
}
