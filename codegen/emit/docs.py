"""Documentation pages from the schema: one Markdown page an operator and an index by kind."""

from __future__ import annotations

from pathlib import Path

from ..schema.model import Derivative, Operator, Schema
from . import autograd, bindings
from .render import environment


def page(op: Operator) -> str:
    """The page of one operator."""
    template = environment().get_template("operator.md.j2")
    return template.render(
        op=op,
        title=op.name,
        places=[
            f"`facula.{p}.{n}`" if p else f"`facula.{n}`" for p, n in bindings.python_names(op)
        ],
        inplace=[f"`{p}.{n}`" if p else f"`facula.{n}`" for p, n in bindings.inplace_names(op)],
        derivatives=[(", ".join(d.inputs), derivative_text(d)) for d in op.derivatives],
        differentiable=autograd.is_differentiable(op) or bool(op.composite or op.composite_fn),
        devices=devices(op),
    )


def derivative_text(derivative: Derivative) -> str:
    if derivative.none is not None:
        return f"none: {derivative.none}"
    if derivative.zero or derivative.formula is None:
        return "zero"
    return f"`{' '.join(derivative.formula.text.split())}`"


def devices(op: Operator) -> str:
    """How the operator reaches a device."""
    if op.scalar:
        return "every device, from its formula"
    if op.composite is not None or op.composite_fn is not None:
        return "every device, as a composition of other operators"
    return ", ".join(f"{device}: {symbol}" for device, symbol in op.dispatch)


def index(schema: Schema) -> str:
    groups: dict[str, list[Operator]] = {}
    for op in schema:
        if not op.internal:
            groups.setdefault(op.kind, []).append(op)
    return (
        environment()
        .get_template("operators_index.md.j2")
        .render(
            groups=[
                (kind, sorted(ops, key=lambda o: o.name)) for kind, ops in sorted(groups.items())
            ]
        )
    )


def generate(schema: Schema, out: Path) -> int:
    """Write all pages below `out`; returns how many."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "index.md").write_text(index(schema), encoding="utf-8")
    public = [op for op in schema if not op.internal]
    for op in public:
        (out / f"{op.name}.md").write_text(page(op), encoding="utf-8")
    return len(public) + 1
