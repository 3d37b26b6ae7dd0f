"""Trees of scalar formulas: small immutable expressions with value equality.

`ast` nodes know places but not equality; the symbolic stages need the opposite.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ..schema import signs
from ..schema.model import Formula
from ..schema.signs import sign_of

COMPARISONS = frozenset(signs.COMPARE)
_PRECEDENCE = {
    "or": 1,
    "and": 2,
    "not": 3,
    **dict.fromkeys(COMPARISONS, 4),
    "isnone": 4,
    "|": 5,
    "^": 6,
    "&": 7,
    "<<": 8,
    ">>": 8,
    "+": 9,
    "-": 9,
    "*": 10,
    "/": 10,
    "//": 10,
    "%": 10,
    "neg": 11,
    "~": 11,
    "**": 12,
}


@dataclass(frozen=True)
class Expr:
    """One node: `head` is an operator sign, or one of num, name, call, where, neg, not, isnone."""

    head: str
    args: tuple[Expr, ...] = ()
    text: str = ""  # the literal, the name or the function called
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.head, self.args, self.text)))

    def __hash__(self) -> int:
        return self._hash

    def walk(self) -> Iterator[Expr]:
        yield self
        for arg in self.args:
            yield from arg.walk()

    def names(self) -> set[str]:
        return {e.text for e in self.walk() if e.head == "name"}

    def functions(self) -> set[str]:
        return {e.text for e in self.walk() if e.head == "call"}

    def map(self, change: Callable[[Expr], Expr | None]) -> Expr:
        """Rebuild from the top; where `change` gives a tree, it stands in place of the node."""
        changed = change(self)
        if changed is not None:
            return changed
        return Expr(self.head, tuple(a.map(change) for a in self.args), self.text)

    def substitute(self, values: Mapping[str, Expr]) -> Expr:
        return self.map(lambda e: values.get(e.text) if e.head == "name" else None)

    @property
    def number(self) -> float | None:
        """The value of a literal (with its sign), else None."""
        if self.head == "num":
            return float(self.text)
        if self.head == "neg" and self.args[0].head == "num":
            return -float(self.args[0].text)
        return None

    def __str__(self) -> str:
        return _spell(self, 0)


def num(value: float | str) -> Expr:
    text = value if isinstance(value, str) else repr(value)
    if not isinstance(value, str) and float(value).is_integer() and abs(value) < 1e15:
        text = str(int(value))
    return (
        Expr("neg", (Expr("num", (), text[1:]),)) if text.startswith("-") else Expr("num", (), text)
    )


def name(text: str) -> Expr:
    return Expr("name", (), text)


def call(function: str, *args: Expr) -> Expr:
    return Expr("call", args, function)


def from_formula(formula: Formula) -> Expr:
    assert isinstance(formula.tree, ast.Expression)
    return from_ast(formula.tree.body)


def from_ast(node: ast.expr) -> Expr:
    """The tree of a checked scalar formula."""
    match node:
        case ast.Constant(value=value):
            return num(float(value) if isinstance(value, bool) else repr(value))
        case ast.Name(id=text):
            return name(text)
        case ast.BinOp(left=left, op=op, right=right):
            return Expr(sign_of(op), (from_ast(left), from_ast(right)))
        case ast.UnaryOp(op=op, operand=operand):
            inner = from_ast(operand)
            if isinstance(op, ast.UAdd):
                return inner
            heads = {ast.USub: "neg", ast.Not: "not", ast.Invert: "~"}
            return Expr(heads[type(op)], (inner,))
        case ast.BoolOp(op=op, values=values):
            head = "and" if isinstance(op, ast.And) else "or"
            result = from_ast(values[0])
            for operand in values[1:]:
                result = Expr(head, (result, from_ast(operand)))
            return result
        case ast.Compare():
            return _comparison(node)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return Expr("where", (from_ast(test), from_ast(body), from_ast(orelse)))
        case ast.Call(func=ast.Name(id=function), args=args):
            inner_args = tuple(from_ast(a) for a in args)
            if function == "where":
                return Expr("where", inner_args)
            return Expr("call", inner_args, function)
    raise TypeError(f"{ast.dump(node)} is no scalar formula")


def _comparison(node: ast.Compare) -> Expr:
    left = from_ast(node.left) if not _is_none(node.left) else None
    result: Expr | None = None
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        if isinstance(op, ast.Is | ast.IsNot):
            assert left is not None
            one = Expr("isnone", (left,))
            if isinstance(op, ast.IsNot):
                one = Expr("not", (one,))
        else:
            right = from_ast(right_node)
            assert left is not None
            one = Expr(sign_of(op), (left, right))
            left = right
        result = one if result is None else Expr("and", (result, one))
    assert result is not None
    return result


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _spell(e: Expr, outer: int) -> str:
    """Python text of a tree, with the fewest parentheses that keep its shape."""
    if e.head in ("num", "name"):
        return e.text
    if e.head in ("call", "where"):
        return f"{e.text or e.head}({', '.join(_spell(a, 0) for a in e.args)})"
    level = _PRECEDENCE[e.head]
    if e.head == "isnone":
        text = f"{_spell(e.args[0], level + 1)} is None"
    elif e.head == "not" and e.args[0].head == "isnone":
        level = _PRECEDENCE["isnone"]
        text = f"{_spell(e.args[0].args[0], level + 1)} is not None"
    elif len(e.args) == 1:
        sign = {"neg": "-", "not": "not ", "~": "~"}[e.head]
        text = f"{sign}{_spell(e.args[0], level)}"
    elif e.head == "**":
        text = f"{_spell(e.args[0], level + 1)} ** {_spell(e.args[1], level - 1)}"
    else:
        # Comparisons do not associate: Python would chain them.
        left = level + 1 if e.head in COMPARISONS else level
        text = f"{_spell(e.args[0], left)} {e.head} {_spell(e.args[1], level + 1)}"
    return f"({text})" if level < outer else text
