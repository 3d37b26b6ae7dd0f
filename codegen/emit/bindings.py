"""Python bindings: one parser and call per operator, number slots, methods and namespaces."""

from __future__ import annotations

from dataclasses import dataclass

from ..schema import cpp_types, signs
from ..schema.model import Argument, Operator, Schema
from ..schema.words import PLACES
from . import stubs

_ARG_TYPES = {
    "Tensor": "Tensor",
    "int": "Int",
    "float": "Float",
    "bool": "Bool",
    "str": "Str",
    "Scalar": "Scalar",
    "ScalarType": "ScalarType",
    "Device": "Device",
    "Generator": "Generator",
    "MemoryFormat": "MemoryFormat",
}
_CONVERTERS = {
    "int": "to_int",
    "float": "to_float",
    "bool": "to_bool",
    "str": "to_str",
    "Scalar": "to_scalar",
    "ScalarType": "to_dtype",
    "Device": "to_device",
    "Generator": "to_generator",
    "MemoryFormat": "to_memory_format",
}


@dataclass(frozen=True)
class Binding:
    """One operator as Python calls it."""

    op: Operator
    spec: str
    inplace_spec: str
    called: str
    inplace_signature: str
    params: tuple[str, ...]  # ParamSpec initialisers
    convert: tuple[str, ...]  # statements that make the C++ arguments
    convert_inplace: tuple[str, ...]
    arguments: str
    out_slot: int | None
    out_list: bool
    grad_slot: int | None  # `requires_grad` of factories, then `layout` and `pin_memory`
    hint: str
    result: str  # how the C++ result becomes Python's: wrap, self, none, named, tuple
    fields: tuple[str, ...]
    forms: tuple[str, ...]


@dataclass(frozen=True)
class Callable_:
    """A Python name with the operators that serve it, in file order."""

    name: str
    symbol: str  # C++ function
    bindings: tuple[Binding, ...]
    method: bool
    inplace: bool
    alias: str = ""  # in errors, where the operators are called otherwise


@dataclass(frozen=True)
class Entry:
    path: str
    name: str
    symbol: str


def binding_of(op: Operator) -> Binding:
    params = [_param(op, a) for a in op.signature.arguments]
    out_slot = grad_slot = None
    out_list = len(op.signature.returns) > 1
    if "out" in op.variants:
        out_slot = len(params)
        kind = "TensorList" if out_list else "Tensor"
        params.append(
            f'{{.name = "out", .type = ArgType::{kind}, .optional = true, .required = false, '
            ".keyword_only = true}"
        )
    if op.kind in ("factory", "random") and cpp_types.returns_tensors(op):
        grad_slot = len(params)
        params.append(
            '{.name = "requires_grad", .type = ArgType::Bool, .optional = true, '
            ".required = false, .keyword_only = true}"
        )
        # As torch takes them: there is one layout, and pin_memory() alone pins memory.
        params += [
            f'{{.name = "{name}", .type = ArgType::{kind}, .optional = true, .required = false, '
            ".keyword_only = true}"
            for name, kind in (("layout", "Layout"), ("pin_memory", "Bool"))
        ]
    spec, inplace_spec = f"{op.symbol}_spec", f"{op.symbol}_inplace_spec"
    convert, convert_inplace = (
        tuple(_convert(op, i, a, s) for i, a in enumerate(op.signature.arguments))
        for s in (spec, inplace_spec)
    )
    returns = op.signature.returns
    if not returns:
        result = "none"
    elif returns[0].type.mutable:
        result = "self"
    elif len(returns) > 1:
        result = "named" if all(r.name for r in returns) else "tuple"
    else:
        result = "wrap"
    return Binding(
        op=op,
        spec=spec,
        inplace_spec=inplace_spec,
        called=called(op),
        inplace_signature=str(op.signature).replace(op.base_name, f"{op.base_name}_", 1),
        params=tuple(params),
        convert=convert,
        convert_inplace=convert_inplace,
        arguments=", ".join(_call_argument(a) for a in op.signature.arguments),
        out_slot=out_slot,
        out_list=out_list,
        grad_slot=grad_slot,
        hint=_release_hint(op),
        result=result,
        fields=cpp_types.output_names(op),
        forms=tuple(f.variant for f in stubs.forms_of(op)),
    )


def _param(op: Operator, argument: Argument) -> str:
    t = argument.type
    kind = _ARG_TYPES[t.base]
    if t.is_list:
        kind = (
            ("OptionalTensorList" if t.optional_elements else "TensorList")
            if t.base == "Tensor"
            else f"{kind}List"
        )
    parts = [f'.name = "{argument.name}"', f".type = ArgType::{kind}"]
    if t.optional:
        parts.append(".optional = true")
    if argument.default is not None:
        parts.append(".required = false")
    if argument.keyword_only:
        parts.append(".keyword_only = true")
    if t.varargs:
        parts.append(".varargs = true")
    if takes_numbers(op, argument):
        parts.append(".numbers = true")
    if t.list_size:
        parts.append(f".list_size = {t.list_size}")
    return "{" + ", ".join(parts) + "}"


def takes_numbers(op: Operator, argument: Argument) -> bool:
    """Does a number stand for a tensor here? So of two like operands, either may be one."""
    operands = {"self", "other"}
    like = argument.name in operands and operands <= {a.name for a in op.signature.arguments}
    return argument.type.is_tensor and (op.kind == "pointwise" or (op.kind == "composite" and like))


def _local(argument: Argument) -> str:
    return f"a_{argument.name}"


def _convert(op: Operator, i: int, argument: Argument, spec: str) -> str:
    t, name = argument.type, _local(argument)
    slot = f"slots[{i}]"
    if t.is_tensor:
        function = "to_optional_tensor" if t.optional else "to_tensor"
        hold = f"Tensor hold_{argument.name};"
        if argument.default is not None and not t.optional:
            raise ValueError(f"{op.name}: a Tensor default can only be None")
        return (
            f"{hold} const Tensor& {name} = {function}({spec}, {i}, {slot}, hold_{argument.name});"
        )
    kind = cpp_types.owned(t)
    if t.base == "str":
        kind = "std::optional<std::string_view>" if t.optional else "std::string_view"
    if t.is_list:
        converter = {"int": "to_int_list", "bool": "to_bool_list", "Tensor": "to_tensor_list"}[
            t.base
        ]
    else:
        converter = _CONVERTERS[t.base]
    call = f"{converter}({spec}, {i}, {slot})"
    if argument.default is None:
        if t.optional:
            empty = f"{kind}{{}}"
            return f"const {kind} {name} = {slot} != nullptr ? {kind}({call}) : {empty};"
        return f"const {kind} {name} = {call};"
    if argument.default == "None":
        # not kind({}), which for an optional would hold a value
        absent = f"{kind}{{}}"
        if t.base == "Device" and not stubs.tensor_inputs(op):
            out = f"slots[{len(op.signature.arguments)}] != nullptr" if "out" in op.variants else ""
            absent = f"default_device({out})"
        return f"const {kind} {name} = {slot} != nullptr ? {kind}({call}) : {absent};"
    default = cpp_types.literal(argument.default, t, owned_value=t.base != "str")
    return f"const {kind} {name} = {slot} != nullptr ? {kind}({call}) : {kind}({default});"


def _call_argument(argument: Argument) -> str:
    t = argument.type
    if t.is_list and t.base == "int" and t.optional:
        return f"to_list({_local(argument)})"
    return _local(argument)


def _release_hint(op: Operator) -> str:
    """A count of elements: from it a call decides whether releasing the GIL pays."""
    for argument in op.signature.arguments:
        if argument.type.is_tensor:
            return f"size_hint({_local(argument)})"
        if argument.type.is_tensor_list:
            return f"size_hint({_local(argument)})"
        if (
            argument.type.is_list
            and argument.type.base == "int"
            and op.kind in ("factory", "random")
        ):
            return f"size_hint(IntList({_local(argument)}))" if not argument.type.optional else "0"
    return "0" if op.kind != "factory" else "INT64_MAX"


def called(op: Operator) -> str:
    """The name in errors: the operator's own, or where it has another in Python, that one."""
    names = python_names(op)
    if op.internal or not names or any(name == op.base_name for _, name in names):
        return op.base_name
    return ".".join(names[0])


def python_names(op: Operator) -> list[tuple[str, str]]:
    """(path, name) pairs of the functions of an operator; path `Tensor` is a method."""
    if op.internal:
        return [("_ops", op.symbol)]
    found: list[tuple[str, str]] = []
    for base in (op.base_name, *op.alias):
        for place in op.python:
            if place == "function":
                found.append(("", base))
            elif place == "method" and stubs.takes_self(op):
                found.append(("Tensor", base))
            elif place not in PLACES and place not in signs.ALL:
                path, _, leaf = place.rpartition(".")
                found.append((path, leaf if base == op.base_name else base))
    return list(dict.fromkeys(found))


def inplace_names(op: Operator) -> list[tuple[str, str]]:
    if op.internal or "inplace" not in op.variants or not stubs.takes_self(op):
        return []
    return [(path, name + "_") for path, name in python_names(op) if path != "_ops"]


def collect(schema: Schema) -> tuple[list[Binding], list[Callable_], list[Entry]]:
    """All bindings, the Python callables over them, and where each is found."""
    bindings = {op.name: binding_of(op) for op in schema}
    named: dict[tuple[str, str, bool], list[Binding]] = {}
    for op in schema:
        for path, name in python_names(op):
            named.setdefault((path, name, False), []).append(bindings[op.name])
        for path, name in inplace_names(op):
            named.setdefault((path, name, True), []).append(bindings[op.name])
    callables: dict[tuple[tuple[str, ...], bool, bool, str], Callable_] = {}
    entries: list[Entry] = []
    for (path, name, inplace), group in named.items():
        method = path == "Tensor"
        alias = _alias(group[0], path, name, inplace)
        own = alias or ("" if len(group) == 1 else name)
        key = (tuple(b.op.name for b in group), method, inplace, own)
        known = callables.get(key)
        if known is None:
            stem = "_".join(b.op.symbol for b in group)
            stem = f"{own.replace('.', '_')}_{stem}" if own else stem
            symbol = f"{'method' if method else 'function'}_{stem}{'_inplace' if inplace else ''}"
            known = Callable_(name, symbol, tuple(group), method, inplace, alias)
            callables[key] = known
        entries.append(Entry(path, name, known.symbol))
    return list(bindings.values()), list(callables.values()), entries


def _alias(binding: Binding, path: str, name: str, inplace: bool) -> str:
    """What errors are to call the function, if not as they call the operator."""
    own = binding.called.rpartition(".")[2] + ("_" if inplace else "")
    if binding.op.internal or name == own:
        return ""
    return name if path in ("", "Tensor") else f"{path}.{name}"


@dataclass(frozen=True)
class Slot:
    """A sign, the operator that serves it, and the one for a number on the right, if another."""

    token: str
    place: str
    symbol: str
    number_symbol: str


def _sign_slots(schema: Schema) -> list[tuple[str, str, Operator]]:
    found = []
    for op in schema:
        for token in op.python:
            if token in signs.BINARY:
                slot = signs.BINARY[token].slot
                found.append((token, f"binary[{slot}]", op))
                if "inplace" in op.variants:
                    found.append((token + "=", f"inplace[{slot}]", op))
            elif token in signs.COMPARE:
                found.append((token, f"compare[{signs.COMPARE[token].slot}]", op))
    return found


def sign_params(schema: Schema) -> int:
    """How many arguments signs and properties have at most, `out` among them."""
    tokens = {*signs.BINARY, *signs.COMPARE, *signs.UNARY}
    taken = [op for op in schema if tokens & set(op.python)]
    return max([2, *(len(op.signature.arguments) + 1 for op in taken + property_operators(schema))])


def slot_bindings(schema: Schema) -> tuple[list[Slot], list[tuple[str, str]]]:
    """Binary-like slots, and unary ones as (slot, operator symbol)."""
    takers: dict[tuple[str, str], dict[bool, str]] = {}
    for token, place, op in _sign_slots(schema):
        takes_number = not op.signature.arguments[1].type.is_tensor
        takers.setdefault((token, place), {})[takes_number] = op.symbol
    binary = [
        Slot(token, place, by.get(False, by.get(True, "")), by.get(True, "") if False in by else "")
        for (token, place), by in takers.items()
    ]
    unary = [
        (signs.UNARY[token].slot, op.symbol)
        for op in schema
        for token in op.python
        if token in signs.UNARY
    ]
    return binary, unary


def property_operators(schema: Schema) -> list[Operator]:
    return [op for op in schema if "property" in op.python]
