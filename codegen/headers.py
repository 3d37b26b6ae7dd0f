"""Headers for hand-written sources: `facula/ops.h`, `facula/kernels.h` and `facula/shapes.h`.

Below the build directory's root they declare everything. Below `for/SOURCE/` they declare what that
source names, and the build gives each source its own: a new operator then recompiles nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from . import cpp_types
from .model import Schema
from .stubs import Stub

NAMES = ("facula/ops.h", "facula/kernels.h", "facula/shapes.h")
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Function:
    """A declaration of a hand-written function."""

    result: str
    name: str
    parameters: str


Spaces = Mapping[str, Sequence[Function]]


def kernel_spaces(schema: Schema) -> Spaces:
    """The functions that operators bind to, by namespace below `facula`."""
    spaces: dict[str, dict[Function, None]] = {}
    for op in schema:
        for device, symbol in op.dispatch:
            if device in ("CPU", "any"):
                made = Function(
                    cpp_types.kernel_result(op), symbol, cpp_types.kernel_parameters(op)
                )
                spaces.setdefault(device.lower(), {})[made] = None
        if op.composite_fn:
            result = cpp_types.result_type(op.signature.returns)
            made = Function(result, op.composite_fn, cpp_types.parameters(op))
            spaces.setdefault("composite", {})[made] = None
    return {space: tuple(functions) for space, functions in spaces.items()}


def shape_functions(schema: Schema, *, defaults: bool) -> list[Function]:
    found = []
    for rule in schema.rules:
        arguments = rule.signature.arguments
        parameters = ", ".join(cpp_types.declared_parameter(a, defaults) for a in arguments)
        found.append(Function("Meta", rule.signature.name, parameters))
    return found


def texts(
    env: jinja2.Environment, schema: Schema, stubs: Sequence[Stub], sources: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Names and texts of all headers; `sources` gives the texts of the sources by their paths."""
    spaces, rules = kernel_spaces(schema), shape_functions(schema, defaults=True)
    ops, functions = env.get_template("ops.h.j2"), env.get_template("kernels.h.j2")
    yield NAMES[0], ops.render(stubs=stubs)
    yield NAMES[1], functions.render(spaces=spaces)
    yield NAMES[2], functions.render(spaces={"shape": rules})
    for path, text in sources.items():
        words = set(_WORD.findall(text))
        named = [s for s in stubs if s.entry in words or any(f.name in words for f in s.forms)]
        kept = {k: [f for f in group if f.name in words] for k, group in spaces.items()}
        yield f"for/{path}/{NAMES[0]}", ops.render(stubs=named)
        yield f"for/{path}/{NAMES[1]}", functions.render(spaces=kept)
        shape = {"shape": [r for r in rules if r.name in words]}
        yield f"for/{path}/{NAMES[2]}", functions.render(spaces=shape)


def find_sources(root: Path, folder: str | None) -> list[str]:
    """Paths of the hand-written C++ files below a folder of the repository."""
    if folder is None:
        return []
    return sorted(p.relative_to(root).as_posix() for p in (root / folder).rglob("*.cpp"))
