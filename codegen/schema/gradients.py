"""Reads the keys `derivative` and `forward`: the gradients and tangents of an operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from yaml.nodes import MappingNode, Node, ScalarNode

from .errors import nearest
from .fields import Fields
from .model import THROUGH_COMPOSITE, Derivative, Formula, Place, Signature
from .words import FORWARD

_FORMS = "'auto', 'zero', 'composite', 'none: reason' or a mapping {input: formula}"
_ONE = "a formula, 'zero', {none: reason} or {scalar: formula}"


def derivatives(fields: Fields, parsed: Signature | None) -> tuple[tuple[Derivative, ...], bool]:
    """One statement for each input or group of inputs, and whether all is `auto` in one word."""
    node = fields.take("derivative")
    if node is None:
        return (), False
    inputs = _tensor_inputs(parsed)
    place = fields.place(node)
    if isinstance(node, ScalarNode) and node.value == "auto":
        return tuple(Derivative((name,), place, auto=True) for name in inputs), True
    return tuple(_statements(fields, inputs, node)), False


def _statements(fields: Fields, inputs: tuple[str, ...], node: Node) -> Iterator[Derivative]:
    place = fields.place(node)
    if _speaks_for_all(node):
        one = _statement(fields, inputs, node)
        if one is not None:
            at = one.location
            yield from (Derivative((n,), at, zero=one.zero, none=one.none) for n in inputs)
    elif isinstance(node, ScalarNode) and node.value == "composite":
        _needs_composite(fields, node, "derivative")
        yield from (Derivative((name,), place, none=THROUGH_COMPOSITE) for name in inputs)
    elif isinstance(node, ScalarNode):
        hint = nearest(node.value, ("auto", "zero", "composite", "none: reason"))
        fields.error(node, f"a derivative is {_FORMS}{hint}")
    else:
        for key, at, value in fields.entries(node, "'derivative'"):
            names = tuple(name.strip() for name in key.split(","))
            for name in names:
                fields.places.setdefault(f"derivative.{name}", Place(at))
            found = _statement(fields, names, value)
            if found is not None:
                yield replace(found, alone=found.none is not None)


def _needs_composite(fields: Fields, node: Node, key: str) -> None:
    if not fields.has("composite", "composite_fn"):
        fields.error(node, f"'{key}: composite' needs the key 'composite' or 'composite_fn'")


def _speaks_for_all(node: Node) -> bool:
    """`zero`, `none: reason` and {none: reason} hold for every input."""
    if isinstance(node, ScalarNode):
        return node.value == "zero" or str(node.value).startswith("none:")
    return isinstance(node, MappingNode) and [k.value for k, _ in node.value] == ["none"]


def _statement(fields: Fields, names: tuple[str, ...], node: Node) -> Derivative | None:
    """What stands for one input or group."""
    if isinstance(node, MappingNode):
        return _marked(fields, names, node)
    text = fields.record.text(node, "a derivative")
    if text is None:
        return None
    place, value = fields.place(node), str(text.value)
    if value == "zero":
        return Derivative(names, place, zero=True)
    if value == "auto":
        return Derivative(names, place, auto=True)
    if value.startswith("none:"):
        return _none(fields, names, text, "none:")
    if value.startswith("scalar:"):
        formula = fields.formula(text, skip="scalar:")
        return Derivative(names, place, scalar=formula) if formula else None
    formula = fields.formula(text, program=True)
    return Derivative(names, place, formula=formula) if formula else None


def _marked(fields: Fields, names: tuple[str, ...], node: MappingNode) -> Derivative | None:
    """{none: reason} or {scalar: formula}."""
    inner = fields.record.mapping(node, "a derivative")
    items = inner.items() if inner else []
    if len(items) != 1 or items[0][0] not in ("none", "scalar"):
        fields.error(node, f"expected {_ONE}")
        return None
    key, value = items[0]
    text = fields.record.text(value, f"'{key}'")
    if text is None:
        return None
    if key == "none":
        return _none(fields, names, text)
    formula = fields.formula(text)
    return Derivative(names, fields.place(node), scalar=formula) if formula else None


def _none(
    fields: Fields, names: tuple[str, ...], node: ScalarNode, prefix: str = ""
) -> Derivative | None:
    reason = _reason(fields, node, prefix)
    return Derivative(names, fields.place(node), none=reason) if reason else None


def _reason(fields: Fields, node: Node, prefix: str = "") -> str:
    """Why there is none: the text after a prefix, which must say something."""
    text = fields.record.text(node, "the reason of 'none'")
    reason = str(text.value).removeprefix(prefix).strip() if text else ""
    if text and not reason:
        fields.error(node, "'none' needs its reason: 'none: reason'")
    return reason


def _tensor_inputs(parsed: Signature | None) -> tuple[str, ...]:
    arguments = parsed.arguments if parsed else ()
    return tuple(a.name for a in arguments if a.type.base == "Tensor")


def forward(fields: Fields, auto: bool) -> tuple[str, Formula | None, str]:
    """How tangents are made: the word, the formula, and the reason where there is none."""
    node = fields.take("forward")
    if node is None:
        return ("elementwise" if auto else "none"), None, ""
    if isinstance(node, MappingNode) and [k.value for k, _ in node.value] == ["none"]:
        return "none", None, _reason(fields, node.value[0][1])
    text = fields.record.text(node, "'forward'")
    if text is None:
        return "none", None, ""
    if text.value in FORWARD:
        if text.value == "composite":
            _needs_composite(fields, node, "forward")
        return text.value, None, ""
    if text.value.startswith("none:"):
        return "none", None, _reason(fields, text, "none:")
    hint = nearest(text.value, FORWARD) if text.value.isidentifier() else ""
    if hint:
        fields.error(text, f"unknown word '{text.value}' for 'forward'{hint}")
        return "none", None, ""
    return "formula", fields.formula(text, program=True), ""
