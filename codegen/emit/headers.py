"""Headers for hand-written sources: `facula/ops.h`, `facula/kernels.h` and `facula/shapes.h`.

Below the build directory's root they declare everything. Below `for/SOURCE/` they declare what that
source names, and the build gives each source its own: a new operator then recompiles nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from ..schema import cpp_types, signs
from ..schema.model import Operator, Schema
from .stubs import Form, Stub

NAMES = ("facula/ops.h", "facula/kernels.h", "facula/shapes.h")
# `facula/ops.h` as extensions get it: they look functions up.
EXTENSION_OPS = "extension/facula/ops.h"
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Function:
    """A declaration of a hand-written function."""

    result: str
    name: str
    parameters: str


Spaces = Mapping[str, Sequence[Function]]


def kernel_functions(op: Operator) -> Iterator[tuple[str, Function]]:
    """The functions that an operator binds to, each with its namespace below `facula`."""
    for device, symbol in op.dispatch:
        result, parameters = cpp_types.kernel_result(op), cpp_types.kernel_parameters(op)
        yield device.lower(), Function(result, symbol, parameters)
    for function in filter(None, (op.composite_fn, op.batch_fn)):
        result = cpp_types.result_type(op.signature.returns)
        yield "composite", Function(result, function, cpp_types.parameters(op))


def kernel_spaces(schema: Schema) -> Spaces:
    """The functions that operators bind to, by namespace below `facula`."""
    spaces: dict[str, dict[Function, None]] = {}
    for op in schema.callables:
        for space, function in kernel_functions(op):
            spaces.setdefault(space, {})[function] = None
    return {space: tuple(functions) for space, functions in spaces.items()}


def shape_functions(schema: Schema, *, defaults: bool) -> list[Function]:
    found = []
    for rule in schema.rules:
        arguments = rule.signature.arguments
        parameters = ", ".join(cpp_types.declared_parameter(a, defaults) for a in arguments)
        if rule.signature.returns:
            found.append(Function("Meta", rule.signature.name, parameters))
        else:
            told = cpp_types.joined("const Called& called", parameters)
            found.append(Function("void", rule.signature.name, told))
    return found


def texts(
    env: jinja2.Environment, schema: Schema, stubs: Sequence[Stub], sources: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Names and texts of all headers; `sources` gives the source's text for each `for/` header."""
    spaces, rules = kernel_spaces(schema), shape_functions(schema, defaults=True)
    ops, functions = env.get_template("ops.h.j2"), env.get_template("kernels.h.j2")
    yield NAMES[0], ops.render(stubs=stubs)
    yield NAMES[1], functions.render(spaces=spaces)
    yield NAMES[2], functions.render(spaces={"shape": rules})
    for name, text in sources.items():
        words = set(_WORD.findall(text))
        if name.endswith(NAMES[0]):
            named = [s for s in stubs if s.entry in words or any(f.name in words for f in s.forms)]
            yield name, ops.render(stubs=named)
        elif name.endswith(NAMES[1]):
            kept = {k: [f for f in group if f.name in words] for k, group in spaces.items()}
            yield name, functions.render(spaces=kept)
        else:
            kept = {"shape": [r for r in rules if r.name in words]}
            yield name, functions.render(spaces=kept)


def looked_up(op: Operator, form: Form) -> str:
    """A form of an operator of facula's as an inline function of an extension."""
    kind = f"{form.result} (*)({form.parameters})"
    name, signature = cpp_types.quoted(op.name), cpp_types.quoted(str(op.signature))
    return (
        f"inline {form.result} {form.name}({form.declaration}) {{\n"
        f"  static const auto form_ = form_of<{kind}>({name}, {signature}, "
        f"Variant::{form.variant});\n"
        f"  return form_({form.arguments});\n}}"
    )


def cpp_signs(schema: Schema) -> Iterator[tuple[str, str, bool]]:
    """C++ operators on tensors: the sign, the function and whether it takes two operands."""
    for op in schema:
        for token in op.python:
            found = signs.in_cpp(token)
            if found is not None:
                yield found[0], cpp_types.identifier(op.symbol), found[1]


def looked_up_rules(schema: Schema) -> Iterator[tuple[Function, str]]:
    """The shape rules of facula's as inline functions of an extension."""
    functions = shape_functions(schema, defaults=False)
    for rule, f in zip(schema.rules, functions, strict=True):
        kind = f"{f.result} (*)({f.parameters})"
        names = [cpp_types.identifier(a.name) for a in rule.signature.arguments]
        passed = ", ".join(names if rule.signature.returns else ["called", *names])
        signature = cpp_types.quoted(str(rule.signature))
        yield (
            f,
            (
                f"inline {f.result} {f.name}({f.parameters}) {{\n"
                f"  static const auto rule_ = rule_of<{kind}>({signature});\n"
                f"  return rule_({passed});\n}}"
            ),
        )


def own_headers(root: Path, folder: str | None) -> list[str]:
    """The headers `for/SOURCE/HEADER` that the sources below a folder of the repository include."""
    found: list[str] = []
    for path in sorted((root / folder).rglob("*.cpp")) if folder else ():
        text = path.read_text(encoding="utf-8")
        where = path.relative_to(root).as_posix()
        found += [f"for/{where}/{name}" for name in NAMES if f'#include "{name}"' in text]
    return found


def read_sources(root: Path, names: Iterable[str]) -> dict[str, str]:
    """The text of the source of each `for/SOURCE/HEADER` among the names."""
    found: dict[str, str] = {}
    for name in names:
        if name.startswith("for/"):
            path = root / name.removeprefix("for/").partition("/facula/")[0]
            found[name] = path.read_text(encoding="utf-8") if path.exists() else ""
    return found
