"""Dispatch stubs: for every operator its functional, in-place and out= forms and its entry."""

from __future__ import annotations

from dataclasses import dataclass

from ..scalar.cpp import LIMITED
from ..scalar.tree import from_formula
from ..schema import cpp_types
from ..schema.model import Argument, Operator, Schema
from ..schema.words import AUTOCAST_DEVICES
from ..tensor.compose import Translator
from ..tensor.values import argument_values
from . import batching, pointwise


@dataclass(frozen=True)
class Form:
    """One C++ function of an operator: what the headers declare and the stubs define."""

    variant: str  # Functional, InPlace, Out
    name: str
    result: str
    parameters: str
    declaration: str  # parameters with defaults
    arguments: str


@dataclass(frozen=True)
class Stub:
    op: Operator
    entry: str
    forms: tuple[Form, ...]
    layers: str  # expression that ORs the inputs' layers
    written_layers: str  # the same of an in-place form
    kind: str  # which template branch: pointwise, structured, view, composite, direct
    kernel_type: str
    kernels: tuple[tuple[str, str], ...]  # (device constant, symbol)
    any_kernel: str | None
    shape: tuple[str, ...]
    body: tuple[str, ...]  # of a composite
    composite_result: str
    composite_symbol: str
    parts_symbol: str  # what serves a batch of calls that no rule serves; "" for nothing
    has_decomposition: bool
    through_composite: bool  # records gradients by running the composite instead of the kernel
    forward_composite: str  # condition to run the composite for its tangents, "" for never
    device: str
    pointwise: PointwisePlan | None
    autograd: bool
    layered: bool  # calls pass the layers; else those of its parts do
    checks: tuple[str, ...]  # statements that refuse arguments
    self_name: str
    mutable: tuple[str, ...]
    direct_return: str
    direct_result: str
    out_names: tuple[str, ...]
    lists: str  # every tensor input as a TensorList
    tensors: str  # every tensor input
    all_tensors: str  # and the tensors of out=
    device_kernel: str | None  # what devices of packages have without writing it
    writes: int  # bit i: argument i is written to
    outs: int  # results of the kernel that it is given to fill
    reduction_dim: int  # argument that says what a reduction takes away, -1 for no reduction
    reduction_index: bool
    device_names: str  # and their names, where several inputs must be on one device
    out_gives_dtype: bool  # a factory takes the dtype of its out unless told another
    kept_arguments: str  # the functional form's, `self` as its backward may keep it
    direct_inplace: bool  # `aliasing: self`: the kernel takes self itself as its out
    cast: str | None  # arguments of the autocast layer's function, where there is one
    cast_policies: str  # what it does on the CPU and on other devices
    batch: str  # word of its batching rule: elements, leading, rows, or ""
    batch_rules: tuple[tuple[str, str], ...]  # roles of arguments and results, in C++
    masks: int  # bit i: argument i takes no part in promotion
    random: bool
    gives_numbers: bool

    @property
    def functional(self) -> Form:
        return self.forms[0]

    def form(self, variant: str) -> Form | None:
        return next((f for f in self.forms if f.variant == variant), None)


@dataclass(frozen=True)
class PointwisePlan:
    """What the pointwise driver needs of an operator."""

    inputs: tuple[str, ...]  # tensor arguments, as C++ names
    values: tuple[str, ...]  # Scalar expressions, one a non-tensor argument that loops read
    variants: tuple[tuple[str, str], ...]  # (value of the str argument, suffix of the loops' name)
    selector: str | None  # the str argument
    promotion: str
    outputs: int
    present: str  # bit mask expression: which optional values were given
    promoting: int  # bit mask: which values promote as numbers
    masks: int  # bit mask: which inputs are read as bool
    tests: tuple[str, ...]  # conditions that choose a variant
    shown: str
    limited: bool  # the formula refuses elements outside of limits


def forms_of(op: Operator) -> tuple[Form, ...]:
    name = cpp_types.identifier(op.symbol)
    parameters = cpp_types.parameters(op)
    declaration = cpp_types.parameters(op, with_defaults=True)
    arguments = cpp_types.names(op)
    result = cpp_types.result_type(op.signature.returns)
    forms = [Form("Functional", name, result, parameters, declaration, arguments)]
    if "inplace" in op.variants and takes_self(op):
        forms.append(
            Form("InPlace", name + "_", "const Tensor&", parameters, declaration, arguments)
        )
    if "out" in op.variants:
        outs = cpp_types.out_names(op)
        joined = cpp_types.joined(parameters, *(f"const Tensor& {o}" for o in outs))
        passed = cpp_types.joined(arguments, *outs)
        forms.append(Form("Out", op.symbol + "_out", "void", joined, joined, passed))
    return tuple(forms)


def on_one_device(op: Operator) -> bool:
    """Whether its tensors must share a device; `non_blocking` says that it copies between two."""
    names = {a.name for a in op.signature.arguments}
    return "non_blocking" not in names and (
        len(tensor_inputs(op)) > 1 or any(a.type.is_list for a in tensor_inputs(op))
    )


def kept_arguments(op: Operator) -> str:
    """The arguments of a composite whose result is then written over its first one."""
    names = [cpp_types.identifier(a.name) for a in op.signature.arguments]
    return ", ".join([f"kept({names[0]}, {layers_expression(op)})", *names[1:]]) if names else ""


def takes_self(op: Operator) -> bool:
    """Methods and in-place forms need a tensor as the first argument."""
    return bool(op.signature.arguments) and op.signature.arguments[0].type.is_tensor


def tensor_inputs(op: Operator) -> list[Argument]:
    return [a for a in op.signature.arguments if a.type.base == "Tensor"]


def layers_expression(op: Operator, written: bool = False) -> str:
    changed = {a.name for a in op.signature.arguments if a.type.mutable}
    if written and takes_self(op):
        changed.add(op.signature.arguments[0].name)
    parts = []
    for a in tensor_inputs(op):
        written_to = a.name in changed and not a.type.is_list
        function = "layers_of_written" if written_to else "layers_of"
        parts.append(f"{function}({cpp_types.identifier(a.name)})")
    return " | ".join(parts) if parts else "0"


def device_expression(op: Operator) -> str:
    """The device whose kernel runs when no shape rule says it."""
    inputs = tensor_inputs(op)
    if inputs:
        return f"device_of({', '.join(cpp_types.identifier(a.name) for a in inputs)})"
    device = next((a for a in op.signature.arguments if a.type.base == "Device"), None)
    return f"{cpp_types.identifier(device.name)}.value_or(Device{{}})" if device else "Device{}"


def pointwise_plan(op: Operator) -> PointwisePlan:
    inputs: list[str] = []
    values: list[str] = []
    present: list[str] = []
    tests: list[str] = []
    selector, shown = None, ""
    promoting = 0
    passed = pointwise.loop_arguments(op)
    for argument in op.signature.arguments:
        name = cpp_types.identifier(argument.name)
        if argument.type.is_tensor:
            inputs.append(name)
        elif argument.type.base == "str" and op.scalar_variants:
            selector = name
            optional = argument.type.optional
            shown = f'{name}.value_or("None")' if optional else name
            for value, _ in op.scalar:
                given = f'{name} == std::string_view("{value}")'
                tests.append(
                    f"!{name}.has_value()" if optional and value in ("", "None") else given
                )
        elif argument in passed:
            bit = len(values)
            if argument.type.optional:
                values.append(f"{name} ? Scalar(*{name}) : Scalar()")
                present.append(f"({name} ? {1 << bit}u : 0u)")
            else:
                values.append(name if argument.type.base == "Scalar" else f"Scalar({name})")
                present.append(f"{1 << bit}u")
            if argument.type.base == "Scalar":
                promoting |= 1 << bit
    variants: tuple[tuple[str, str], ...] = (("", ""),)
    if op.scalar_variants:
        variants = tuple((value, f"_{value}") for value, _ in op.scalar)
    masks = sum(1 << i for i, a in enumerate(op.signature.tensor_arguments) if a.name in op.masks)
    return PointwisePlan(
        tuple(inputs),
        tuple(values),
        variants,
        selector,
        op.promote.capitalize(),
        len(op.signature.returns),
        " | ".join(present) or "0u",
        promoting,
        masks,
        tuple(tests),
        shown,
        any(LIMITED in from_formula(formula).functions() for _, formula in op.scalar),
    )


def indented(lines: list[str]) -> tuple[str, ...]:
    """Statements with two spaces for each block they are in."""
    found: list[str] = []
    depth = 0
    for line in lines:
        depth -= line.startswith("}")
        found.append("  " * depth + line)
        depth += line.endswith("{")
    return tuple(found)


def range_checks(op: Operator) -> tuple[str, ...]:
    """Statements that refuse numbers outside the ranges stated in the signature."""
    lines = []
    for argument in op.signature.arguments:
        r = argument.range
        if r is None or argument.type.base not in ("int", "float", "Scalar"):
            continue
        name = cpp_types.identifier(argument.name)
        item = "value" if argument.type.is_list or argument.type.optional else name
        number = (
            f"{item}.as_double()"
            if argument.type.base == "Scalar"
            else f"static_cast<double>({item})"
        )
        tests = []
        if r.low is not None and r.low != float("-inf"):
            tests.append(f"{number} {'>' if r.low_open else '>='} {r.low!r}")
        if r.high is not None and r.high != float("inf"):
            tests.append(f"{number} {'<' if r.high_open else '<='} {r.high!r}")
        shown = f"{item}.as_double()" if argument.type.base == "Scalar" else item
        check = (
            f'FACULA_CHECK({" && ".join(tests)}, Value, Operator{{"{op.base_name}"}}, '
            f'Argument{{"{argument.name}"}}, " must be {r.text}, not ", {shown});'
        )
        if argument.type.is_list:
            source = f"*{name}" if argument.type.optional else name
            check = f"for (const auto value : {source}) {{ {check} }}"
            if argument.type.optional:
                check = f"if ({name}) {{ {check} }}"
        elif argument.type.optional:
            check = f"if ({name}) {{ const auto value = *{name}; {check} }}"
        lines.append(check)
    return tuple(lines)


def _kind(op: Operator) -> str:
    """Which way the stub takes to its result."""
    if op.scalar:
        return "pointwise"
    if op.kind == "view":
        return "view"
    if (op.composite is not None or op.composite_fn is not None) and not op.dispatch:
        return "composite"
    if cpp_types.returns_tensors(op) and op.shape:
        return "structured"
    return "direct"


def _direct_result(op: Operator) -> tuple[str, str]:
    """How a kernel that makes its own result is called, and what is returned after it."""
    returns, mutable = op.signature.returns, cpp_types.mutable_names(op)
    if not returns:
        return "", ""
    if not mutable:
        return "return ", ""
    return ("", mutable[0]) if returns[0].type.mutable else ("auto result_ = ", "result_")


def is_castable(op: Operator) -> bool:
    """Whether autocast may cast its inputs: by its own key, or as a vendor's list says."""
    if op.autocast:
        return True
    return (
        bool(op.scalar or op.dispatch)
        and not (op.internal or op.derived_from or cpp_types.mutates(op))
        and op.kind not in ("factory", "random", "mutation", "view")
        and bool(tensor_inputs(op))
        and cpp_types.returns_tensors(op)
    )


def _cast(op: Operator, kind: str, composite: str, differentiable: bool) -> str | None:
    """Its entry and function; and of a composite that is not cast what its parts decide."""
    if not is_castable(op):
        return None
    own = f"&entries::{op.symbol}_entry, &ops::{cpp_types.identifier(op.symbol)}"
    return f"{own}, &{composite}" if kind == "composite" and not differentiable else own


def _policies(op: Operator) -> str:
    given = dict(op.autocast)
    words = (given.get(device, "none") for device in AUTOCAST_DEVICES)
    return ", ".join(f"CastPolicy::{word.capitalize()}" for word in words)


def stub_of(schema: Schema, op: Operator, differentiable: bool) -> Stub:
    translator = Translator(schema, op, argument_values(op))
    kind, kernels, returns = _kind(op), dict(op.dispatch), op.signature.returns
    decomposes = op.composite is not None or op.composite_fn is not None
    inputs = [cpp_types.identifier(a.name) for a in tensor_inputs(op)]
    tangents = " || ".join(f"wants_tangent({name})" for name in inputs)
    body = translator.program(op.composite, tuple(r.type for r in returns)) if op.composite else []
    shape = op.shape if kind == "structured" else ()
    direct_return, direct_result = _direct_result(op)
    composite = f"composite::{op.composite_fn}" if op.composite_fn else f"{op.symbol}_composite"
    return Stub(
        op=op,
        entry=f"{op.symbol}_entry",
        forms=forms_of(op),
        layers=layers_expression(op),
        written_layers=layers_expression(op, written=True),
        kind=kind,
        kernel_type=f"{cpp_types.kernel_result(op)} (*)({cpp_types.kernel_parameters(op)})",
        kernels=(("kCPU", f"cpu::{kernels['CPU']}"),) if "CPU" in kernels else (),
        any_kernel=f"any::{kernels['any']}" if "any" in kernels else None,
        shape=tuple(translator.shape_expression(f) for f in shape),
        body=indented(body),
        composite_result=cpp_types.result_type(returns),
        composite_symbol=composite,
        parts_symbol=f"composite::{op.batch_fn}"
        if op.batch_fn
        else (composite if decomposes else ""),
        has_decomposition=decomposes and bool(kernels),
        through_composite=op.through_composite,
        forward_composite=tangents if op.forward == "composite" else "",
        device=device_expression(op),
        pointwise=pointwise_plan(op) if op.scalar else None,
        autograd=differentiable,
        layered=kind != "composite" or differentiable or op.kind == "random",
        checks=(*range_checks(op), *(translator.check(c) for c in op.checks)),
        self_name=cpp_types.names(op).partition(",")[0],
        mutable=cpp_types.mutable_names(op),
        direct_return=direct_return,
        direct_result=direct_result,
        out_names=cpp_types.out_names(op),
        lists=", ".join(f"as_list({name})" for name in inputs),
        tensors=", ".join(inputs),
        all_tensors=", ".join((*inputs, *cpp_types.out_names(op))),
        device_kernel=f"device::{kernels['device']}" if "device" in kernels else None,
        writes=sum(1 << i for i, a in enumerate(op.signature.arguments) if a.type.mutable),
        outs=len(returns) if cpp_types.returns_tensors(op) and kind != "view" else 0,
        reduction_dim=next(i for i, a in enumerate(op.signature.arguments) if a.name == "dim")
        if op.reduction
        else -1,
        reduction_index="index" in dict(op.reduction),
        device_names=", ".join(f'"{a.name}"' for a in tensor_inputs(op))
        if on_one_device(op)
        else "",
        out_gives_dtype=not inputs
        and any(
            a.type.base == "ScalarType" and a.type.optional and a.default == "None"
            for a in op.signature.arguments
        ),
        kept_arguments=kept_arguments(op),
        direct_inplace=dict(op.policies).get("aliasing") == "self",
        cast=_cast(op, kind, composite, differentiable),
        cast_policies=_policies(op),
        batch=batching.rule_of(op)[0],
        batch_rules=batching.rules(op),
        masks=sum(1 << i for i, a in enumerate(op.signature.arguments) if a.name in op.masks),
        random=op.kind == "random"
        or any(a.type.base == "Generator" for a in op.signature.arguments),
        gives_numbers=bool(returns) and any(r.type.base != "Tensor" for r in returns),
    )
