"""Values of tensor formulas: C++ expressions with types of the schema, and how types convert.

Nothing here knows of operators or of places; who asks says where a mistake stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..schema import cpp_types
from ..schema.model import Operator, Type


def list_of(base: str) -> Type:
    return Type(base, list_size=0)


TENSOR = Type("Tensor")
TENSORS = list_of("Tensor")
INT = Type("int")
INTS = list_of("int")
FLOAT = Type("float")
BOOL = Type("bool")
BOOLS = list_of("bool")
STR = Type("str")
SCALAR = Type("Scalar")
DTYPE = Type("ScalarType")
DEVICE = Type("Device")
META = Type("Meta")
NONE = Type("None")
NUMBERS = (INT, FLOAT, BOOL, SCALAR)
_KEEP_NULL = ("Tensor", "Generator")  # these have a null value of their own
# base -> bases of the values that stand for it without loss
_WIDENING = {
    "float": ("int", "float", "bool"),
    "Scalar": ("int", "float", "bool", "Scalar"),
    "int": ("int", "bool"),
}


@dataclass(frozen=True)
class Value:
    """A translated sub-expression."""

    code: str
    type: Type
    items: tuple[Type, ...] = ()  # the types of a call's several results
    elements: tuple[Value, ...] | None = None  # of a list literal


def argument_values(op: Operator) -> dict[str, Value]:
    """The operator's own arguments as variables of a formula."""
    return {a.name: Value(cpp_types.identifier(a.name), a.type) for a in op.signature.arguments}


def described(t: Type) -> str:
    """A type with its article, for messages."""
    return f"{'an' if str(t)[0] in 'aeiou' else 'a'} {t}"


def call_types(arguments: Sequence[Value], keywords: Mapping[str, Value]) -> str:
    """The types of a call, for messages."""
    named = [f"{name}={value.type}" for name, value in keywords.items()]
    return ", ".join([*(str(a.type) for a in arguments), *named])


def unwrap(value: Value) -> Value:
    """An optional used where a value is needed: absent ones raise."""
    t = value.type
    if t.optional and t.base not in _KEEP_NULL:
        return Value(f"{value.code}.value()", Type(t.base, list_size=t.list_size))
    if t.is_list and (t.list_size or t.varargs or t.optional_elements):
        return Value(value.code, list_of(t.base), elements=value.elements)
    if t.is_tensor and (t.optional or t.mutable):
        return Value(value.code, TENSOR)
    return value


def as_float(value: Value) -> Value:
    """A number that C++ can compute with: the one in a Scalar as a double."""
    value = unwrap(value)
    return Value(f"{value.code}.as_double()", FLOAT) if value.type == SCALAR else value


def fits(value: Value, wanted: Type, numbers: bool = False) -> bool:
    """Whether a value may stand where a type is wanted; with `numbers` also one for a tensor."""
    have = value.type
    if have == NONE:
        return wanted.optional or wanted.base == "Generator"
    if wanted.base == "Meta" or have.base == "Meta":
        return have.base == wanted.base
    if wanted.is_tensor:
        return have.is_tensor or (numbers and unwrap(value).type in NUMBERS)
    if wanted.is_list:
        if value.elements == ():
            return True
        if have.is_list:
            return have.base == wanted.base
        single = bool(wanted.list_size) or wanted.varargs
        return single and wanted.base == "int" and unwrap(value).type == INT
    if have.is_list or value.items:
        return False
    return have.base in _WIDENING.get(wanted.base, (wanted.base,))


def convert(value: Value, wanted: Type, owned: bool = False) -> Value:
    """A value that fits as one of the wanted type; `owned` keeps what it refers to alive."""
    have = value.type
    if have == NONE:
        return Value(f"{cpp_types.owned(wanted)}{{}}", wanted)
    if wanted.is_tensor:
        if have.is_tensor:
            return Value(value.code, TENSOR)
        plain = unwrap(value)
        inner = plain.code if plain.type == SCALAR else f"Scalar({plain.code})"
        return Value(f"wrapped_number({inner})", TENSOR)
    if wanted.base == "Meta":
        return value
    if wanted.is_list:
        return _as_list(value, wanted, owned)
    if wanted.optional and have.optional:
        return Value(value.code, wanted)
    plain = unwrap(value) if have.optional else value
    if wanted.base == "Scalar" and plain.type != SCALAR:
        return Value(f"Scalar({plain.code})", wanted)
    if wanted.base == "float" and plain.type.base != "float":
        return Value(f"double({plain.code})", wanted)
    if wanted.base == "str" and owned:
        return Value(f"std::string({plain.code})", wanted)
    return Value(plain.code, wanted)


def _as_list(value: Value, wanted: Type, owned: bool) -> Value:
    ints = wanted.base == "int"
    plain = cpp_types.owned(list_of(wanted.base))
    was_optional = value.type.optional
    if value.elements == () and not ints:
        value = Value(f"{plain}{{}}", wanted)
    elif not value.type.is_list:  # one number is repeated
        items = ", ".join([unwrap(value).code] * (wanted.list_size or 1))
        value = Value(f"DimVector{{{items}}}", INTS)
    if wanted.optional and was_optional:
        if not ints:
            return Value(value.code, wanted)
        return Value(f"{'to_owned' if owned else 'to_list'}({value.code})", wanted)
    if not wanted.optional:
        value = unwrap(value)
    if owned:
        kind = cpp_types.owned(wanted)
        code = f"to_owned({value.code})" if wanted.base in ("int", "Tensor") else value.code
        return Value(f"{kind}({code})" if kind != plain else code, wanted)
    if wanted.optional and ints:
        return Value(f"std::optional<IntList>(IntList({value.code}))", wanted)
    return Value(value.code, wanted)


def common(a: Value, b: Value) -> Type | None:
    """The type of a choice between two values, or None."""
    if a.type == b.type:
        return Type(a.type.base, a.type.optional, 0 if a.type.is_list else None)
    for x, y in ((a, b), (b, a)):
        if x.type == NONE:
            if y.type.base in _KEEP_NULL:
                return y.type
            return Type(y.type.base, True, y.type.list_size)
        if x.type.base == y.type.base and x.type.is_list == y.type.is_list:
            if x.type.is_tensor:
                return TENSOR
            optional = x.type.optional or y.type.optional
            return Type(x.type.base, optional, 0 if x.type.is_list else None)
        if x.type == INT and y.type == FLOAT:
            return FLOAT
        if x.type == SCALAR and y.type in (INT, FLOAT, BOOL):
            return SCALAR
        if x.elements == () and y.type.is_list:
            return y.type
    return None
