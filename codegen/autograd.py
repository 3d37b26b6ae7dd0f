"""Backward nodes: what an operator's derivative formulas save, and the code that uses it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from codegen import cpp_types
from codegen.compose import (
    BOOLS,
    DEVICE,
    DTYPE,
    INT,
    INTS,
    TENSOR,
    TENSORS,
    Translator,
    Value,
    argument_values,
    facts_of,
    names_used,
)
from codegen.model import Argument, Derivative, Operator, Schema

_FACT_FIELDS = {
    "shape": ("DimVector", INTS, "{}.sizes()"),
    "ndim": ("int64_t", INT, "{}.dim()"),
    "dtype": ("ScalarType", DTYPE, "{}.dtype()"),
    "device": ("Device", DEVICE, "{}.device()"),
}


@dataclass(frozen=True)
class Field:
    """Something a node keeps from the forward call."""

    name: str  # C++ member
    type: str
    init: str  # expression over the forward's arguments or outputs
    saved: bool  # a SavedTensor, released after backward
    label: str  # schema name, for messages
    output: bool  # initialised after the forward
    users: tuple[int, ...]  # derivative groups whose formulas use it
    list: bool = False
    position: int = 0  # of the output it is

    @property
    def inplace_init(self) -> str:
        """What an in-place form saves of the tensor it is about to overwrite."""
        if self.type != "SavedTensor" or self.output:
            return self.init
        return self.init.replace(
            f"SavedTensor({self.label}, ", f"SavedTensor(engine_roles().clone({self.label}), "
        )


@dataclass(frozen=True)
class Group:
    """One derivative statement: the inputs it serves and the code that computes them."""

    inputs: tuple[str, ...]
    slots: tuple[str, ...]  # expressions for the first edge of each input
    counts: tuple[str, ...]  # expressions for the number of edges ("1" for a tensor)
    lists: tuple[bool, ...]
    code: str  # the formula; for several inputs a tuple; "" for zero
    unpack: tuple[str, ...]  # statements before it


@dataclass(frozen=True)
class Node:
    op: Operator
    name: str  # C++ struct
    label: str  # as Python sees it
    fields: tuple[Field, ...]
    groups: tuple[Group, ...]
    inputs: tuple[Argument, ...]  # those with an edge, in order
    grads: tuple[str, ...]  # names of the incoming gradients
    list_inputs: tuple[str, ...]
    forward: tuple[str, ...]  # one jvp expression an output, () when there is none
    forward_reason: str


def is_differentiable(op: Operator) -> bool:
    return any(d.none is None for d in op.derivatives)


def needs_layer(op: Operator) -> bool:
    """Operators that must pass the autograd layer: differentiable ones, and all that write."""
    return (
        is_differentiable(op)
        or bool({"inplace", "out"} & set(op.variants))
        or cpp_types.mutates(op)
    )


def _pascal(symbol: str) -> str:
    return "".join(part.capitalize() if part.islower() else part for part in symbol.split("_"))


def node_of(schema: Schema, op: Operator) -> Node:
    active = [d for d in op.derivatives if d.none is None]
    stated = [name for d in active for name in d.inputs]
    inputs = tuple(a for a in op.signature.arguments if a.name in stated)
    outputs = cpp_types.output_names(op)
    grads = tuple(["grad"] if len(outputs) == 1 else [f"grad_{o}" for o in outputs])
    fields: dict[str, Field] = {}
    groups: list[Group] = []
    slot, slots, counts = "0", {}, {}
    for argument in inputs:
        slots[argument.name] = slot
        counts[argument.name] = (
            f"{cpp_types.identifier(argument.name)}_count" if argument.type.is_list else "1"
        )
        slot = counts[argument.name] if slot == "0" else f"{slot} + {counts[argument.name]}"
    for number, derivative in enumerate(active):
        groups.append(_group(schema, op, number, derivative, outputs, grads, slots, counts, fields))
    return Node(
        op=op,
        name=_pascal(op.symbol) + "Backward",
        label=_pascal(op.symbol) + "Backward",
        fields=tuple(fields.values()),
        groups=tuple(groups),
        inputs=inputs,
        grads=grads,
        list_inputs=tuple(cpp_types.identifier(a.name) for a in inputs if a.type.is_list),
        forward=_forward(schema, op, active, outputs),
        forward_reason=op.forward_reason,
    )


def _group(
    schema: Schema,
    op: Operator,
    number: int,
    derivative: Derivative,
    outputs: tuple[str, ...],
    grads: tuple[str, ...],
    slots: dict[str, str],
    counts: dict[str, str],
    fields: dict[str, Field],
) -> Group:
    arguments = {a.name: a for a in op.signature.arguments}
    lists = tuple(arguments[i].type.is_list for i in derivative.inputs)
    if derivative.zero or derivative.formula is None:
        return Group(
            derivative.inputs,
            tuple(slots[i] for i in derivative.inputs),
            tuple(counts[i] for i in derivative.inputs),
            lists,
            "",
            (),
        )
    formula = derivative.formula
    variables: dict[str, Value] = {}
    unpack: list[str] = []
    hoisted = _hoist_sizes(schema, op, number, derivative, fields, variables)
    used = names_used(formula.tree, hoisted)
    if "grads" in used and "grads" not in arguments:  # of an operator that returns a list
        variables["grads"] = Value("grads_v", TENSORS)
        unpack.append("const std::vector<Tensor> grads_v = materialize_all(*this, grads);")
    for i, grad in enumerate(grads):
        if grad in used or (grad == "grad" and "grad_output" in used):
            variables[grad] = Value(grad, TENSOR)
            if "grad_output" not in grads:  # else it is that of the output of this name
                variables["grad_output"] = variables[grad]
            unpack.append(f"const Tensor {grad} = materialize(grads[{i}], {i});")
    for name, argument in arguments.items():
        if name in used:
            _save_argument(argument, number, formula.tree, fields, variables, unpack)
    for i, name in enumerate(outputs):
        if name in used and name not in arguments:
            field = f"{name}_out"
            _add(fields, Field(field, "SavedTensor", name, True, name, True, (number,), position=i))
            unpack.append(f'const Tensor {field}_v = {field}.unpack(*this, "{name}");')
            variables[name] = Value(f"{field}_v", TENSOR)
    if "mask" in used and "mask" not in arguments:
        tests = ", ".join(f"needs({slots[i]})" for i in derivative.inputs)
        unpack.append(f"const std::vector<bool> mask{{{tests}}};")
        variables["mask"] = Value("mask", BOOLS)
    for name in derivative.inputs:
        variables[f"needs_{name}"] = Value(f"needs({slots[name]})", Value("", INT).type)
    translator = Translator(schema, op, variables)
    if len(derivative.inputs) == 1:
        wanted = TENSORS if lists[0] else TENSOR
        code = translator.expression(formula, wanted).code
    else:
        value = translator.expression(formula)
        if value.elements is not None:
            code = f"std::make_tuple({', '.join(e.code for e in value.elements)})"
        else:
            code = value.code
    return Group(
        derivative.inputs,
        tuple(slots[i] for i in derivative.inputs),
        tuple(counts[i] for i in derivative.inputs),
        lists,
        code,
        tuple(unpack),
    )


def _hoist_sizes(
    schema: Schema,
    op: Operator,
    number: int,
    derivative: Derivative,
    fields: dict[str, Field],
    variables: dict[str, Value],
) -> list[ast.AST]:
    """Calls `sizes_along(tensors, dim)` are made in the forward, so that the list is not kept."""
    assert derivative.formula is not None
    calls: list[ast.AST] = [
        n
        for n in ast.walk(derivative.formula.tree)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "sizes_along"
    ]
    for i, call in enumerate(calls):
        name = f"sizes_{number}_{i}"
        translator = Translator(schema, op, argument_values(op))
        code = translator.subexpression(derivative.formula, call).code
        _add(fields, Field(name, "DimVector", code, False, name, False, (number,)))
        variables[ast.unparse(call)] = Value(f"this->{name}", INTS)
    return calls


def _add(fields: dict[str, Field], field: Field) -> None:
    known = fields.get(field.name)
    if known is None:
        fields[field.name] = field
    else:
        fields[field.name] = Field(
            known.name,
            known.type,
            known.init,
            known.saved,
            known.label,
            known.output,
            (*known.users, *field.users),
            known.list,
            known.position,
        )


def _save_argument(
    argument: Argument,
    number: int,
    tree: object,
    fields: dict[str, Field],
    variables: dict[str, Value],
    unpack: list[str],
) -> None:
    import ast

    assert isinstance(tree, ast.AST)
    name, code = argument.name, cpp_types.identifier(argument.name)
    if argument.type.is_tensor:
        whole, facts = facts_of(tree, name)
        if not whole:
            # its shape or dtype is all the formula asks for: the tensor itself need not be kept
            variables[name] = Value(code, argument.type)
            for fact in sorted(facts):
                kind, fact_type, init = _FACT_FIELDS[fact]
                _add(
                    fields,
                    Field(
                        f"{code}_{fact}",
                        kind,
                        f"to_field({init.format(code)})",
                        False,
                        name,
                        False,
                        (number,),
                    ),
                )
                variables[f"{name}.{fact}"] = Value(f"this->{code}_{fact}", fact_type)
            return
        _add(
            fields,
            Field(
                f"{code}_in",
                "SavedTensor",
                f"SavedTensor({code}, false)",
                True,
                name,
                False,
                (number,),
            ),
        )
        unpack.append(f'const Tensor {code}_v = {code}_in.unpack(*this, "{name}");')
        variables[name] = Value(f"{code}_v", argument.type)
    elif argument.type.is_tensor_list:
        _add(
            fields,
            Field(
                f"{code}_in",
                "std::vector<SavedTensor>",
                f"save_list({code})",
                True,
                name,
                False,
                (number,),
                True,
            ),
        )
        unpack.append(
            f'const std::vector<Tensor> {code}_v = unpack_list({code}_in, *this, "{name}");'
        )
        variables[name] = Value(f"{code}_v", argument.type)
    else:
        kind = cpp_types.owned(argument.type)
        init = f"to_field({code})" if argument.type.base in ("int", "str") else code
        _add(fields, Field(f"{code}_in", kind, init, False, name, False, (number,)))
        variables[name] = Value(f"this->{code}_in", argument.type)


def _forward(
    schema: Schema, op: Operator, active: list[Derivative], outputs: tuple[str, ...]
) -> tuple[str, ...]:
    """Expressions for the tangents of the outputs, over the forward's arguments and results."""
    if not active or op.forward in ("none", "composite"):
        return ()
    variables = argument_values(op)
    for name in outputs:
        variables.setdefault(name, Value(cpp_types.identifier(name), TENSOR))
    if op.forward == "formula" and op.forward_formula is not None:
        for argument in op.signature.tensor_arguments:
            tangent = f"{argument.name}_t"
            variables[tangent] = Value(
                f"tangent_or_zeros({cpp_types.identifier(argument.name)})", TENSOR
            )
        return (Translator(schema, op, variables).expression(op.forward_formula, TENSOR).code,)
    if op.forward == "linear":
        stated = {n for d in active for n in d.inputs}
        codes = []
        for argument in op.signature.arguments:
            code = cpp_types.identifier(argument.name)
            if argument.name in stated:
                helper = "tangents_or_zeros" if argument.type.is_list else "tangent_or_zeros"
                codes.append(f"{helper}({code})")
            else:
                codes.append(code)
        call = f"ops::{cpp_types.identifier(op.symbol)}({', '.join(codes)})"
        if len(outputs) == 1:
            return (call,)
        return tuple(f"std::get<{i}>({call})" for i in range(len(outputs)))
    # elementwise: the reverse formula with the tangent in place of the gradient; a complex slope
    # comes conjugated there, hence the conjugations here
    terms = []
    for derivative in active:
        if derivative.zero or derivative.formula is None:
            continue
        (name,) = derivative.inputs
        code = cpp_types.identifier(name)
        local = dict(variables)
        local["grad"] = local["grad_output"] = Value("t_", TENSOR)
        body = Translator(schema, op, local).expression(derivative.formula, TENSOR).code
        terms.append(
            f"elementwise_jvp({code}, {cpp_types.identifier(outputs[0])}, "
            f"[&](const Tensor& t_) -> Tensor {{ return {body}; }})"
        )
    return (f"add_tangents({{{', '.join(terms)}}})",) if terms else ()
