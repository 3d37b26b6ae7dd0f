"""Backward nodes: what an operator's derivative formulas save, and the code that uses it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ..schema import cpp_types
from ..schema.model import (
    THROUGH_COMPOSITE,
    Argument,
    Derivative,
    Formula,
    Operator,
    Schema,
    Type,
)
from ..tensor.compose import Translator
from ..tensor.facts import facts_of, kept, names_used
from ..tensor.values import BOOLS, INT, INTS, TENSOR, TENSORS, Value, argument_values

# Kinds whose kernels compute new numbers, without a composition below them.
_COMPUTED = ("reduction", "scan", "matmul", "structured")


@dataclass(frozen=True)
class Field:
    """Something a node keeps from the forward call."""

    name: str  # C++ member
    type: str
    init: str  # expression over the forward's arguments or outputs
    label: str  # schema name, for messages
    users: tuple[int, ...]  # derivative groups whose formulas use it
    saved: bool = False  # SavedTensors, released after backward
    output: bool = False  # initialised after the forward
    list: bool = False
    inplace: str = ""  # what an in-place form saves instead of what it is about to overwrite

    @property
    def shown(self) -> str:
        """As `grad_fn._saved_*` in Python."""
        return self.label if self.saved else self.name.removesuffix("_in")

    @property
    def inplace_init(self) -> str:
        return self.inplace or self.init


@dataclass(frozen=True)
class Edge:
    """Where the gradients of an input go."""

    slot: str  # expression for the first edge
    count: str  # expression for the number of edges, "1" for a tensor
    list: bool


@dataclass(frozen=True)
class Group:
    """One derivative statement: the inputs it serves and the code that computes them."""

    edges: tuple[Edge, ...]  # one an input
    code: str = ""  # the formula; for several inputs a tuple; "" for zero
    unpack: tuple[str, ...] = ()  # statements before it
    held: tuple[str, ...] = ()  # the tensors that these unpack


@dataclass(frozen=True)
class Node:
    op: Operator
    name: str  # C++ struct
    shown: str  # in Python and in messages: numbered where several overloads have a gradient
    fields: tuple[Field, ...]
    groups: tuple[Group, ...]
    inputs: tuple[Argument, ...]  # those with an edge, in order
    list_inputs: tuple[str, ...]
    forward: tuple[
        str, ...
    ]  # a jvp expression for each of the first outputs, () when there is none
    forward_call: str  # what `tangents_` in them is
    forward_reason: str
    forward_if: (
        str  # a condition of the expressions; elsewhere tangents come by two backward passes
    )
    refused: tuple[str, ...]  # inputs whose tangents have no formula either


def is_differentiable(op: Operator) -> bool:
    return any(d.none is None for d in op.derivatives)


def refused_of(op: Operator) -> list[Derivative]:
    """Inputs by which there is no derivative: asking for it is an error.

    What is made of no number that an input holds, as a tensor of its shape, or is no number itself,
    as an index, has no part in the graph instead: kernels say so in one word for all inputs.
    """
    stated = [d for d in op.derivatives if d.none not in (None, THROUGH_COMPOSITE)]
    if is_differentiable(op) or op.kind == "pointwise":
        return stated
    return [d for d in stated if d.alone and op.kind in _COMPUTED]


def _pascal(symbol: str) -> str:
    return "".join(part.capitalize() if part.islower() else part for part in symbol.split("_"))


def node_of(schema: Schema, op: Operator) -> Node:
    active = [d for d in op.derivatives if d.none is None]
    refused = refused_of(op)
    stated = {name for d in (*active, *refused) for name in d.inputs}
    inputs = tuple(a for a in op.signature.arguments if a.name in stated)
    builder = _Builder(schema, op, _edges(inputs))
    groups = tuple(builder.group(number, d) for number, d in enumerate(active))
    groups += tuple(builder.refusal(d) for d in refused)
    forward, forward_call = _forward(schema, op, active)
    return Node(
        op=op,
        name=_pascal(op.symbol) + "Backward",
        shown=_shown(schema, op),
        fields=tuple(builder.fields.values()),
        groups=groups,
        inputs=inputs,
        list_inputs=tuple(cpp_types.identifier(a.name) for a in inputs if a.type.is_list),
        forward=forward,
        forward_call=forward_call,
        forward_reason=op.forward_reason,
        forward_if=_real_only(op, inputs) if forward else "",
        refused=()
        if op.forward == "formula"
        else tuple(cpp_types.identifier(name) for d in refused for name in d.inputs),
    )


def _shown(schema: Schema, op: Operator) -> str:
    family = (o for o in schema.operators if o.base_name == op.base_name)
    names = [o.name for o in family if is_differentiable(o)]
    number = names.index(op.name) if op.name in names else 0
    return f"{_pascal(op.base_name)}Backward{number}"


def _edges(inputs: Sequence[Argument]) -> dict[str, Edge]:
    """The edges of inputs follow one another; a list has as many as tensors."""
    edges: dict[str, Edge] = {}
    slot = "0"
    for a in inputs:
        count = f"{cpp_types.identifier(a.name)}_count" if a.type.is_list else "1"
        edges[a.name] = Edge(slot, count, a.type.is_list)
        slot = count if slot == "0" else f"{slot} + {count}"
    return edges


class _Builder:
    """Collects what the derivative statements of one operator save."""

    def __init__(self, schema: Schema, op: Operator, edges: Mapping[str, Edge]) -> None:
        self.schema = schema
        self.op = op
        self.edges = edges
        self.fields: dict[str, Field] = {}
        self._outputs = cpp_types.output_names(op)
        self._arguments = {a.name: a for a in op.signature.arguments}

    def group(self, number: int, derivative: Derivative) -> Group:
        edges = tuple(self.edges[name] for name in derivative.inputs)
        formula = derivative.formula
        if derivative.zero or formula is None:
            return Group(edges)
        self._held: list[str] = []
        variables: dict[str, Value] = {}
        hoisted = self._hoist_sizes(number, formula, variables)
        used = names_used(formula.tree, hoisted)
        unpack = self._incoming(used, variables)
        for name, argument in self._arguments.items():
            if name in used:
                unpack += self._save(argument, number, formula, variables)
        for name in self._outputs:
            if name in used and name not in self._arguments:
                field = Field(f"{name}_out", "SavedTensor", name, name, (number,), True, True)
                unpack += self._saved(field, TENSOR, variables)
        if "mask" in used and "mask" not in self._arguments:
            tests = ", ".join(f"needs({edge.slot})" for edge in edges)
            unpack.append(f"const std::vector<bool> mask{{{tests}}};")
            variables["mask"] = Value("mask", BOOLS)
        for name, edge in zip(derivative.inputs, edges, strict=True):
            variables[f"needs_{name}"] = Value(f"needs({edge.slot})", INT)
        offered = ("grads",) if self._returns_list() else (*self._grads(), *self._outputs)
        translator = Translator(self.schema, self.op, variables, offered)
        if len(edges) == 1:
            code = translator.expression(formula, TENSORS if edges[0].list else TENSOR).code
        else:
            code = translator.joint(formula, TENSOR, len(edges))
        return Group(edges, code, tuple(unpack), tuple(self._held))

    def refusal(self, derivative: Derivative) -> Group:
        """The error of who asks for a gradient that there is not."""
        edges = tuple(self.edges[name] for name in derivative.inputs)
        words = (self.op.base_name, ", ".join(derivative.inputs), derivative.none or "")
        return Group(
            edges, unpack=(f"raise_no_derivative({', '.join(map(cpp_types.quoted, words))});",)
        )

    def _grads(self) -> tuple[str, ...]:
        """Names of the incoming gradients."""
        single = len(self._outputs) == 1
        return ("grad",) if single else tuple(f"grad_{name}" for name in self._outputs)

    def _returns_list(self) -> bool:
        return any(r.type.is_list for r in self.op.signature.returns)

    def _incoming(self, used: Collection[str], variables: dict[str, Value]) -> list[str]:
        """Statements for the incoming gradients, which become variables."""
        unpack = []
        if self._returns_list() and "grads" in used and "grads" not in self._arguments:
            variables["grads"] = Value("grads_v", TENSORS)
            unpack.append("const std::vector<Tensor> grads_v = materialize_all(*this, grads);")
            self._held.append("grads_v")
        for i, grad in enumerate(self._grads()):
            if grad in used or (grad == "grad" and "grad_output" in used):
                variables[grad] = Value(grad, TENSOR)
                if "grad_output" not in self._grads():  # else it is that of the result `output`
                    variables["grad_output"] = variables[grad]
                unpack.append(f"const Tensor {grad} = materialize(grads[{i}], {i});")
                self._held.append(grad)
        return unpack

    def _hoist_sizes(
        self, number: int, formula: Formula, variables: dict[str, Value]
    ) -> list[ast.Call]:
        """Calls `sizes_along(tensors, dim)` are made in the forward: the list is not kept."""
        calls = [
            n
            for n in ast.walk(formula.tree)
            if isinstance(n, ast.Call)
            and isinstance(n.func, ast.Name)
            and n.func.id == "sizes_along"
        ]
        for i, call in enumerate(calls):
            name = f"sizes_{number}_{i}"
            translator = Translator(self.schema, self.op, argument_values(self.op))
            code = translator.subexpression(formula, call).code
            self._add(Field(name, "DimVector", code, name, (number,)))
            variables[ast.unparse(call)] = Value(f"this->{name}", INTS)
        return calls

    # ---- what is kept ----

    def _add(self, field: Field) -> None:
        known = self.fields.get(field.name)
        if known is not None:
            field = replace(known, users=(*known.users, *field.users))
        self.fields[field.name] = field

    def _saved(self, field: Field, t: Type, variables: dict[str, Value]) -> list[str]:
        """Keep tensors; the statement that unpacks them into a variable."""
        self._add(field)
        kind = "std::vector<Tensor>" if field.list else "Tensor"
        call = f'{field.name}.unpack(*this, "{field.label}")'
        if field.list:
            call = f'unpack_list({field.name}, *this, "{field.label}")'
        local = f"{field.name if field.output else cpp_types.identifier(field.label)}_v"
        variables[field.label] = Value(local, t)
        self._held.append(local)
        return [f"const {kind} {local} = {call};"]

    def _save(
        self, argument: Argument, number: int, formula: Formula, variables: dict[str, Value]
    ) -> list[str]:
        name, code, t = argument.name, cpp_types.identifier(argument.name), argument.type
        if t.is_tensor:
            whole, facts = facts_of(formula.tree, name)
            if not whole:
                self._save_facts(argument, number, facts, variables)
                return []
            own = f"SavedTensor({code}, false)"
            copied = f"SavedTensor(core_operators().clone({code}), false)"
            field = Field(f"{code}_in", "SavedTensor", own, name, (number,), True, inplace=copied)
            return self._saved(field, t, variables)
        if t.is_tensor_list:
            kind, init = "std::vector<SavedTensor>", f"save_list({code})"
            field = Field(f"{code}_in", kind, init, name, (number,), True, list=True)
            return self._saved(field, t, variables)
        init = f"to_field({code})" if t.base in ("int", "str") else code
        self._add(Field(f"{code}_in", cpp_types.owned(t), init, name, (number,)))
        variables[name] = Value(f"this->{code}_in", t)
        return []

    def _save_facts(
        self, argument: Argument, number: int, facts: Collection[str], variables: dict[str, Value]
    ) -> None:
        """Its shape or dtype is all the formula asks for: the tensor itself need not be kept."""
        name, code = argument.name, cpp_types.identifier(argument.name)
        variables[name] = Value(code, argument.type)
        for attribute in sorted(facts):
            fact = kept(attribute)
            init = f"to_field({code}.{fact.code})"
            field = f"{code}_{attribute}"
            self._add(Field(field, cpp_types.owned(fact.type), init, name, (number,)))
            variables[f"{name}.{attribute}"] = Value(f"this->{field}", fact.type)


# ---- forward mode ----


def _forward(
    schema: Schema, op: Operator, active: Sequence[Derivative]
) -> tuple[tuple[str, ...], str]:
    """Expressions for the tangents of the outputs, over the forward's arguments and results.

    The second is a call with several results, `tangents_` in them.
    """
    outputs = cpp_types.output_names(op)
    if active and len(outputs) == 1 and all(d.zero for d in active):
        return (f"tangent_or_zeros({cpp_types.identifier(outputs[0])})",), ""
    if not active or op.forward in ("none", "composite"):
        return (), ""
    if op.forward == "linear":
        return _linear(op, active, outputs), ""
    variables = argument_values(op)
    for name in outputs:
        variables.setdefault(name, Value(cpp_types.identifier(name), TENSOR))
    if op.forward == "formula" and op.forward_formula is not None:
        for argument in op.signature.tensor_arguments:
            code = f"tangent_or_zeros({cpp_types.identifier(argument.name)})"
            variables[f"{argument.name}_t"] = Value(code, TENSOR)
        translator = Translator(schema, op, variables)
        if len(outputs) > 1:  # one call or list for the first of them, where it is no tensor
            value = translator.expression(op.forward_formula)
            if value.items:
                return tuple(
                    f"std::move(std::get<{i}>(tangents_))" for i in range(len(value.items))
                ), value.code
            if value.elements is not None:
                return tuple(e.code for e in value.elements), ""
        return (translator.expression(op.forward_formula, TENSOR).code,), ""
    # elementwise: the reverse formula with the tangent in place of the gradient; a complex slope
    # comes conjugated there, hence the conjugations here
    variables["grad"] = Value("t_", TENSOR)
    variables.setdefault("grad_output", variables["grad"])  # unless it is an argument
    translator = Translator(schema, op, variables)
    terms = []
    for derivative in active:
        if derivative.zero or derivative.formula is None:
            continue
        (name,) = derivative.inputs
        body = translator.expression(derivative.formula, TENSOR).code
        terms.append(
            f"elementwise_jvp({cpp_types.identifier(name)}, {cpp_types.identifier(outputs[0])}, "
            f"[&](const Tensor& t_) -> Tensor {{ return {body}; }})"
        )
    return ((f"add_tangents({{{', '.join(terms)}}})",) if terms else ()), ""


def _real_only(op: Operator, inputs: Sequence[Argument]) -> str:
    """A condition under which a tangent follows from the reverse formula.

    A gradient conjugates the slope, so it depends on complex inputs as their conjugates, or neither
    way, and the formula of a holomorphic function is not that of its tangent.
    """
    if not op.derived_from or op.forward != "elementwise" or "complex" not in op.dtypes:
        return ""
    return " && ".join(f"!{cpp_types.identifier(a.name)}.is_complex()" for a in inputs)


def _linear(op: Operator, active: Sequence[Derivative], outputs: Sequence[str]) -> tuple[str, ...]:
    """The operator itself, of the tangents."""
    stated = {n for d in active for n in d.inputs}
    codes = []
    for argument in op.signature.arguments:
        code = cpp_types.identifier(argument.name)
        if argument.name in stated:
            code = f"{'tangents' if argument.type.is_list else 'tangent'}_or_zeros({code})"
        codes.append(code)
    call = f"ops::{cpp_types.identifier(op.symbol)}({', '.join(codes)})"
    if len(outputs) == 1:
        return (call,)
    return tuple(f"std::get<{i}>({call})" for i in range(len(outputs)))
