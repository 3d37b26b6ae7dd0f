"""Formulas of operators for kernel languages like C, and for NumPy.

A device needs one pointwise template and one reduction template. `formulas()` lists what goes
into the first, backward formulas included, `reductions()` what goes into the second; `body()` writes
one of them in a language, for a class of types. In the text, `T` is the type that is computed in
and `R` its real type. The words of the vocabulary (`exp`, `maximum`, ...) are the functions of
`facula/math.h`.
"""

from __future__ import annotations

import ast
import json
import os
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

# Another schema than that of the installed facula: a build, before there is one, names its own.
SCHEMA: str | None = None
CLASSES = ("bool", "int", "float", "complex")
DTYPES = {
    "bool": ("bool",),
    "int": ("uint8", "int8", "int16", "int32", "int64"),
    "float": ("float32", "float64"),
    "complex": ("complex64", "complex128"),
}
_SIGNS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_FUNCTIONS: dict[type, str] = {
    ast.Mod: "remainder", ast.FloorDiv: "floor_divide", ast.LShift: "shift_left",
    ast.RShift: "shift_right",
}  # fmt: skip


@dataclass(frozen=True)
class Language:
    """How a kernel language spells what the formulas need."""

    function: str  # of {name}
    cast: str  # {value} to {type}
    choice: str  # {test}, {yes}, {no}
    infinity: str
    nan: str

    def call(self, name: str, *args: str) -> str:
        return f"{self.function.format(name=name)}({', '.join(args)})"


CPP = Language(
    "math::{name}", "{type}({value})", "math::where({test}, {yes}, {no})",
    "math::infinity<R>", "math::nan<R>",
)  # fmt: skip
"""C++ and its kin (CUDA, HIP, Metal): overloaded functions in a namespace `math`."""
C = Language(
    "FA({name})", "(({type})({value}))", "(({test}) ? ({yes}) : ({no}))",
    "FA_INFINITY", "FA_NAN",
)  # fmt: skip
"""C and its kin (OpenCL C): a macro `FA(name)` gives the function for the kernel's `T`."""


@dataclass(frozen=True)
class Formula:
    """One pointwise operator, or the variant of it that a str argument chooses."""

    op: str
    variant: str
    texts: tuple[str, ...]  # one a result
    inputs: tuple[str, ...]
    masks: tuple[str, ...]  # inputs that are read as bool
    values: tuple[tuple[str, str, bool], ...]  # numbers: name, type, optional
    classes: tuple[str, ...]
    promote: str

    @property
    def name(self) -> str:
        """An identifier of its own."""
        return f"{self.op}_{self.variant}".rstrip("_").replace(".", "_").replace("-", "_")


@dataclass(frozen=True)
class Reduction:
    """One reduction: `step` gives the accumulator `acc` after an element `self`; it begins with
    `start`, or with the first element. With `index` instead, the result is the place of the element
    that was taken last, and `index` tells whether `self` takes the place of `acc`."""

    op: str
    start: str | None
    step: str | None
    index: str | None
    classes: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.op.replace(".", "_")


@dataclass(frozen=True)
class Body:
    """A formula in a kernel language: what to read, the statements, the values."""

    inputs: tuple[tuple[str, str], ...]  # variable and type, `T` or `bool`
    values: tuple[
        tuple[str, str, int, str | None], ...
    ]  # variable, type, place, its flag if optional
    statements: tuple[str, ...]
    outputs: tuple[str, ...]
    output_type: str


@lru_cache(maxsize=1)
def _schema() -> dict[str, Any]:
    path = SCHEMA
    if path is None:
        from facula import _C

        path = os.path.join(os.path.dirname(_C.__file__), "ops.json")
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _records() -> list[dict[str, Any]]:
    return _schema()["operators"]


def constants() -> dict[str, float]:
    """Names that stand for numbers in formulas, beside `inf` and `nan`."""
    return _schema()["vocabulary"]["constants"]


@lru_cache(maxsize=1)
def formulas() -> tuple[Formula, ...]:
    """Every formula that a device's pointwise template is asked for; the first one copies."""
    found = [Formula("copy", "", ("self",), ("self",), (), (), CLASSES, "same")]
    for record in _records():
        scalar = record.get("scalar")
        if not scalar:
            continue
        inputs, values, choices = [], [], 0
        for a in record["arguments"]:
            kind = a["type"].rstrip("?!")
            if kind == "Tensor":
                inputs.append(a["name"])
            elif kind in ("Scalar", "float", "int", "bool"):
                values.append((a["name"], kind, a["type"].endswith("?")))
            choices += kind == "str"
        outputs = {r["name"] for r in record["returns"]}
        by_variant = choices and set(scalar) != outputs
        groups = (
            [(k, (v,)) for k, v in scalar.items()] if by_variant else [("", tuple(scalar.values()))]
        )
        for variant, texts in groups:
            found.append(
                Formula(
                    record["name"], variant, texts, tuple(inputs), tuple(record.get("masks", ())),
                    tuple(values), tuple(record.get("dtypes", ("float",))), record["promote"],
                )
            )  # fmt: skip
    return tuple(found)


@lru_cache(maxsize=1)
def reductions() -> tuple[Reduction, ...]:
    """Every reduction that a device's reduction template is asked for."""
    return tuple(
        Reduction(
            r["name"], r["reduction"].get("start"), r["reduction"].get("step"), r["reduction"].get("index"),
            tuple(r.get("dtypes", ("float",))),
        )
        for r in _records()
        if r.get("reduction")
    )  # fmt: skip


def primitives() -> list[str]:
    """What a device must have kernels for: no formula, reduction or decomposition gives them."""
    return [
        r["name"]
        for r in _records()
        if r.get("dispatch")
        and not (r.get("composite") or r.get("reduction") or r["kind"] == "view")
        and not {"any", "device"} & set(r["dispatch"])
    ]


def body(formula: Formula | Reduction, class_: str, language: Language = CPP) -> Body:
    """A formula for a class of types ("bool", "int", "float" or "complex")."""
    if isinstance(formula, Reduction):
        types = {"acc": "T", "self": "T"}
        emitter = _Emitter(class_, types, language)
        texts = [t for t in (formula.start, formula.step, formula.index) if t is not None]
        made = [emitter.typed(t, "bool" if t is formula.index else "T") for t in texts]
        return Body((("self", "T"),), (), (), tuple(made), "T")
    types = {n: "bool" if n in formula.masks else "T" for n in formula.inputs}
    trees = [ast.parse(t.strip().replace("\n", " "), mode="eval").body for t in formula.texts]
    used = {n.id for t in trees for n in ast.walk(t) if isinstance(n, ast.Name)}
    values = []
    for place, (name, kind, optional) in enumerate(formula.values):
        if name not in used:
            continue
        types[name] = "bool" if kind == "bool" else "T"
        values.append((_variable(name), types[name], place, f"has_{name}" if optional else None))
    emitter = _Emitter(class_, types, language, {v[0] for v in formula.values})
    output_type = {"bool": "bool", "real": "R"}.get(formula.promote, "T")
    for tree in trees:
        emitter.count(tree)
    outputs = [emitter.cast(emitter.code(tree), output_type)[0] for tree in trees]
    return Body(
        tuple((_variable(n), types[n]) for n in formula.inputs), tuple(values),
        tuple(emitter.statements), tuple(outputs), output_type,
    )  # fmt: skip


def _variable(name: str) -> str:
    return f"{name}_"


class _Emitter:
    """Text of expressions with their types; what is written twice becomes a statement."""

    def __init__(
        self, class_: str, types: dict[str, str], language: Language, numbers: Collection[str] = ()
    ) -> None:
        self.class_, self.types, self.language = class_, types, language
        self.numbers = numbers  # names of what is one number for all elements
        self.statements: list[str] = []
        self.counts: Counter[str] = Counter()
        self.known: dict[str, tuple[str, str]] = {}

    def typed(self, text: str, type_: str) -> str:
        tree = ast.parse(text.strip(), mode="eval").body
        code = self.code(tree)
        return (self.truth(code) if type_ == "bool" else self.cast(code, type_))[0]

    def count(self, node: ast.AST) -> None:
        key = ast.dump(node)
        self.counts[key] += 1
        if self.counts[key] == 1:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.count(child)

    def code(self, node: ast.expr) -> tuple[str, str]:
        key = ast.dump(node)
        if key in self.known:
            return self.known[key]
        code = self._code(node)
        plain = isinstance(node, (ast.Name, ast.Constant))
        return self.bind(key, code) if self.counts[key] > 1 and not plain else code

    def bind(self, key: str, code: tuple[str, str]) -> tuple[str, str]:
        local = (f"t{len(self.statements)}", code[1])
        self.statements.append(f"const {code[1]} {local[0]} = {code[0]};")
        self.known[key] = local
        return local

    def _code(self, node: ast.expr) -> tuple[str, str]:
        match node:
            case ast.Constant(value=value):
                return self.literal(float(value)), "R"
            case ast.Name(id=text):
                return self.name(text)
            case ast.IfExp(test=test, body=yes, orelse=no):
                return self.where(test, yes, no)
            case ast.Call(func=ast.Name(id="where"), args=[test, yes, no]):
                return self.where(test, yes, no)
            case ast.Call(func=ast.Name(id=function), args=args):
                return self.call(function, [self.code(a) for a in args])
            case ast.BoolOp(op=op, values=values):
                sign = " & " if isinstance(op, ast.And) else " | "
                return f"({sign.join(self.truth(self.code(v))[0] for v in values)})", "bool"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"(!{self.truth(self.code(operand))[0]})", "bool"
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.code(operand)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                text, type_ = self.numeric(self.code(operand))
                return self.narrow(f"(-{text})", type_)
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                text, type_ = self.numeric(self.code(operand))
                return self.language.call("invert", text), type_
            case ast.Compare():
                return self.compare(node)
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return self.power(left, right)
            case ast.BinOp(left=left, op=op, right=right):
                number = isinstance(left, ast.Name) and left.id in self.numbers
                return self.binary(type(op), self.code(left), self.code(right), number)
        raise ValueError(f"{ast.unparse(node)} is no formula of elements")

    def literal(self, value: float) -> str:
        text = f"{value!r}" if not value.is_integer() or abs(value) >= 1e9 else str(int(value))
        return self.language.cast.format(type="R", value=text)

    def name(self, text: str) -> tuple[str, str]:
        if text in self.types:
            return _variable(text), self.types[text]
        special = {"inf": self.language.infinity, "nan": self.language.nan}
        return special.get(text) or self.literal(constants()[text]), "R"

    def where(self, test: ast.expr, yes: ast.expr, no: ast.expr) -> tuple[str, str]:
        a, b = self.common(self.code(yes), self.code(no))
        text = self.truth(self.code(test))[0]
        return self.language.choice.format(test=text, yes=a[0], no=b[0]), a[1]

    def call(self, name: str, args: list[tuple[str, str]]) -> tuple[str, str]:
        type_ = "T" if self.class_ != "complex" or "T" in {a[1] for a in args} else "R"
        text = self.language.call(name, *(self.cast(a, type_)[0] for a in args))
        words = _schema()["vocabulary"]
        if name in words["predicates"]:
            return text, "bool"
        return text, "R" if name in words["real_valued"] and self.class_ == "complex" else type_

    def compare(self, node: ast.Compare) -> tuple[str, str]:
        parts, left = [], node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, (ast.Is, ast.IsNot)):
                assert isinstance(left, ast.Name)
                parts.append(f"(!has_{left.id})" if isinstance(op, ast.Is) else f"has_{left.id}")
            else:
                a, b = self.common(self.code(left), self.code(right))
                parts.append(f"({a[0]} {_SIGNS[type(op)]} {b[0]})")
            left = right
        return (parts[0] if len(parts) == 1 else f"({' & '.join(parts)})"), "bool"

    def binary(
        self, op: type, a: tuple[str, str], b: tuple[str, str], number: bool = False
    ) -> tuple[str, str]:
        a, b = self.numeric(a), self.numeric(b)
        type_ = "T" if "T" in (a[1], b[1]) else "R"
        if op in _FUNCTIONS:
            a, b = self.common(a, b)
            return self.language.call(_FUNCTIONS[op], a[0], b[0]), type_
        if (
            self.class_ == "complex"
            and b[1] == "T"
            and (op is ast.Div or (op is ast.Mult and a[1] == "T"))
        ):
            word = "div" if op is ast.Div else "scale" if number else "mul"
            return self.language.call(word, a[0], b[0]), "T"
        return self.narrow(f"({a[0]} {_SIGNS[op]} {b[0]})", type_)

    def power(self, left: ast.expr, right: ast.expr) -> tuple[str, str]:
        n = right.value if isinstance(right, ast.Constant) else None
        if n in (2, 3, 4):
            base = self.numeric(self.code(left))
            if not isinstance(left, ast.Name):
                base = self.known.get(ast.dump(left)) or self.bind(ast.dump(left), base)
            square = self.binary(ast.Mult, base, base)
            if n == 2:
                return square
            if n == 4:
                square = base = self.bind(f"{ast.dump(left)}**2", square)
            return self.binary(ast.Mult, square, base)
        if n == 0.5 and self.class_ in ("float", "complex"):
            text, type_ = self.code(left)
            return self.language.call("sqrt", text), type_
        a, b = self.common(self.code(left), self.code(right))
        return self.language.call("pow", a[0], b[0]), a[1]

    def truth(self, code: tuple[str, str]) -> tuple[str, str]:
        return code if code[1] == "bool" else (self.language.call("truth", code[0]), "bool")

    def numeric(self, code: tuple[str, str]) -> tuple[str, str]:
        return self.cast(code, "R") if code[1] == "bool" and self.class_ != "bool" else code

    def narrow(self, text: str, type_: str) -> tuple[str, str]:
        """Small integers compute in int; the value wraps in the type."""
        if self.class_ in ("bool", "int"):
            return self.language.cast.format(type=type_, value=text), type_
        return text, type_

    def cast(self, code: tuple[str, str], type_: str) -> tuple[str, str]:
        if code[1] == type_ or (self.class_ != "complex" and {code[1], type_} == {"T", "R"}):
            return code[0], type_
        if type_ == "bool":
            return self.truth(code)
        return self.language.cast.format(type=type_, value=code[0]), type_

    def common(
        self, a: tuple[str, str], b: tuple[str, str]
    ) -> tuple[tuple[str, str], tuple[str, str]]:
        if a[1] == b[1]:
            return a, b
        type_ = "T" if "T" in (a[1], b[1]) else "R"
        return self.cast(a, type_), self.cast(b, type_)
