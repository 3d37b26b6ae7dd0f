"""Functions of tensor formulas that are no operators: of numbers, lists and dtypes."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ..schema.model import Type
from .scope import Scope
from .values import (
    BOOL,
    DTYPE,
    FLOAT,
    INT,
    INTS,
    SCALAR,
    TENSOR,
    TENSORS,
    Value,
    as_float,
    fits,
    unwrap,
)

# Functions of the C++ runtime of the same name: argument types and result.
RUNTIME: dict[str, tuple[tuple[Type, ...], Type]] = {
    "wrap_dim": ((INT, INT), INT),
    "numel_of": ((INTS,), INT),
    "finfo_eps": ((DTYPE,), FLOAT),
    "finfo_max": ((DTYPE,), FLOAT),
    "finfo_min": ((DTYPE,), FLOAT),
    "finfo_tiny": ((DTYPE,), FLOAT),
    "promote_types": ((DTYPE, DTYPE), DTYPE),
    "is_integral": ((DTYPE,), BOOL),
    "to_real": ((DTYPE,), DTYPE),
    "to_complex": ((DTYPE,), DTYPE),
    "compute_type": ((DTYPE,), DTYPE),
    "broadcast_shapes": ((INTS, INTS), INTS),
    "get_default_dtype": ((), DTYPE),
    "is_complex": ((DTYPE,), BOOL),
    "is_floating": ((DTYPE,), BOOL),
    "grad_enabled": ((), BOOL),
    "widest_float": ((Type("Device", optional=True),), DTYPE),
    "inverse_permutation": ((INTS,), INTS),
    "result_dtype": ((TENSOR, TENSOR), DTYPE),
    "ten_to": ((INT,), FLOAT),
    "number_result_dtype": ((TENSOR, SCALAR), DTYPE),
    "contiguous_strides": ((INTS,), INTS),
    "sizes_along": ((TENSORS, INT), INTS),
}
_MATH = ("abs", "sqrt", "exp", "log", "floor", "ceil")


def builtin(scope: Scope, name: str, arguments: Sequence[Value], node: ast.AST) -> Value | None:
    """The call of a function of the language, or None where the name or the types mean none."""
    plain = [unwrap(a) for a in arguments]
    made: Value | None = None
    if len(plain) == 1:
        made = _of_one(name, plain[0])
    elif len(plain) == 2 and name in ("min", "max"):
        made = _choice(name, plain)
    if made is None and name in RUNTIME:
        wanted, result = RUNTIME[name]
        given = [a if t.optional else unwrap(a) for a, t in zip(arguments, wanted, strict=False)]
        if len(wanted) == len(plain) and all(map(fits, given, wanted)):
            codes = [scope.convert(a, t, node).code for a, t in zip(given, wanted, strict=True)]
            made = Value(f"{name}({', '.join(codes)})", result)
    return made


def _of_one(name: str, value: Value) -> Value | None:
    number = value.type in (INT, FLOAT)
    if name == "len" and value.type.is_list:
        return Value(f"static_cast<int64_t>(({value.code}).size())", INT)
    if name == "conj" and (number or value.type == SCALAR):
        return value if number else Value(f"{value.code}.conj()", SCALAR)
    if name == "int" and (number or value.type in (BOOL, SCALAR)):
        whole = value.type in (INT, BOOL)
        return Value(f"int64_t({value.code})" if whole else f"to_int({value.code})", INT)
    if name == "float" and (number or value.type in (BOOL, SCALAR)):
        return Value(f"static_cast<double>({as_float(value).code})", FLOAT)
    if name in _MATH and number:
        result = value.type if name == "abs" else FLOAT
        if result == INT:
            return Value(f"checked_abs({value.code})", INT)
        return Value(f"std::{name}(double({value.code}))", result)
    return None


def _choice(name: str, values: Sequence[Value]) -> Value | None:
    types = [v.type for v in values]
    if not all(t in (INT, FLOAT) for t in types):
        return None
    both_int = types == [INT, INT]
    kind = "int64_t" if both_int else "double"
    code = f"std::{name}<{kind}>({', '.join(v.code for v in values)})"
    return Value(code, INT if both_int else FLOAT)
