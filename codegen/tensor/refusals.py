"""What the condition of an error tells of it: its kind, and the argument that it is about."""

from __future__ import annotations

import ast

from ..schema.model import Operator
from ..schema.words import ERRORS

# What a condition asks of a tensor says what kind of error it is that it does not hold.
_KINDS = {
    **dict.fromkeys(("dtype", "is_floating_point", "is_complex"), "Dtype"),
    **dict.fromkeys(("shape", "size", "dim", "ndim", "numel"), "Shape"),
}


def kind(test: ast.AST | None, raises: str) -> str:
    """The kind of an error; of those that are Python's RuntimeError and TypeError the finer one."""
    nodes = ast.walk(test) if test is not None else ()
    kinds = {_KINDS[n.attr] for n in nodes if isinstance(n, ast.Attribute) and n.attr in _KINDS}
    found = kinds.pop() if len(kinds) == 1 else ""
    if raises == "RuntimeError" and found:
        return found
    return "UnfitDtype" if raises == "TypeError" and found == "Dtype" else ERRORS[raises]


def operator(op: Operator, test: ast.AST | None) -> str:
    """The operator, in C++, with the one argument that the condition reads, if it is one."""
    names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)} if test is not None else set()
    about = [a.name for a in op.signature.arguments if a.name in names]
    # Who called gave a definition's arguments other names.
    argument = f', "{about[0]}"' if len(about) == 1 and not op.definition else ""
    return f'Operator{{"{op.base_name}"{argument}}}'
