"""What the templates need of each operator: its stub and its autograd layer."""

from __future__ import annotations

from dataclasses import dataclass

from ..schema.errors import SchemaError, SchemaErrors
from ..schema.model import Operator, Schema
from ..tensor.scope import TranslationError
from . import layers, pointwise, stubs


@dataclass(frozen=True)
class Plan:
    """What the templates need of one operator."""

    op: Operator
    stub: stubs.Stub
    layer: layers.LayerPlan
    tables: tuple[pointwise.Table, ...]  # the loops of a pointwise operator


def plan_of(schema: Schema, op: Operator) -> Plan:
    """Translates an operator's formulas; a mistake in one raises TranslationError."""
    layer = layers.layer_plan(schema, op)
    tables = pointwise.tables(op, schema.alike) if op.scalar else ()
    return Plan(op, stubs.stub_of(schema, op, layer.node is not None), layer, tables)


def plans_of(schema: Schema) -> list[Plan]:
    """The plans of all operators and definitions; raises SchemaErrors with every mistake found."""
    plans: list[Plan] = []
    errors: list[SchemaError] = []
    for op in schema.callables:
        try:
            plans.append(plan_of(schema, op))
        except TranslationError as error:
            errors.append(SchemaError(error.location, op.derived_from or op.name, error.message))
    if errors:
        raise SchemaErrors(errors)
    return plans
