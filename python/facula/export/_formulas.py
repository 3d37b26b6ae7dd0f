"""The texts of ops.json that the exporter evaluates: keys `onnx`, `composite` and `scalar`.

`onnx` and `composite` are programs over values; `scalar` is a formula of elements, whose words are
functions that the schema's vocabulary says in ONNX.
"""

from __future__ import annotations

import ast
import builtins
import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import facula
from facula.export._wires import Dim, Held, Wire
from facula.jit import _library

Writer = Any  # `_writer.Writer`, which stands above

__all__ = ["Elements", "evaluate"]


@functools.cache
def _compiled(text: str, arguments: tuple[str, ...]) -> Any:
    """The code of a text, as that of a function."""
    try:
        tree: Any = ast.parse(text, mode="eval")
        body: list[ast.stmt] = [ast.Return(tree.body)]
    except SyntaxError:
        body = ast.parse(text).body
    spec = ast.arguments([], [ast.arg(a) for a in arguments], None, [], [], None, [])
    kwargs = {"type_params": []} if "type_params" in ast.FunctionDef._fields else {}
    function = ast.FunctionDef("formula", spec, body, [], None, None, **kwargs)
    module = ast.fix_missing_locations(ast.Module([function], []))
    return compile(module, "<ops.json>", "exec")


class _Space(dict[str, Any]):
    """Names of a program: of operators of ONNX, of facula, and of what formulas may call."""

    def __init__(self, writer: Writer, functions: dict[str, Any]) -> None:
        super().__init__(functions)
        self.writer = writer

    def __missing__(self, name: str) -> Any:
        constants = _library.schema()["vocabulary"]["constants"]
        if name in constants:
            return constants[name]
        if name in ("inf", "nan"):
            return float(name)
        if name in _library.RAISED:
            return _library.RAISED[name]
        if name in ("len", "range", "int", "float", "list", "str"):
            return getattr(builtins, name)
        if name[:1].isupper():
            return functools.partial(self.writer.node, name)
        found = getattr(facula, name, None)
        if isinstance(found, (facula.dtype, facula.memory_format)):
            return found
        return functools.partial(_called, self.writer, name)


def _called(writer: Writer, name: str, *args: Any, **kwargs: Any) -> Any:
    """An operator of facula, or Python's function of the name where no tensor is given."""
    given = [*args, *kwargs.values()]
    given += [x for a in given if isinstance(a, (list, tuple)) for x in a]
    tensors = any(isinstance(a, Held) for a in given)
    plain = _PLAIN.get(name) or getattr(builtins, name, None)
    if name in _FACTS or (plain is not None and not tensors):
        return (_FACTS.get(name) or plain)(*args, **kwargs)  # type: ignore[misc]
    return writer.call(name, args, kwargs)


def evaluate(writer: Writer, text: str, values: dict[str, Any], functions: dict[str, Any]) -> Any:
    """What a program gives for these arguments."""
    space = _Space(writer, functions)
    exec(_compiled(text, tuple(values)), space)
    return space["formula"](**values)


def _compute_type(dtype: Any) -> Any:
    return facula.float32 if dtype in (facula.float16, facula.bfloat16) else dtype


_HALVES = {facula.complex64: facula.float32, facula.complex128: facula.float64}
#: What programs ask of dtypes and sizes.
_FACTS: dict[str, Callable[..., Any]] = {
    "is_integral": lambda d: not d.is_floating_point and not d.is_complex,
    "is_complex": lambda d: d.is_complex,
    "is_floating": lambda d: d.is_floating_point,
    "compute_type": _compute_type,
    "to_real": lambda d: _HALVES.get(d, d),
    "finfo_eps": lambda d: facula.finfo(d).eps,
    "finfo_max": lambda d: facula.finfo(d).max,
    "finfo_min": lambda d: facula.finfo(d).min,
    "promote_types": facula.promote_types,
    "get_default_dtype": facula.get_default_dtype,
    "grad_enabled": lambda: False,
    "widest_float": lambda device: facula.float64,
    "wrap_dim": lambda dim, n: dim % max(n, 1),
    "result_dtype": lambda a, b: facula.result_type(*(getattr(v, "value", v) for v in (a, b))),
    "inverse_permutation": lambda dims: [list(dims).index(i) for i in range(len(dims))],
}
_PLAIN: dict[str, Callable[..., Any]] = {
    **{n: getattr(math, n) for n in ("sqrt", "log", "exp", "floor", "ceil", "prod")},
    "pow": operator.pow,
}
_COMPARED = {
    ast.Lt: "Less", ast.LtE: "LessOrEqual", ast.Gt: "Greater", ast.GtE: "GreaterOrEqual",
    ast.Eq: "Equal", ast.NotEq: "Equal",
}  # fmt: skip
_SIGNS: dict[type, Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.Pow: operator.pow,
}  # fmt: skip
_BITS: dict[type, str] = {ast.BitAnd: "And", ast.BitOr: "Or", ast.BitXor: "Xor"}


class Elements:
    """Writes a formula of elements.

    Args:
        values: wires of tensors, all of one dtype but for masks, and numbers, by argument.
        like: a wire of the dtype that is computed in.
    """

    def __init__(self, writer: Writer, values: dict[str, Any], like: Wire) -> None:
        self.writer, self.values, self.like = writer, values, like

    def write(self, text: str) -> Any:
        """The wire, or the number, of a formula."""
        return self._value(ast.parse(text, mode="eval").body)

    def _value(self, node: Any) -> Any:
        method = getattr(self, "_" + type(node).__name__, None)
        if method is None:
            raise self.writer.unsupported(f"its formula has {type(node).__name__}")
        return method(node)

    def _Constant(self, node: ast.Constant) -> Any:
        return node.value

    def _Name(self, node: ast.Name) -> Any:
        if node.id in self.values:
            value = self.values[node.id]
            return self.writer.number(value, self.like) if isinstance(value, Dim) else value
        constants = _library.schema()["vocabulary"]["constants"]
        if node.id in ("inf", "nan"):
            return float(node.id)
        if node.id in constants:
            return constants[node.id]
        raise self.writer.unsupported(f"its formula has the word {node.id!r}")

    def _wire(self, value: Any) -> Any:
        return value if isinstance(value, Wire) else self.writer.number(value, self.like)

    def _BinOp(self, node: ast.BinOp) -> Any:
        a, b = self._value(node.left), self._value(node.right)
        kind = type(node.op)
        if not isinstance(a, Wire) and not isinstance(b, Wire):
            plain = {ast.Mod: operator.mod, ast.FloorDiv: operator.floordiv, **_SIGNS}
            return plain[kind](a, b)
        if kind is ast.Mult and (_is_number(a, 1) or _is_number(b, 1)):
            return b if _is_number(a, 1) else a
        if kind in _SIGNS:
            return _SIGNS[kind](self._wire(a), self._wire(b))
        a, b = self._wire(a), self._wire(b)
        if kind in _BITS and a.dtype == facula.bool:
            return self.writer.node(_BITS[kind], a, b)
        if kind is ast.Mod:
            if a.dtype.is_floating_point:
                return a - self.writer.node("Floor", a / b) * b
            return self.writer.node("Mod", a, b)
        if kind is ast.FloorDiv and a.dtype.is_floating_point:
            return self.writer.node("Floor", a / b)
        raise self.writer.unsupported(f"its formula has the operator {kind.__name__}")

    def _UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = self._value(node.operand)
        if not isinstance(value, Wire):
            return not value if isinstance(node.op, ast.Not) else -value
        if isinstance(node.op, ast.Not):
            return self.writer.node("Not", self._truth(value))
        if isinstance(node.op, ast.USub):
            return -value
        if isinstance(node.op, ast.Invert) and value.dtype == facula.bool:
            return self.writer.node("Not", value)
        raise self.writer.unsupported("its formula inverts bits")

    def _truth(self, value: Any) -> Any:
        if isinstance(value, Wire) and value.dtype != facula.bool:
            return self.writer.node("Cast", value, to=facula.bool)
        if not isinstance(value, Wire):
            return self.writer.node("Cast", self._wire(value), to=facula.bool)
        return value

    def _BoolOp(self, node: ast.BoolOp) -> Any:
        values = [self._value(v) for v in node.values]
        is_and = isinstance(node.op, ast.And)
        rest = []
        for value in values:
            if isinstance(value, Wire):
                rest.append(self._truth(value))
            elif bool(value) != is_and:
                return value
        if not rest:
            return is_and
        found = rest[0]
        for value in rest[1:]:
            found = self.writer.node("And" if is_and else "Or", found, value)
        return found

    def _Compare(self, node: ast.Compare) -> Any:
        left = self._value(node.left)
        found: Any = None
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            right = self._value(comparator)
            if isinstance(op, (ast.Is, ast.IsNot)):
                part: Any = (left is right) == isinstance(op, ast.Is)
            elif not isinstance(left, Wire) and not isinstance(right, Wire):
                part = _COMPARE_PLAIN[type(op)](left, right)
            else:
                part = self.writer.node(_COMPARED[type(op)], self._wire(left), self._wire(right))
                if isinstance(op, ast.NotEq):
                    part = self.writer.node("Not", part)
            found = part if found is None else self.writer.node("And", found, part)
            left = right
        return found

    def _IfExp(self, node: ast.IfExp) -> Any:
        return self._where(node.test, node.body, node.orelse)

    def _where(self, test: ast.expr, yes: ast.expr, no: ast.expr) -> Any:
        chosen = self._value(test)
        if not isinstance(chosen, Wire):
            return self._value(yes if chosen else no)
        a, b = self._wire(self._value(yes)), self._wire(self._value(no))
        return self.writer.node("Where", self._truth(chosen), a, b)

    def _Call(self, node: ast.Call) -> Any:
        name = node.func.id  # type: ignore[attr-defined]
        if name == "where":
            return self._where(*node.args)
        args = [self._value(a) for a in node.args]
        if not any(isinstance(a, Wire) for a in args) and name in _PLAIN:
            return _PLAIN[name](*args)
        word = _library.schema()["vocabulary"]["onnx"].get(name)
        if word is None:
            raise self.writer.unsupported(f"its formula has the function {name}()")
        values = dict(zip(word["arguments"], map(self._wire, args), strict=True))
        return evaluate(self.writer, word["formula"], values, self.writer.functions)


def _is_number(value: Any, number: float) -> bool:
    return type(value) in (int, float) and value == number


_COMPARE_PLAIN: dict[type, Any] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
