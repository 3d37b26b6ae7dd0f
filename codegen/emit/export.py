"""`facula/ops.json`: the schema as data, for tools, vendors' translators and the tests."""

from __future__ import annotations

import json
import math
from typing import Any

from ..scalar import cpp as scalar_cpp
from ..schema import axes, expr
from ..schema.model import Argument, Derivative, Operator, Schema
from ..tensor.traits import traits
from . import autograd, batching, bindings


def _argument(argument: Argument) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": argument.name, "type": str(argument.type)}
    if argument.default is not None:
        entry["default"] = argument.default
    if argument.keyword_only:
        entry["keyword_only"] = True
    if argument.range is not None:
        entry["range"] = argument.range.text
    return entry


def _differentiable(op: Operator) -> list[str]:
    """Inputs with a gradient; a composite states only those that have none."""
    constant = {n for d in op.derivatives if d.none is not None for n in d.inputs}
    if constant and op.kind == "composite":
        return sorted(
            a.name
            for a in op.signature.arguments
            if a.type.base == "Tensor" and a.name not in constant
        )
    return sorted({n for d in op.derivatives if d.none is None for n in d.inputs})


def _slope(derivative: Derivative) -> str:
    """As the schema writes it, once `auto` and scalar formulas have become operators."""
    if derivative.none is not None:
        return f"none: {derivative.none}"
    return derivative.formula.text if derivative.formula is not None else "zero"


def operator_record(op: Operator, traits: tuple[str, ...]) -> dict[str, Any]:
    """One operator as plain data; absent keys have their default."""
    function = {"function": op.composite_fn} if op.composite_fn else None
    record: dict[str, Any] = {
        "name": op.name,
        "signature": str(op.signature),
        "kind": op.kind,
        "line": op.location.line,
        "arguments": [_argument(a) for a in op.signature.arguments],
        "returns": [{"name": r.name, "type": str(r.type)} for r in op.signature.returns],
        "python": [f"{path}.{name}" if path else name for path, name in bindings.python_names(op)],
        "variants": list(op.variants),
        "doc": op.doc,
        "example": op.example,
        "samples": list(op.samples),
        "differentiable": _differentiable(op),
        "explicit_backward": autograd.is_differentiable(op),
    }
    optional = {
        "properties": [op.base_name] if "property" in op.python else [],
        "internal": op.internal,
        "derived_from": op.derived_from,
        "scalar": {key: formula.text for key, formula in op.scalar},
        "reduction": {key: formula.text for key, formula in op.reduction},
        "dtypes": list(op.dtypes) if op.scalar or op.dtypes != ("float",) else [],
        "promote": op.promote if op.scalar else "",
        "masks": list(op.masks),
        "kept": list(op.kept),
        "flops": " ".join(op.flops.text.split()) if op.flops else "",
        "onnx": op.onnx.text if op.onnx else "",
        "autocast": dict(op.autocast),
        "axes": str(stated) if (stated := axes.axes_of(op)) else "",
        "batching": batching.way(op),
        "reference": op.reference,
        "property": op.property_test,
        "forward": op.forward if op.forward != "none" else "",
        "forward_formula": op.forward_formula.text if op.forward_formula else "",
        "forward_reason": op.forward_reason,
        "tolerance": dict(op.tolerance),
        "ulp": dict(op.ulp),
        "dispatch": dict(op.dispatch),
        "composite": op.composite.text if op.composite else function,
        "opaque": op.opaque,
        "shape": [formula.text for formula in op.shape],
        "derivative": {", ".join(d.inputs): _slope(d) for d in op.derivatives if d.inputs},
        "checks": {c.label: f.text for c in op.checks if (f := c.call or c.require)},
        "traits": list(traits),
        "policies": dict(op.policies),
    }
    record.update({key: value for key, value in optional.items() if value})
    return record


def definition_record(op: Operator) -> dict[str, Any]:
    """What formulas call beside operators, with what it is made of."""
    function = {"function": op.composite_fn}
    return {
        "name": op.name,
        "signature": str(op.signature),
        "line": op.location.line,
        "doc": op.doc,
        "composite": op.composite.text if op.composite else function,
        **({"opaque": op.opaque} if op.opaque else {}),
    }


def to_json(schema: Schema) -> str:
    """The whole schema, one operator a line, so that a diff of two files reads well."""
    vocabulary = {
        "constants": {n: v for n, v in expr.CONSTANTS.items() if math.isfinite(v)},
        "predicates": sorted(scalar_cpp.PREDICATES),
        "real_valued": sorted(scalar_cpp.REAL_VALUED),
        "onnx": {
            f.name: {"arguments": list(f.arguments), "formula": f.onnx.text}
            for f in schema.math
            if f.onnx
        },
    }
    of = traits(schema)
    operators = [operator_record(op, of[op.name]) for op in schema]
    lists = {"operators": operators, "definitions": [*map(definition_record, schema.definitions)]}
    return (
        f'{{"version": 1, "vocabulary": {json.dumps(vocabulary)}'
        + "".join(f', "{name}": [\n{_lines(records)}\n]' for name, records in lists.items())
        + "}\n"
    )


def _lines(records: list[dict[str, Any]]) -> str:
    return ",\n".join(json.dumps(record, ensure_ascii=False) for record in records)
