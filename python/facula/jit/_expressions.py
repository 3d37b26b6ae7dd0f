"""Expressions of scripted functions: each becomes atoms, by calls that it needs."""

from __future__ import annotations

import ast
import builtins
import types
from typing import Any

import facula
from facula import nn
from facula.jit import _library, _types
from facula.jit._calls import Calls
from facula.jit._graph import Call, Constant, Items, Mapping, Name, Path, Span, Star, When
from facula.jit._modules import is_plain
from facula.jit._syntax import Once, advice, once
from facula.jit._values import (
    Bound,
    Known,
    MethodAt,
    ModuleAt,
    Row,
    Runtime,
    SuperOf,
    Value,
)

__all__ = ["Expressions"]

BINARY = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "truediv", "FloorDiv": "floordiv",
    "Mod": "mod", "Pow": "pow", "MatMult": "matmul", "BitAnd": "and_", "BitOr": "or_",
    "BitXor": "xor", "LShift": "lshift", "RShift": "rshift",
}  # fmt: skip
_COMPARED = {
    "Eq": "eq", "NotEq": "ne", "Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge", "Is": "is_",
    "IsNot": "is_not", "In": "contains", "NotIn": "contains",
}  # fmt: skip
_UNARY = {"Not": "not_", "USub": "neg", "UAdd": "pos", "Invert": "invert"}
_NUMBERS = ("int", "float", "bool")


class Expressions(Calls):
    """Compiles expressions; `_compile.Function` adds statements."""

    def value(self, node: ast.expr) -> Value:
        """What an expression is."""
        method = getattr(self, "_" + type(node).__name__, None)
        if method is None:
            raise self.source.error(node, advice(node))
        found: Value = method(node)
        return found

    def _Once(self, node: Once) -> Value:
        if node.found is None:
            node.found = self.value(node.node)
        found: Value = node.found
        return found

    def atom(self, node: ast.expr) -> Any:
        """The atom of an expression's value."""
        return self.to_atom(self.value(node), node)

    def to_atom(self, value: Value, node: ast.AST) -> Any:
        """What stands for a value in a graph.

        Raises:
            ScriptError: it exists while compiling alone.
        """
        if isinstance(value, Runtime):
            return value.atom
        if isinstance(value, Row):
            items = Items("tuple", tuple(self.to_atom(item, node) for item in value.items))
            if not value.fields:
                return items
            args = [value.name, Items("tuple", value.fields), items]
            return self.emit("py", "named", args, {}, self.type_of(value), node).atom
        if isinstance(value, Known):
            return self._literal(value.value, node)
        kinds = {ModuleAt: "a submodule", MethodAt: "a method", Bound: "a method"}
        kind = kinds.get(type(value), "this")
        raise self.source.error(
            node, f"{kind} is no value that a program could pass on or keep: call it here"
        )

    def _literal(self, value: Any, node: ast.AST) -> Any:
        if isinstance(value, facula.Tensor):
            return self.constant(value)
        if value is ... or type(value) in (int, float, bool, str, complex) or value is None:
            return value
        if isinstance(value, (facula.Size, tuple, list)) and is_plain(value):
            kind = "list" if isinstance(value, list) else "tuple"
            return Items(kind, tuple(self._literal(item, node) for item in value))
        if type(value) is dict and is_plain(value):
            pairs = value.items()
            return Mapping(
                tuple((self._literal(k, node), self._literal(v, node)) for k, v in pairs)
            )
        if is_plain(value):
            return value
        name = getattr(value, "__name__", repr(value))
        raise self.source.error(
            node,
            f"{name!r} is a {type(value).__name__} of Python, which a program cannot hold: values"
            " are tensors, numbers, strings, dtypes, devices, and tuples, lists and dicts of these",
        )

    def constant(self, tensor: Any) -> Constant:
        """A tensor of the program's own."""
        known = self.constants.get(id(tensor))
        if known is None:
            known = Constant(self.fresh("tensor"), tensor.detach())
            self.constants[id(tensor)] = known
            self.kept.append(tensor)
        return known

    # ---- names and literals

    def _Constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, bytes):
            raise self.source.error(node, "bytes are not in the subset: use a string or a tensor")
        return Known(node.value)

    def _Name(self, node: ast.Name) -> Value:
        found = self.lookup(node.id)
        if found is None:
            raise self.source.error(
                node,
                f"{node.id!r} has no value here: it is assigned in no line before, or in one branch"
                " alone where it stands for a submodule",
            )
        return found

    def lookup(self, name: str) -> Value | None:
        """A local variable, a variable of an outer function, a global, a builtin."""
        if name in self.statics:
            return self.statics[name]
        if name in self.locals:
            return Runtime(Name(self.renamed(name)), self.types.get(name, ""))
        if name in self.assigned:
            return None
        function = self.source.function
        code = function.__code__
        if name in code.co_freevars:
            cell = function.__closure__[code.co_freevars.index(name)]
            try:
                return Known(cell.cell_contents)
            except ValueError:
                return None
        if name in function.__globals__:
            return Known(function.__globals__[name])
        if hasattr(builtins, name):
            return Known(getattr(builtins, name))
        return None

    def _JoinedStr(self, node: ast.JoinedStr) -> Value:
        parts: list[Any] = []
        for piece in node.values:
            if isinstance(piece, ast.Constant):
                parts.append(piece.value)
                continue
            assert isinstance(piece, ast.FormattedValue)
            spec: Any = "" if piece.format_spec is None else self.atom(piece.format_spec)
            conversion = chr(piece.conversion) if piece.conversion > 0 else ""
            held = self.value(piece.value)
            if isinstance(held, Known) and not is_plain(held.value):
                held = Known(getattr(held.value, "__name__", str(held.value)))
            args = [self.to_atom(held, piece), conversion, spec]
            parts.append(self.emit("py", "format", args, {}, "str", piece).atom)
        if all(isinstance(p, str) for p in parts):
            return Known("".join(parts))
        return self.emit("py", "join", parts, {}, "str", node)

    def _several(self, items: list[ast.expr]) -> list[Value]:
        found: list[Value] = []
        for item in items:
            if isinstance(item, ast.Starred):
                inner = self.value(item.value)
                if isinstance(inner, Row):
                    found += inner.items
                    continue
                found.append(Runtime(Star(self.to_atom(inner, item)), "*"))
            else:
                found.append(self.value(item))
        return found

    def _Tuple(self, node: ast.Tuple) -> Value:
        items = self._several(node.elts)
        if any(isinstance(i, Runtime) and isinstance(i.atom, Star) for i in items):
            parts = [
                i.atom.value
                if isinstance(i, Runtime) and isinstance(i.atom, Star)
                else Items("tuple", (self.to_atom(i, node),))
                for i in items
            ]
            return self.emit("py", "concat", parts, {}, "Tuple", node)
        if all(isinstance(i, Known) and is_plain(i.value) for i in items):
            return Known(tuple(i.value for i in items))  # type: ignore[attr-defined]
        return Row(items)

    def _List(self, node: ast.List) -> Value:
        items = self._several(node.elts)
        if any(isinstance(i, (ModuleAt, MethodAt)) for i in items):
            return Row(items)
        if any(isinstance(i, Runtime) and isinstance(i.atom, Star) for i in items):
            row = self._Tuple(ast.copy_location(ast.Tuple(node.elts, ast.Load()), node))
            return self.emit("py", "list", [self.to_atom(row, node)], {}, "List", node)
        kinds = {self.type_of(i) for i in items}
        kind = kinds.pop() if len(kinds) == 1 else ""
        atoms = tuple(self.to_atom(i, node) for i in items)
        return Runtime(Items("list", atoms), f"List[{kind}]" if kind else "List")

    def _Dict(self, node: ast.Dict) -> Value:
        pairs = []
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                raise self.source.error(value, "`**` is not in the subset: use update()")
            pairs.append((self.atom(key), self.atom(value)))
        return Runtime(Mapping(tuple(pairs)), "Dict")

    def _Slice(self, node: ast.Slice) -> Value:
        parts = [None if p is None else self.atom(p) for p in (node.lower, node.upper, node.step)]
        return Runtime(Span(*parts), "slice")

    def type_of(self, value: Value) -> str:
        """The type of a value, as far as known."""
        if isinstance(value, Runtime):
            return value.type
        if isinstance(value, Row) and value.fields:
            return f"NamedTuple[{', '.join(value.fields)}]"
        if isinstance(value, Row):
            kinds = [self.type_of(i) for i in value.items]
            return f"Tuple[{', '.join(kinds)}]" if kinds and all(kinds) else "Tuple"
        if isinstance(value, Known):
            return _types.of_value(value.value)
        return ""

    # ---- operators

    def _BinOp(self, node: ast.BinOp) -> Value:
        return self.binary(BINARY[type(node.op).__name__], node.left, node.right, node)

    def binary(self, op: str, left: ast.expr, right: ast.expr, node: ast.AST) -> Value:
        """An operator of two values; of constants, its result."""
        a, b = self.value(left), self.value(right)
        if isinstance(a, Known) and isinstance(b, Known) and is_plain(a.value):
            if isinstance(a.value, str) and op == "mod" and not isinstance(b.value, str):
                return self.emit("py", op, [a.value, self.to_atom(b, right)], {}, "str", node)
            try:
                return Known(_library.PYTHON[op](a.value, b.value))
            except Exception as error:
                raise self.source.error(node, str(error)) from None
        if op == "add" and isinstance(a, Row) and isinstance(b, Row):
            return Row([*a.items, *b.items])
        kinds = (self.type_of(a), self.type_of(b))
        kind = "Tensor" if "Tensor" in kinds else ""
        if not kind and all(k in _NUMBERS for k in kinds):
            kind = "float" if "float" in kinds or op == "truediv" else "int"
            kind = "" if op == "pow" else kind
        elif not kind and kinds[0] == kinds[1] and op == "add":
            kind = kinds[0]
        elif kinds[0] == "str" and op == "mod":
            kind = "str"
        atoms = [self.to_atom(a, left), self.to_atom(b, right)]
        return self.emit("py", op, atoms, {}, kind, node)

    def _UnaryOp(self, node: ast.UnaryOp) -> Value:
        op = _UNARY[type(node.op).__name__]
        value = self.value(node.operand)
        if isinstance(value, Known):
            return Known(_library.PYTHON[op](value.value))
        if op == "not_" and isinstance(value, Row):
            return Known(not value.items)
        kind = "bool" if op == "not_" else self.type_of(value)
        return self.emit("py", op, [self.to_atom(value, node)], {}, kind, node)

    def _Compare(self, node: ast.Compare) -> Value:
        if len(node.ops) > 1:  # a < b < c: the middle ones are computed once
            parts: list[ast.expr] = []
            left: ast.expr = node.left
            for op, right in zip(node.ops, map(once, node.comparators), strict=True):
                parts.append(ast.copy_location(ast.Compare(left, [op], [right]), node))
                left = right
            return self._BoolOp(ast.copy_location(ast.BoolOp(ast.And(), parts), node))
        name = type(node.ops[0]).__name__
        a, b = self.value(node.left), self.value(node.comparators[0])
        if isinstance(a, Known) and isinstance(b, Known):
            found = _library.PYTHON["contains"](b.value, a.value) if "In" in name else None
            if found is None:
                found = _library.PYTHON[_COMPARED[name]](a.value, b.value)
            return Known(found != (name == "NotIn")) if "In" in name else Known(found)
        if name in ("Is", "IsNot"):
            known = self._is_none(a, b)
            if known is not None:
                return Known(known == (name == "Is"))
        args = [self.to_atom(a, node.left), self.to_atom(b, node.comparators[0])]
        if name in ("In", "NotIn"):
            found = self.emit("py", "contains", args[::-1], {}, "bool", node)
            if name == "In":
                return found
            return self.emit("py", "not_", [found.atom], {}, "bool", node)
        kinds = (self.type_of(a), self.type_of(b))
        kind = "Tensor" if "Tensor" in kinds and name not in ("Is", "IsNot") else "bool"
        return self.emit("py", _COMPARED[name], args, {}, kind, node)

    def _is_none(self, a: Value, b: Value) -> bool | None:
        """Whether `a is None`, where that is known while compiling."""
        if not (isinstance(b, Known) and b.value is None):
            return None
        if isinstance(a, (ModuleAt, MethodAt, Row)):
            return False
        if isinstance(a, Runtime) and isinstance(a.atom, Path) and a.type == "Tensor":
            return False  # a parameter or buffer that there is, and that nothing sets
        return None

    def _BoolOp(self, node: ast.BoolOp) -> Value:
        stop_at = isinstance(node.op, ast.Or)
        rest = list(node.values)
        while rest:  # parts that are known decide, or are left out
            first = self.value(rest[0])
            if not isinstance(first, (Known, ModuleAt)):
                break
            if bool(getattr(first, "value", True)) == stop_at or len(rest) == 1:
                return first
            rest.pop(0)
        if len(rest) == 1:
            return first
        out = self.fresh("and" if not stop_at else "or")
        kind = self.type_of(first)
        self.copy(out, kind, self.to_atom(first, rest[0]), rest[0])
        for part in rest[1:]:
            test: Any = Name(out)
            if stop_at:
                test = self.emit("py", "not_", [test], {}, "bool", part).atom
            with self.inner() as block:
                value = self.value(part)
                if self.type_of(value) != kind:
                    kind = ""
                self.copy(out, kind, self.to_atom(value, part), part)
            self.block.append(When(test, block, [], where=self.source.where(part)))
        return Runtime(Name(out), kind)

    def _IfExp(self, node: ast.IfExp) -> Value:
        test = self.value(node.test)
        known = self.truth(test)
        if known is not None:
            return self.value(node.body if known else node.orelse)
        out = self.fresh("chosen")
        with self.inner() as then:
            a = self.value(node.body)
            self.copy(out, self.type_of(a), self.to_atom(a, node.body), node.body)
        with self.inner() as other:
            b = self.value(node.orelse)
            self.copy(out, self.type_of(b), self.to_atom(b, node.orelse), node.orelse)
        made = When(self.to_atom(test, node.test), then, other, where=self.source.where(node))
        self.block.append(made)
        same = self.type_of(a) == self.type_of(b)
        return Runtime(Name(out), self.type_of(a) if same else "")

    def truth(self, value: Value) -> bool | None:
        """The truth of a value, where it is known while compiling."""
        if isinstance(value, Known):
            return bool(value.value)
        if isinstance(value, (ModuleAt, MethodAt)):
            return True
        if isinstance(value, Row):
            return bool(value.items)
        return None

    # ---- items and attributes

    def _Subscript(self, node: ast.Subscript) -> Value:
        owner, key = self.value(node.value), self.value(node.slice)
        if isinstance(owner, ModuleAt):
            return self._item_of_module(owner, key, node)
        if isinstance(owner, Row) and isinstance(key, Known) and type(key.value) is int:
            if not -len(owner.items) <= key.value < len(owner.items):
                raise self.source.error(node, f"there are {len(owner.items)} items")
            return owner.items[key.value]
        if isinstance(owner, Row) and isinstance(key, Runtime) and isinstance(key.atom, Span):
            parts = (key.atom.start, key.atom.stop, key.atom.step)
            if all(p is None or type(p) is int for p in parts):
                return Row(owner.items[slice(*parts)])
        if isinstance(owner, Known) and isinstance(key, Known):
            if is_plain(owner.value):
                try:
                    return Known(owner.value[key.value])
                except (TypeError, LookupError) as error:
                    raise self.source.error(node, str(error)) from None
            return Known(owner.value[key.value])  # List[int], where a type is a value
        args = [self.to_atom(owner, node.value), self.to_atom(key, node.slice)]
        return self.emit("py", "getitem", args, {}, self._item_type(owner, key), node)

    def _item_type(self, owner: Value, key: Value) -> str:
        kind = self.type_of(owner)
        head, args = _types.split(kind)
        if head == "Tensor":
            return "Tensor"
        if isinstance(key, Runtime) and isinstance(key.atom, Span):
            return kind if head in ("List", "str") else ""
        if head in ("List", "Dict") and args:
            return args[-1]
        if head == "Tuple" and isinstance(key, Known) and type(key.value) is int:
            return args[key.value] if -len(args) <= key.value < len(args) else ""
        return "str" if head == "str" else ""

    def _item_of_module(self, owner: ModuleAt, key: Value, node: ast.Subscript) -> Value:
        if isinstance(key, Runtime) and isinstance(key.atom, Span):
            parts = (key.atom.start, key.atom.stop, key.atom.step)
            if all(p is None or type(p) is int for p in parts):
                return Row(self.items_of(owner, node)[slice(*parts)])
        if not isinstance(key, Known):
            raise self.source.error(
                node,
                "which submodule this is is known only when the program runs; write `for i, layer"
                " in enumerate(self.layers):` and `if i == index:` within it",
            )
        names = list(owner.module._modules)
        if type(key.value) is int:
            if not -len(names) <= key.value < len(names):
                raise self.source.error(node, f"there are {len(names)} submodules")
            name = names[key.value]
        else:
            name = key.value
        if name not in names:
            raise self.source.error(node, f"there is no submodule {name!r}, there are {names}")
        return ModuleAt((*owner.path, name), owner.module._modules[name])

    def items_of(self, owner: ModuleAt, node: ast.AST) -> list[Value]:
        """The submodules, or the parameters, of a list of them."""
        if isinstance(owner.module, nn.ParameterList):
            return [
                Runtime(Path((*owner.path, name)), "Tensor") for name in owner.module._parameters
            ]
        if not isinstance(owner.module, (nn.ModuleList, nn.Sequential, nn.ModuleDict)):
            kind = type(owner.module).__name__
            raise self.source.error(
                node, f"a {kind} cannot be gone through: ModuleList, ModuleDict and Sequential can"
            )
        return [ModuleAt((*owner.path, n), m) for n, m in owner.module._modules.items()]

    def _Attribute(self, node: ast.Attribute) -> Value:
        return self.attribute(self.value(node.value), node.attr, node, False)

    def attribute(self, owner: Value, name: str, node: ast.AST, called: bool) -> Value:
        """An attribute of a value; `called` says whether a method is meant."""
        if isinstance(owner, ModuleAt):
            return self._attribute_of_module(owner, name, node)
        if isinstance(owner, SuperOf):
            function = getattr(super(owner.kind, owner.owner.module), name, None)
            if function is None:
                raise self.source.error(node, f"no base class has a method {name!r}")
            return MethodAt(owner.owner, name, getattr(function, "__func__", function))
        if isinstance(owner, Known) and not isinstance(owner.value, (facula.Tensor, str)):
            try:
                found = getattr(owner.value, name)
            except AttributeError as error:
                raise self.source.error(node, str(error)) from None
            if not (called and is_plain(owner.value)):
                return Known(found)
        kind = self.type_of(owner)
        head, fields = _types.split(kind)
        if head == "NamedTuple" and name in fields and not called:
            at = fields.index(name)
            if isinstance(owner, Row):
                return owner.items[at]
            return self.emit("py", "getitem", [self.to_atom(owner, node), at], {}, "", node)
        runtime = Runtime(self.to_atom(owner, node), kind)
        known = _library.METHODS if called else _library.READABLE
        if name not in known:
            what = "method" if called else "attribute"
            whose = "tensors have" if kind == "Tensor" else "values in a program have"
            raise self.source.error(node, f"{whose} no {what} {name!r}{known.near(name)}")
        if called:
            return Bound(runtime, name)
        types_of = {"shape": "List[int]", "dtype": "dtype", "device": "device", "ndim": "int"}
        flags = ("requires_grad", "is_cuda", "is_leaf", "is_sparse", "is_quantized", "is_meta")
        found = types_of.get(name, "bool" if name in flags else "")
        if not found and kind == "Tensor":
            found = "Tensor" if name in ("T", "mT", "H", "mH", "real", "imag", "data") else ""
        return self.emit("get", name, [runtime.atom], {}, found, node)

    def _attribute_of_module(self, owner: ModuleAt, name: str, node: ast.AST) -> Value:
        module = owner.module
        for place in ("_parameters", "_buffers"):
            if name in module.__dict__[place]:
                found = module.__dict__[place][name]
                return Known(None) if found is None else self._read(owner, name, "Tensor", node)
        if name in module._modules:
            child = module._modules[name]
            return Known(None) if child is None else ModuleAt((*owner.path, name), child)
        if name == "training":
            return Runtime(Path((*owner.path, name)), "bool")
        if name in module.__dict__:
            return self._plain_attribute(owner, name, node)
        found = getattr(type(module), name, None)
        if isinstance(found, property):
            function = found.fget
            return self.call_method(MethodAt(owner, name, function), [], {}, node)
        if isinstance(found, types.FunctionType) or callable(found):
            raw = next((vars(c)[name] for c in type(module).__mro__ if name in vars(c)), None)
            if isinstance(raw, staticmethod):
                return Known(raw.__func__)
            return MethodAt(owner, name)
        if found is not None or hasattr(type(module), name):
            return Known(found)
        if name == "__class__":
            return Known(type(module))
        raise self.source.error(
            node, f"{type(module).__name__} has no attribute {name!r}; set it in __init__"
        )

    def _read(self, owner: ModuleAt, name: str, kind: str, node: ast.AST) -> Runtime:
        """An attribute's value: as it is now, where some method sets it."""
        path = Path((*owner.path, name))
        if name not in self.unit.changing:
            return Runtime(path, kind)
        out = self.fresh(name)
        self.copy(out, kind, path, node)
        return Runtime(Name(out), kind)

    def _plain_attribute(self, owner: ModuleAt, name: str, node: ast.AST) -> Value:
        module = owner.module
        value = module.__dict__[name]
        kind = type(module)
        final = name in getattr(kind, "__constants__", ()) or "Final" in str(
            getattr(kind, "__annotations__", {}).get(name, "")
        )
        if value is None or (final and is_plain(value)):
            annotated = "Optional" in str(getattr(kind, "__annotations__", {}).get(name, ""))
            if value is not None or not annotated:
                return Known(value)
        if is_plain(value):
            return self._read(owner, name, _types.of_value(value), node)
        if isinstance(value, facula.Tensor):
            return self._read(owner, name, "Tensor", node)
        if callable(value) or isinstance(value, (types.ModuleType, type)):
            return Known(value)
        raise self.source.error(
            node,
            f"the attribute {name!r} is a {type(value).__name__}, which a program cannot keep:"
            " attributes are tensors, numbers, strings, and tuples, lists and dicts of these;"
            " register tensors by register_buffer, several modules in a ModuleList",
        )

    # ---- comprehensions

    def _ListComp(self, node: Any) -> Value:
        if len(node.generators) != 1 or node.generators[0].is_async:
            raise self.source.error(node, "a comprehension of two loops: write loops with append()")
        generator = node.generators[0]
        over = self.iterated(generator.iter)
        if isinstance(over, Row):
            found = []
            for item in over.items:
                with self.scope(generator.target, node):
                    self.assign(generator.target, item)
                    if any(self.truth(self.value(t)) is False for t in generator.ifs):
                        continue
                    found.append(self.value(node.elt))
            if any(isinstance(f, (ModuleAt, MethodAt)) for f in found):
                return Row(found)
            return Runtime(Items("list", tuple(self.to_atom(f, node) for f in found)), "List")
        out = self.fresh("listed")
        self.copy(out, "List", Items("list", ()), node)
        self._comprehend(node, over, lambda: self.emit_into(out, "append", [node.elt], node))
        return Runtime(Name(out), self.comprehended("List"))

    _GeneratorExp = _ListComp

    def _DictComp(self, node: ast.DictComp) -> Value:
        if len(node.generators) != 1:
            raise self.source.error(node, "a comprehension of two loops: write loops")
        over = self.iterated(node.generators[0].iter)
        if isinstance(over, Row):
            raise self.source.error(node, "a dict of submodules' results: write a loop")
        out = self.fresh("mapped")
        self.copy(out, "Dict", Mapping(()), node)

        def put() -> None:
            args = [Name(out), self.atom(node.key), self.atom(node.value)]
            self.block.append(Call([], "py", "setitem", args, where=self.source.where(node)))

        self._comprehend(node, over, put)
        return Runtime(Name(out), "Dict")

    def comprehended(self, kind: str) -> str:
        return kind
