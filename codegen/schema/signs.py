"""Python's operator signs: their `ast` nodes, the slots of the Tensor type and the special methods.

The keys of the three tables are what the key `python` of an operator may hold beside names.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass


@dataclass(frozen=True)
class Sign:
    slot: str  # what the bindings call it
    method: str  # `__METHOD__` in Python
    node: type[ast.AST] | None = None  # absent where Python has no sign of its own


BINARY = {
    "+": Sign("kAdd", "add", ast.Add),
    "-": Sign("kSub", "sub", ast.Sub),
    "*": Sign("kMul", "mul", ast.Mult),
    "/": Sign("kTrueDiv", "truediv", ast.Div),
    "//": Sign("kFloorDiv", "floordiv", ast.FloorDiv),
    "%": Sign("kMod", "mod", ast.Mod),
    "**": Sign("kPow", "pow", ast.Pow),
    "@": Sign("kMatMul", "matmul", ast.MatMult),
    "&": Sign("kAnd", "and", ast.BitAnd),
    "|": Sign("kOr", "or", ast.BitOr),
    "^": Sign("kXor", "xor", ast.BitXor),
    "<<": Sign("kLShift", "lshift", ast.LShift),
    ">>": Sign("kRShift", "rshift", ast.RShift),
}
COMPARE = {
    "<": Sign("0", "lt", ast.Lt),
    "<=": Sign("1", "le", ast.LtE),
    "==": Sign("2", "eq", ast.Eq),
    "!=": Sign("3", "ne", ast.NotEq),
    ">": Sign("4", "gt", ast.Gt),
    ">=": Sign("5", "ge", ast.GtE),
}
UNARY = {
    "unary -": Sign("negative", "neg", ast.USub),
    "unary +": Sign("positive", "pos", ast.UAdd),
    "~": Sign("invert", "invert", ast.Invert),
    "abs()": Sign("absolute", "abs"),
}
ALL = frozenset({*BINARY, *COMPARE, *UNARY})
# What C++ has no sign for.
_PYTHON_ONLY = frozenset({"//", "**", "@", "abs()"})
_BY_NODE = {
    sign.node: text
    for text, sign in {**BINARY, **COMPARE, **UNARY}.items()
    if sign.node is not None
}


def in_cpp(token: str) -> tuple[str, bool] | None:
    """The sign of C++ that means the same, and whether it stands between two operands."""
    if token not in ALL or token in _PYTHON_ONLY:
        return None
    return token.removeprefix("unary "), token not in UNARY


def sign_of(node: ast.operator | ast.cmpop | ast.unaryop) -> str:
    """The sign of an operator's node in a formula; `is`, `in` and `not` have none."""
    return _BY_NODE[type(node)]
