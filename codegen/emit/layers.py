"""The autograd layer: for each form of an operator the function that records gradients."""

from __future__ import annotations

from dataclasses import dataclass

from ..schema import cpp_types
from ..schema.model import Operator, Schema
from . import autograd, stubs


@dataclass(frozen=True)
class LayerForm(stubs.Form):
    """A form of an operator with the function of the autograd layer over it."""

    symbol: str
    public_name: str
    written: tuple[str, ...]  # tensors that it writes to
    outs: tuple[str, ...]
    returns_self: bool


@dataclass(frozen=True)
class LayerPlan:
    op: Operator
    node: autograd.Node | None
    forms: tuple[LayerForm, ...]
    any_grad: str
    any_tangent: str
    any_tangent_grad: str  # of their tangents
    any_recorded: str
    input_lists: tuple[str, ...]
    outputs: tuple[str, ...]
    single: bool
    list_result: bool
    conditions: dict[str, str]  # when to keep each field of the node
    all_zero: bool  # no input has a gradient but zero
    functional: str  # the functional form
    replaced: str  # its arguments, with others in the place of the differentiable inputs


def layer_plan(schema: Schema, op: Operator) -> LayerPlan:
    asked = autograd.is_differentiable(op) or bool(autograd.refused_of(op))
    node = autograd.node_of(schema, op) if asked else None
    inputs = [cpp_types.identifier(a.name) for a in stubs.tensor_inputs(op)]
    stated = [cpp_types.identifier(a.name) for a in node.inputs] if node else []
    returns = op.signature.returns
    return LayerPlan(
        op=op,
        node=node,
        forms=tuple(_layer_form(op, f) for f in stubs.forms_of(op) if _passes(op, f, node)),
        any_grad=" || ".join(f"needs_grad({n})" for n in stated) or "false",
        any_tangent=" || ".join(f"wants_tangent({n})" for n in stated) or "false",
        any_tangent_grad=" || ".join(f"needs_tangent_grad({n})" for n in stated) or "false",
        any_recorded=" || ".join(f"is_recorded({n})" for n in stated) or "false",
        input_lists=tuple(f"as_list({n})" for n in inputs),
        outputs=cpp_types.output_names(op),
        single=len(returns) <= 1,
        list_result=len(returns) == 1 and returns[0].type.is_list,
        conditions={f.name: _condition(node, f) for f in node.fields} if node else {},
        all_zero=all(d.zero for d in op.derivatives if d.none is None),
        functional=cpp_types.identifier(op.symbol),
        replaced=_replaced(op, node) if node else "",
    )


def _replaced(op: Operator, node: autograd.Node) -> str:
    places = {a.name: i for i, a in enumerate(node.inputs)}
    codes = []
    for a in op.signature.arguments:
        i = places.get(a.name)
        whole = cpp_types.identifier(a.name) if i is None else f"in_[{i}]"
        codes.append(whole if i is None or a.type.is_list else f"{whole}[0]")
    return ", ".join(codes)


def _passes(op: Operator, form: stubs.Form, node: autograd.Node | None) -> bool:
    """Whether a form has anything to record or to refuse; composites leave it to their parts."""
    if node is not None:
        return True
    if form.variant == "Functional":
        return cpp_types.mutates(op)
    return bool(op.dispatch) or not (op.composite or op.composite_fn)


def _layer_form(op: Operator, form: stubs.Form) -> LayerForm:
    returns = op.signature.returns
    written: tuple[str, ...] = ()
    if form.variant == "InPlace":
        written = (cpp_types.identifier(op.signature.arguments[0].name),)
    elif form.variant == "Functional":
        written = cpp_types.mutable_names(op)
    return LayerForm(
        **vars(form),
        symbol=f"{form.name}_autograd",
        public_name=op.base_name + ("_" if form.variant == "InPlace" else ""),
        written=written,
        outs=cpp_types.out_names(op) if form.variant == "Out" else (),
        returns_self=form.variant == "Functional" and bool(returns) and returns[0].type.mutable,
    )


def _condition(node: autograd.Node, field: autograd.Field) -> str:
    """A saved tensor is kept only when a gradient that uses it is wanted."""
    if not field.saved:
        return ""
    tests = []
    for user in field.users:
        for edge in node.groups[user].edges:
            at = _qualified(edge.slot)
            some = f"needs_any(*node_, {at}, {_qualified(edge.count)})"
            tests.append(some if edge.list else f"node_->needs({at})")
    return f"if ({' || '.join(dict.fromkeys(tests))}) "


def _qualified(expression: str) -> str:
    return " + ".join(p if p.isdigit() else f"node_->{p}" for p in expression.split(" + "))
