"""Prints everything that the schema's entry of one operator becomes."""

from __future__ import annotations

from collections.abc import Iterator

from .emit import pyi
from .emit.autograd import Node
from .emit.bindings import inplace_names, python_names
from .emit.docs import derivative_text, page
from .emit.plans import Plan, plan_of, plans_of
from .emit.render import SHARDED, Declarations, cpp, environment, tidy
from .schema.errors import nearest
from .schema.model import Operator, Schema
from .tensor.compose import Translator
from .tensor.values import argument_values


class UnknownOperator(Exception):
    """No operator of that name."""


def find(schema: Schema, name: str) -> list[Operator]:
    """The operator of that full name, or all of a Python name, an alias or a family `f{n}d`."""
    exact = [op for op in schema.callables if op.name == name]
    found = exact or [
        op for op in schema.callables if name in (op.base_name, op.symbol, op.family, *op.alias)
    ]
    if not found:
        known = [n for op in schema.callables for n in (op.name, op.base_name)]
        raise UnknownOperator(f"no operator '{name}'{nearest(name, known)}")
    return found


def explain(schema: Schema, name: str) -> str:
    sections: list[str] = []
    env = environment()
    declarations = Declarations(schema, [p.stub for p in plans_of(schema)])
    for op in find(schema, name):
        family = [op, *(o for o in schema if o.derived_from == op.name)]
        plans = [plan_of(schema, member) for member in family]
        for plan in plans:
            sections.append("\n".join(_facts(schema, plan)))
        for stem in SHARDED:
            if (stem == "pointwise" and not op.scalar) or (op.definition and stem != "stubs"):
                continue
            text = cpp(stem, env, declarations, plans, 0)
            sections.append(f"{_title(f'generated C++: {stem}')}\n{tidy(text)}")
        if op.definition:
            continue
        sections.append(f"{_title('type stubs')}\n" + "\n".join(_stub_lines(op)))
        sections.append(f"{_title('documentation page')}\n{page(op)}")
    return "\n".join(sections)


def _title(text: str) -> str:
    return f"==== {text} ".ljust(98, "=")


def _facts(schema: Schema, plan: Plan) -> Iterator[str]:
    op, node = plan.op, plan.layer.node
    more = f", derived from {op.derived_from}" if op.derived_from else ""
    more += f", of the family {op.family}" if op.family else ""
    yield _title(op.name)
    yield str(op.signature)
    yield f"  {op.location}, {op.kind}{more}"
    yield from (f"  {line}" for line in op.doc.splitlines())
    yield from (f"    {line}" for line in op.example.splitlines())
    names = [*python_names(op), *inplace_names(op)]
    if op.definition:
        yield "  a definition, which formulas alone call"
    else:
        yield "  Python: " + ", ".join(f"{path}.{name}".lstrip(".") for path, name in names)
    for key, formula in op.scalar:
        yield f"  formula{f' ({key})' if key else ''}: {_line(formula.text)}"
    if op.scalar:
        yield f"  computed in: {', '.join(op.dtypes)}; promotion: {op.promote}"
    if op.composite is not None:
        yield "  composite:"
        yield from (f"    {line}" for line in op.composite.text.splitlines())
    if op.composite_fn is not None:
        yield f"  composite: the C++ function composite::{op.composite_fn}; {op.opaque}"
    translator = Translator(schema, op, argument_values(op))
    for shape in op.shape:
        yield f"  shape: {_line(shape.text)} -> {translator.shape_expression(shape)}"
    for device, symbol in op.dispatch:
        yield f"  kernel on {device}: {symbol}"
    for derivative in op.derivatives:
        yield f"  gradient of {', '.join(derivative.inputs)}: {derivative_text(derivative)}"
    if node is not None:
        yield from _node_lines(op, node)
    for sample in op.samples:
        yield f"  sample: {sample}"
    if op.reference is not None:
        yield f"  reference: {op.reference}"
    if op.property_test is not None:
        yield f"  proved by: {op.property_test}"


def _node_lines(op: Operator, node: Node) -> Iterator[str]:
    for field in node.fields:
        when = "after the call" if field.output else "before the call"
        yield f"  {node.name} saves {field.label}: {field.type} {field.name}, {when}"
    forward = op.forward if op.forward != "none" else f"none: {op.forward_reason or 'not stated'}"
    yield f"  forward mode: {forward}"


def _stub_lines(op: Operator) -> Iterator[str]:
    for path in dict.fromkeys(path for path, _ in [*python_names(op), *inplace_names(op)]):
        wanted = {name for p, name in [*python_names(op), *inplace_names(op)] if p == path}
        for function in pyi.functions(Schema((), (), (op,)), path):
            if function.name in wanted:
                where = f"facula.{path}" if path else "facula"
                yield f"{where}: def {function.name}({function.parameters}) -> {function.result}"


def _line(text: str) -> str:
    return " ".join(text.split())
