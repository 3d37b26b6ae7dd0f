"""Graphs as text: one printer and one parser; what is printed parses to the same.

    graph forward(self, x: Tensor, n: int = 2) -> Tensor {
      linear: Tensor = linear(x, self.fc.weight, self.fc.bias)  # net.py:12
      if test {
        first: Tensor, second: Tensor = chunk(linear, 2)
      } else {
        raise ValueError("...")
      }
      return linear
    }

A statement is one line. Kinds of calls: `name(...)` a function of facula, `py name(...)` one of
Python, `method name(object, ...)`, `call name(...)` another graph, `module name(self.a, ...)` a
method of a submodule, `get name(object)` an attribute. Paths with other characters than those of
names are written `path("layers", "conv-1")`.
"""

from __future__ import annotations

import json
import keyword
import math
from typing import Any

import facula
from facula.jit._graph import (
    Block,
    Call,
    Constant,
    Graph,
    Items,
    Jump,
    Loop,
    Mapping,
    Name,
    Path,
    Return,
    Span,
    Star,
    Store,
    Throw,
    When,
    Within,
    tools,
)

__all__ = ["NAMED", "atom_text", "block_text", "graph_text", "is_name"]

#: Words that are no variables.
_RESERVED = frozenset("self inf nan".split())
#: Types whose values have a name in facula: written `dtype(float32)`.
NAMED = ("dtype", "layout", "memory_format")


def is_name(text: str) -> bool:
    """Can a variable be called so?"""
    ok = text.isascii() and text.isidentifier() and not text.startswith("__")
    return ok and text not in _RESERVED and not keyword.iskeyword(text)


def atom_text(atom: Any) -> str:
    """An atom as text.

    Raises:
        TypeError: a program cannot hold it.
    """
    if isinstance(atom, Name):
        return atom.id
    if isinstance(atom, Path):
        if all(part.isascii() and part.replace("_", "a").isalnum() for part in atom.parts):
            return ".".join(("self", *atom.parts))
        return f"path({', '.join(map(json.dumps, atom.parts))})"
    if isinstance(atom, Star):
        return f"*{atom_text(atom.value)}"
    if isinstance(atom, Constant):
        return f"constant({atom.name})"
    if isinstance(atom, Items):
        inner = ", ".join(map(atom_text, atom.items))
        if atom.kind == "list":
            return f"[{inner}]"
        return f"({inner},)" if len(atom.items) == 1 else f"({inner})"
    if isinstance(atom, Mapping):
        inner = ", ".join(f"{atom_text(k)}: {atom_text(v)}" for k, v in atom.pairs)
        return "{" + inner + "}"
    if isinstance(atom, Span):
        return f"slice({', '.join(map(atom_text, (atom.start, atom.stop, atom.step)))})"
    if atom is None or atom is True or atom is False or type(atom) is int:
        return repr(atom)
    if atom is ...:
        return "..."
    if type(atom) is float:
        return repr(atom) if math.isfinite(atom) else str(atom)
    if type(atom) is complex:
        return f"complex_number({atom_text(atom.real)}, {atom_text(atom.imag)})"
    if type(atom) is str:
        return json.dumps(atom)
    for kind in NAMED:
        if type(atom) is getattr(facula, kind):
            return f"{kind}({str(atom).rpartition('.')[2]})"
    if type(atom) is facula.device:
        return f"device({json.dumps(str(atom))})"
    raise TypeError(f"a program cannot hold the value {atom!r} of {type(atom).__name__}")


def _arguments(args: list[Any], kwargs: dict[str, Any]) -> str:
    return ", ".join([*map(atom_text, args), *(f"{k}={atom_text(v)}" for k, v in kwargs.items())])


def _typed(name: str, kind: str) -> str:
    return f"{name}: {kind}" if kind else name


def _call_text(s: Call) -> str:
    outs = ", ".join(_typed(*out) for out in s.outs)
    if s.kind == "copy":
        right = atom_text(s.args[0])
    else:
        word = "" if s.kind == "op" else s.kind + " "
        right = f"{word}{s.op}({_arguments(s.args, s.kwargs)})"
    return f"{outs} = {right}" if outs else right


def block_text(block: Block, depth: int = 0) -> list[str]:
    """The lines of a block."""
    lines: list[str] = []
    tab = "  " * depth
    for s in block:
        where = f"  # {s.where}" if s.where else ""
        if isinstance(s, Call):
            lines.append(f"{tab}{_call_text(s)}{where}")
        elif isinstance(s, Store):
            lines.append(f"{tab}set {atom_text(s.path)} = {atom_text(s.value)}{where}")
        elif isinstance(s, Return):
            lines.append(f"{tab}return {atom_text(s.value)}{where}")
        elif isinstance(s, Throw):
            lines.append(f"{tab}raise {s.kind}({atom_text(s.message)}){where}")
        elif isinstance(s, Jump):
            lines.append(f"{tab}{s.kind}{where}")
        elif isinstance(s, When):
            lines.append(f"{tab}if {atom_text(s.test)} {{{where}")
            lines += block_text(s.then, depth + 1)
            if s.other:
                lines.append(f"{tab}}} else {{")
                lines += block_text(s.other, depth + 1)
            lines.append(f"{tab}}}")
        elif isinstance(s, Loop):
            head = "loop" if s.out is None else f"for {_typed(*s.out)} in {atom_text(s.over)}"
            lines.append(f"{tab}{head} {{{where}")
            lines += [*block_text(s.body, depth + 1), f"{tab}}}"]
        elif isinstance(s, Within):
            lines.append(f"{tab}with {s.manager}({_arguments(s.args, {})}) {{{where}")
            lines += [*block_text(s.body, depth + 1), f"{tab}}}"]
    return lines


def graph_text(graph: Graph) -> str:
    """A graph as text."""
    parameters = []
    star = False
    for p in graph.parameters:
        if p.keyword_only and not star:
            star = True
            parameters.append("*")
        default = f" = {atom_text(p.default[0])}" if p.default else ""
        parameters.append(_typed(p.name, p.type) + default)
    result = f" -> {graph.result}" if graph.result else ""
    head = f"graph {graph.name}({', '.join(parameters)}){result} {{"
    return "\n".join([head, *block_text(graph.body, 1), "}"]) + "\n"


tools.atom_text, tools.block_text, tools.graph_text = atom_text, block_text, graph_text
