"""Facts of tensors that are no operators: attributes and methods of shape, dtype and device.

A backward may keep a fact alone, without the tensor: then the formula's variables hold it under the
tensor's text and its own name, such as `x.shape` or, of a method, `x.strides`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..schema.model import Type
from .values import BOOL, DEVICE, DTYPE, INT, INTS, Value

Variables = Mapping[str, Value]


@dataclass(frozen=True)
class Fact:
    """An attribute or method of tensors that is no operator."""

    type: Type
    code: str  # the member of the C++ tensor
    # The attribute it follows from, and how: a backward may keep that alone, without the tensor.
    source: str = ""
    from_source: str = "{}"


ATTRIBUTES = {
    "shape": Fact(INTS, "sizes()"),
    "ndim": Fact(INT, "dim()"),
    "dtype": Fact(DTYPE, "dtype()"),
    "device": Fact(DEVICE, "device()"),
}
METHODS = {
    "numel": Fact(INT, "numel()", "shape", "numel_of({})"),
    "dim": Fact(INT, "dim()", "ndim"),
    "is_complex": Fact(BOOL, "is_complex()", "dtype", "is_complex({})"),
    "is_floating_point": Fact(BOOL, "is_floating_point()", "dtype", "is_floating({})"),
    "is_contiguous": Fact(BOOL, "is_contiguous()"),
    "strides": Fact(INTS, "strides()"),
    "storage_offset": Fact(INT, "offset()"),
}
# Methods of one dim.
ITEMS = {
    "size": Fact(INT, "size({})", "shape", "list_item({}, {})"),
    "stride": Fact(INT, "stride({})", "strides", "list_item({}, {})"),
}


def attribute(variables: Variables, owner: Value, text: str, name: str) -> Value:
    """The attribute `name` of the tensor that the formula calls `text`."""
    fact = ATTRIBUTES[name]
    return variables.get(f"{text}.{name}", Value(f"{owner.code}.{fact.code}", fact.type))


def method(variables: Variables, owner: Value, text: str, name: str) -> Value:
    fact = METHODS[name]
    source = variables.get(f"{text}.{fact.source or name}")
    if source is not None:
        return Value(fact.from_source.format(source.code), fact.type)
    return Value(f"{owner.code}.{fact.code}", fact.type)


def item(variables: Variables, owner: Value, text: str, name: str, at: str) -> Value:
    fact = ITEMS[name]
    source = variables.get(f"{text}.{fact.source}")
    if source is not None:
        return Value(fact.from_source.format(source.code, at), fact.type)
    return Value(f"{owner.code}.{fact.code.format(at)}", fact.type)


def facts_of(tree: ast.AST, name: str) -> tuple[bool, set[str]]:
    """Whether `name` is used as a tensor in `tree`, and which attributes suffice otherwise."""
    facts: set[str] = set()
    whole = False

    def visit(node: ast.AST) -> None:
        nonlocal whole
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=attr) if owner == name:
                if attr in ATTRIBUTES:
                    facts.add(attr)
                    return
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=attr)) if owner == name:
                source = _source(attr)
                if source:
                    facts.add(source)
                    for argument in node.args:
                        visit(argument)
                    return
            case ast.Name(id=owner) if owner == name:
                whole = True
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree)
    return whole, facts


def _source(method: str) -> str:
    """What is to be kept for a method; "" where that is the tensor."""
    fact = METHODS.get(method) or ITEMS.get(method)
    return (fact.source or method) if fact else ""


def kept(name: str) -> Fact:
    """A fact that a backward keeps, by its name."""
    return ATTRIBUTES.get(name) or METHODS[name]


def names_used(tree: ast.AST, but: Sequence[ast.AST] = ()) -> set[str]:
    """Names in a formula, without those that stand in the sub-trees `but` alone."""
    skipped = {id(n) for part in but for n in ast.walk(part)}
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in skipped}
