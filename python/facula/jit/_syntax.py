"""Sources of functions as trees, and errors that show their lines."""

from __future__ import annotations

import ast
import inspect
import os
import textwrap
from typing import Any

__all__ = ["Renamed", "ScriptError", "Source", "advice", "loaded"]


class ScriptError(RuntimeError):
    """A program is not in the subset of Python that `script` takes; its line is shown."""


class Source:
    """The tree of a function, and where it stands.

    Raises:
        ScriptError: the source is not to be had.
    """

    def __init__(self, function: Any) -> None:
        self.function = function
        self.name = getattr(function, "__qualname__", type(function).__name__)
        self.file = getattr(getattr(function, "__code__", None), "co_filename", "?")
        try:
            lines, first = inspect.getsourcelines(function)
        except (OSError, TypeError):
            raise ScriptError(
                f"script(): the source of {self.name} is not to be had; functions typed at a prompt"
                " or made by exec() cannot be scripted: write it to a file, or use facula.jit.trace"
            ) from None
        text = textwrap.dedent("".join(lines))
        self.lines = text.splitlines()
        self.first = max(first, 1)
        self.indent = len(lines[0]) - len(lines[0].lstrip())
        try:
            tree = ast.parse(text)
        except SyntaxError:
            tree = ast.Module([], [])
        node = tree.body[0] if tree.body else None
        if not isinstance(node, ast.FunctionDef):
            kind = "an async function" if isinstance(node, ast.AsyncFunctionDef) else "a lambda"
            raise ScriptError(
                f"script(): {self.name} ({self.where(None)}) is {kind}; write it as a function with"
                " `def`"
            )
        self.node = node

    def where(self, node: Any) -> str:
        """File and line of a part of the tree."""
        line = self.first + (node.lineno - 1 if node is not None else 0)
        return f"{os.path.basename(self.file)}:{line}"

    def error(self, node: ast.AST, what: str) -> ScriptError:
        """An error that shows a line with a caret under a part of it."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        end = getattr(node, "end_col_offset", column + 1)
        if getattr(node, "end_lineno", line) != line:
            end = len(text)
        raw = text.encode()
        begin = len(raw[:column].decode(errors="replace"))
        width = max(1, len(raw[column:end].decode(errors="replace")))
        return ScriptError(
            f"script(): {what}\n  {self.file}:{self.first + line - 1}, in {self.name}\n"
            f"    {text}\n    {' ' * begin}{'^' * width}"
        )


_ADVICE = {
    "Try": "`try` is not in the subset: test what can go wrong by `if`, and `raise` what must stop",
    "TryStar": "`try` is not in the subset: test what can go wrong by `if`",
    "FunctionDef": "a function within a function is not in the subset: write it at the top of the"
    " file, or as a method, with the values that it needs as parameters",
    "ClassDef": "a class within a function is not in the subset: use tuples and dicts",
    "Lambda": "`lambda` is not in the subset: write a function with `def` and call it",
    "Import": "`import` within a function is not in the subset: import at the top of the file",
    "ImportFrom": "`import` within a function is not in the subset: import at the top of the file",
    "Global": "`global` is not in the subset: keep what changes in attributes of the module",
    "Nonlocal": "`nonlocal` is not in the subset: return the value instead",
    "Yield": "`yield` is not in the subset: append to a list, and return it",
    "YieldFrom": "`yield` is not in the subset: append to a list, and return it",
    "Await": "`await` is not in the subset: use facula.jit.fork and wait",
    "AsyncFor": "`async` is not in the subset",
    "AsyncWith": "`async` is not in the subset",
    "Match": "`match` is not in the subset: write `if` and `elif`",
    "NamedExpr": "`:=` is not in the subset: assign on a line of its own",
    "Set": "sets are not in the subset: use a dict with the items as keys",
    "SetComp": "sets are not in the subset: use a dict with the items as keys",
    "Starred": "`*` is in the subset among the arguments of a call alone",
}


def advice(node: ast.AST) -> str:
    """What a kind of syntax is told that is not in the subset."""
    name = type(node).__name__
    return _ADVICE.get(name, f"{name} is not in the subset of Python that `script` takes")


class Renamed(ast.NodeTransformer):
    """Gives variables in a tree other names."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        made = ast.Name(self.names.get(node.id, node.id), node.ctx)
        return ast.copy_location(made, node)


class Once(ast.expr):
    """An expression that others have in common: it is computed for the first of them."""

    def __init__(self, node: ast.expr) -> None:
        super().__init__()
        self.node = node
        self.found: Any = None
        ast.copy_location(self, node)


def once(node: ast.expr) -> ast.expr:
    """An expression that stands in two places, where computing it again may give something else."""
    again = any(isinstance(n, ast.Call | ast.NamedExpr) for n in ast.walk(node))
    return Once(node) if again else node


def shared(target: ast.expr) -> ast.expr:
    """A target that is read and then written to."""
    made = target
    if isinstance(target, ast.Attribute):
        made = ast.Attribute(once(target.value), target.attr, target.ctx)
    elif isinstance(target, ast.Subscript):
        made = ast.Subscript(once(target.value), once(target.slice), target.ctx)
    return ast.copy_location(made, target)


def loaded(target: ast.expr) -> ast.expr:
    """A target as the expression of its value."""
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    assert isinstance(target, ast.Subscript)
    return ast.Subscript(target.value, target.slice, ast.Load())
