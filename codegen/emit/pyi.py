"""Type stubs: `facula/__init__.pyi` and one per namespace of operators."""

from __future__ import annotations

import keyword
import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from ..schema import signs
from ..schema.dtypes import ALIASES, DTYPES
from ..schema.model import Argument, Operator, Schema, Type
from ..schema.words import EXCEPTIONS
from . import bindings

EXPORTS = Path(__file__).resolve().parents[2] / "python/facula/_exports.py"
_PLAIN = {
    "Tensor": "Tensor",
    "int": "_int",
    "float": "_float",
    "bool": "_bool",
    "str": "str",
    "Scalar": "Number",
    "ScalarType": "_dtype",
    "Device": "DeviceLike",
    "Generator": "Generator",
    "MemoryFormat": "memory_format",
}


@dataclass(frozen=True)
class Function:
    """One `def` line of a stub."""

    name: str
    parameters: str
    result: str
    doc: str
    overload: bool


def annotation(t: Type, numbers: bool = False) -> str:
    text = _PLAIN[t.base]
    if t.base == "Tensor" and numbers:
        text = "Tensor | Number"
    if t.is_list:
        inner = f"{text} | None" if t.optional_elements else text
        text = f"Sequence[{inner}]"
        if t.base == "int":
            text = f"_int | {text}"
    if t.optional:
        text += " | None"
    return text


def _parameter(op: Operator, argument: Argument) -> str:
    text = f"{argument.name}: {annotation(argument.type, bindings.takes_numbers(op, argument))}"
    if argument.default is None:
        return text
    return f"{text} = {argument.default if argument.type.base != 'MemoryFormat' else '...'}"


def parameters(op: Operator, method: bool) -> str:
    parts: list[str] = []
    keyword_only = False
    for i, argument in enumerate(op.signature.arguments):
        if method and i == 0:
            parts.append("self")
            continue
        if argument.type.varargs:
            parts.append(f"*{argument.name}: _int | Sequence[_int]")
            keyword_only = True
            continue
        if argument.keyword_only and not keyword_only:
            parts.append("*")
            keyword_only = True
        parts.append(_parameter(op, argument))
    extra = []
    if "out" in op.variants and not method:
        many = len(op.signature.returns) > 1
        extra.append(f"out: {'Sequence[Tensor]' if many else 'Tensor'} | None = None")
    if (
        op.kind in ("factory", "random")
        and op.signature.returns
        and op.signature.returns[0].type.is_tensor
    ):
        extra.append("requires_grad: _bool = False")
        extra += ["layout: layout | None = None", "pin_memory: _bool | None = None"]
    if extra and not keyword_only:
        parts.append("*")
    return ", ".join(parts + extra)


def result(op: Operator) -> str:
    returns = op.signature.returns
    if not returns:
        return "None"
    kinds = [
        annotation(r.type)
        .replace("Sequence[Tensor]", "tuple[Tensor, ...]")
        .replace("Sequence[_int]", "Size")
        for r in returns
    ]
    return kinds[0] if len(kinds) == 1 else f"tuple[{', '.join(kinds)}]"


def functions(schema: Schema, path: str) -> list[Function]:
    """The stubs of one namespace; `Tensor` gives the methods, `` the functions of the package."""
    named: dict[str, list[Operator]] = {}
    method = path == "Tensor"
    for op in schema:
        for place, name in [*bindings.python_names(op), *bindings.inplace_names(op)]:
            if place == path and not keyword.iskeyword(name):
                named.setdefault(name, []).append(op)
    found = []
    for name, group in sorted(named.items()):
        for op in group:
            found.append(Function(name, parameters(op, method), result(op), op.doc, len(group) > 1))
    return found


def operators(schema: Schema) -> list[Function]:
    """Python's operators on Tensor."""
    found = []
    for op in schema:
        for token in op.python:
            if token in signs.BINARY:
                prefixes = ("", "r", "i") if "inplace" in op.variants else ("", "r")
                names = [prefix + signs.BINARY[token].method for prefix in prefixes]
                parameters = f"self, other: Tensor{' | Number' * (token != '@')}"
            elif token in signs.COMPARE:
                names, parameters = [signs.COMPARE[token].method], "self, other: Tensor | Number"
            elif token in signs.UNARY:
                names, parameters = [signs.UNARY[token].method], "self"
            else:
                continue
            found += [Function(f"__{n}__", parameters, "Tensor", "", False) for n in names]
    return list({f.name: f for f in found}.values())  # overloads share a sign


def generate(schema: Schema, env: jinja2.Environment) -> dict[str, str]:
    """Texts of the stub files, by path below the package."""
    table = runpy.run_path(str(EXPORTS))
    properties = sorted({op.base_name for op in bindings.property_operators(schema)})
    texts = {
        "facula/__init__.pyi": env.get_template("init.pyi.j2").render(
            functions=functions(schema, ""),
            methods=functions(schema, "Tensor"),
            operators=operators(schema),
            properties=properties,
            exports=exports(schema, table),
            package_methods=table["METHODS"],
            methods_alone=sorted(
                n for text in table["METHODS_ALONE"].values() for n in text.split()
            ),
            vendors=table["VENDORS"],
            dtypes=[*DTYPES, *ALIASES],
        ),
    }
    for path in namespaces(schema):
        # A namespace below another module is a part of that module's Python file.
        name = f"_{path.replace('.', '_')}_ops" if "." in path else path
        texts[f"facula/{name}.pyi"] = env.get_template("namespace.pyi.j2").render(
            functions=functions(schema, path), path=path, exceptions=EXCEPTIONS.get(path, ())
        )
    return texts


def exports(schema: Schema, table: dict[str, Any]) -> list[tuple[str, str]]:
    """(module, name) of what the package takes from its modules, as its own table says."""
    modules = {*table["SUBMODULES"], *(path for path in namespaces(schema) if "." not in path)}
    return [
        *(("facula", name) for name in sorted(modules)),
        *((path, name) for path, text in table["ATTRIBUTES"].items() for name in text.split()),
    ]


def namespaces(schema: Schema) -> list[str]:
    paths = {place for op in schema for place, _ in bindings.python_names(op)}
    return sorted(paths - {"", "Tensor", "_ops"})
