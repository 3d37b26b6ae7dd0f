"""What formulas of the key `onnx` may name; facula.export evaluates them."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from .schema import expr
from .schema.errors import Errors, suggestion
from .schema.model import Formula
from .schema.words import ERRORS, ONNX_FUNCTIONS

__all__ = ["check"]


def check(formula: Formula, arguments: Iterable[str], op: str, errors: Errors) -> None:
    """Note names that are no argument, variable or `result`, and unknown functions.

    Operators of ONNX begin with a capital; which there are, a test with `onnx` installed asks.
    """
    nodes = list(ast.walk(formula.tree))
    known = {"result", *arguments, *expr.CONSTANTS}
    known.update(n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    called = {id(n.func) for n in nodes if isinstance(n, ast.Call)}
    for node in nodes:
        if not isinstance(node, ast.Name) or node.id[:1].isupper():
            continue
        if id(node) in called and node.id not in (*ONNX_FUNCTIONS, *ERRORS):
            message = f"onnx: unknown function '{node.id}'{suggestion(node.id, ONNX_FUNCTIONS)}"
        elif id(node) not in called and node.id not in known:
            message = f"onnx: unknown name '{node.id}'{suggestion(node.id, sorted(known))}"
        else:
            continue
        errors.add(expr.place(formula, node), op, message)
