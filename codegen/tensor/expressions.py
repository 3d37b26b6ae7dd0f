"""Expressions of tensor formulas -> C++ over facula::ops.

Every sub-expression gets one of the schema's types. Functions take the scope and a node and give a
value; what a call or a sign means on tensors is the business of `calls`.
"""

from __future__ import annotations

import ast
import math
import re

from ..schema import cpp_types
from ..schema.dtypes import DTYPES
from ..schema.expr import CONSTANTS
from ..schema.model import Type
from ..schema.signs import sign_of
from . import calls, facts
from .scope import Scope
from .values import (
    BOOL,
    DTYPE,
    FLOAT,
    INT,
    NONE,
    NUMBERS,
    SCALAR,
    STR,
    Value,
    as_float,
    common,
    described,
    list_of,
    unwrap,
)

_SCALAR_FUNCTIONS = {"+": "scalar_add", "-": "scalar_sub", "*": "scalar_mul", "/": "scalar_div"}
# A number of a formula, in C++.
_LITERAL = re.compile(r"int64_t\{(-?\d+)\}")
_INT_FUNCTIONS = {"+": "checked_add", "-": "checked_sub", "*": "checked_mul"}


def expression(scope: Scope, node: ast.expr) -> Value:
    match node:
        case ast.Constant(value=value):
            return _constant(scope, value, node)
        case ast.Name(id=name):
            return _name(scope, name, node)
        case ast.Attribute():
            return _attribute(scope, node)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return Value(f"!({condition(scope, operand)})", BOOL)
        case ast.UnaryOp(op=operator, operand=operand):
            return _unary(scope, sign_of(operator), expression(scope, operand), node)
        case ast.BinOp(left=left, op=operator, right=right):
            a, b = expression(scope, left), expression(scope, right)
            return _binary(scope, sign_of(operator), a, b, node)
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return _compare(scope, left, operator, right, node)
        case ast.Compare():
            raise scope.error(node, "write a chain of comparisons as `a < b and b < c`")
        case ast.BoolOp(op=operator, values=values):
            sign = " && " if isinstance(operator, ast.And) else " || "
            return Value(f"({sign.join(condition(scope, v) for v in values)})", BOOL)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _conditional(scope, test, body, orelse, node)
        case ast.Call():
            return _call(scope, node)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return _list(scope, elements, node)
        case ast.Subscript(value=owner, slice=index):
            return _subscript(scope, unwrap(expression(scope, owner)), index, node)
        case ast.ListComp(
            elt=element,
            generators=[ast.comprehension(target=ast.Name(id=name), iter=source, ifs=[])],
        ):
            return _comprehension(scope, element, name, source)
    raise scope.error(node, f"`{ast.unparse(node)}` is not part of the formula language")


# ---- names and constants ----


def _constant(scope: Scope, value: object, node: ast.AST) -> Value:
    match value:
        case None:
            return Value("{}", NONE)
        case bool():
            return Value(str(value).lower(), BOOL)
        case int():
            return Value(f"int64_t{{{value}}}", INT)
        case float():
            return Value(repr(value), FLOAT)
        case complex():
            return Value(f"Scalar(complex128({value.real!r}, {value.imag!r}))", SCALAR)
        case str():
            return Value(f"std::string_view({cpp_types.quoted(value)})", STR)
    raise scope.error(node, f"constant {value!r} is not allowed")


def _name(scope: Scope, name: str, node: ast.AST) -> Value:
    if name in scope.variables:
        return scope.variables[name]
    if name in CONSTANTS:
        return Value(_number(CONSTANTS[name]), FLOAT)
    if name in DTYPES:
        return Value(cpp_types.dtype_literal(name), DTYPE)
    raise scope.unknown_name(name, node)


def _number(value: float) -> str:
    return repr(value) if math.isfinite(value) else cpp_types.unbounded(value)


def _attribute(scope: Scope, node: ast.Attribute) -> Value:
    owner = expression(scope, node.value)
    if owner.type.is_tensor:
        if node.attr in facts.ATTRIBUTES:
            return facts.attribute(scope.variables, owner, ast.unparse(node.value), node.attr)
        for candidate in scope.schema.by_base_name.get(node.attr, ()):
            if "property" in candidate.python:
                return calls.invoke(scope, candidate, [owner], {}, node)
    raise scope.error(node, f"`{node.attr}` is no fact or property of {described(owner.type)}")


# ---- signs ----


def _unary(scope: Scope, sign: str, value: Value, node: ast.AST) -> Value:
    if value.type.is_tensor:
        return calls.sign(scope, sign, [value], node)
    if sign == "unary -" and value.type == INT and not value.code.startswith("int64_t{"):
        return Value(f"checked_neg({value.code})", INT)
    if sign == "unary -" and value.type in (INT, FLOAT, SCALAR):
        return Value(f"(-{value.code})", value.type)
    raise scope.error(node, f"`{sign}` does not apply to {described(value.type)}")


def _binary(scope: Scope, sign: str, left: Value, right: Value, node: ast.AST) -> Value:
    if left.type.is_tensor or right.type.is_tensor:
        return calls.sign(scope, sign, [left, right], node)
    left, right = unwrap(left), unwrap(right)
    made = _of_lists(sign, left, right) or _of_numbers(sign, left, right)
    if made is None:
        message = f"`{sign}` does not apply to {left.type} and {right.type}"
        raise scope.error(node, message)
    return made


def _of_lists(sign: str, left: Value, right: Value) -> Value | None:
    if not left.type.is_list:
        return None
    if right.type.is_list and sign == "+":
        kind = list_of(left.type.base if left.elements != () else right.type.base)
        return Value(f"join<{cpp_types.owned(kind)}>({left.code}, {right.code})", kind)
    if right.type == INT and sign == "*":
        kind = list_of(left.type.base)
        count = _LITERAL.fullmatch(right.code)
        if count and left.elements and all(_LITERAL.fullmatch(e.code) for e in left.elements):
            items = left.elements * int(count[1])
            code = f"{cpp_types.owned(kind)}{{{', '.join(i.code for i in items)}}}"
            return Value(code, kind, elements=items)
        return Value(f"repeat_list<{cpp_types.owned(kind)}>({left.code}, {right.code})", kind)
    return None


def _of_numbers(sign: str, left: Value, right: Value) -> Value | None:
    types = {left.type, right.type}
    if not types.issubset(NUMBERS):
        return None
    a, b = left.code, right.code
    if SCALAR in types:
        function = _SCALAR_FUNCTIONS.get(sign)
        return Value(f"{function}({a}, {b})", SCALAR) if function else None
    result = FLOAT if FLOAT in types else INT
    match sign:
        case "/":
            return Value(f"(double({a}) / double({b}))", FLOAT)
        case "//":
            return Value(f"floor_div({a}, {b})", result)
        case "%":
            return Value(f"floor_mod({a}, {b})", result)
        case "**":
            return Value(f"std::pow(double({a}), double({b}))", FLOAT)
        case "+" | "-" | "*" if result == INT:  # of sizes that users give
            return Value(f"{_INT_FUNCTIONS[sign]}({a}, {b})", INT)
        case "+" | "-" | "*":
            return Value(f"({a} {sign} {b})", result)
    return None


# ---- comparisons and conditions ----


def _compare(
    scope: Scope, left: ast.expr, operator: ast.cmpop, right: ast.expr, node: ast.AST
) -> Value:
    if isinstance(operator, ast.Is | ast.IsNot):
        if not (isinstance(right, ast.Constant) and right.value is None):
            raise scope.error(node, "`is` compares with None only")
        present = _present(expression(scope, left))
        return Value(f"!{present}" if isinstance(operator, ast.Is) else present, BOOL)
    if isinstance(operator, ast.In | ast.NotIn):
        return _contained(scope, left, right, isinstance(operator, ast.NotIn), node)
    sign = sign_of(operator)
    a, b = expression(scope, left), expression(scope, right)
    if a.type.is_tensor or b.type.is_tensor:
        return calls.sign(scope, sign, [a, b], node)
    a, b = (unwrap(v) if v.type.base == "Scalar" else v for v in (a, b))
    equality = sign in ("==", "!=")
    if not _comparable(unwrap(a).type, unwrap(b).type, equality):
        raise scope.error(node, f"`{sign}` does not compare {a.type} and {b.type}")
    if a.type.is_list:
        code = f"(IntList({a.code}) == IntList({b.code}))"
    elif SCALAR in (a.type, b.type) and equality:
        scalar, other = (a, b) if a.type == SCALAR else (b, a)
        code = f"{scalar.code}.equals({as_float(other).code})"
    else:
        if SCALAR in (a.type, b.type):
            a, b = as_float(a), as_float(b)
        elif not (a.type.optional and b.type.optional):
            a, b = unwrap(a), unwrap(b)
        return Value(f"({a.code} {sign} {b.code})", BOOL)
    return Value(code if sign == "==" else f"!{code}", BOOL)


def _comparable(a: Type, b: Type, equality: bool) -> bool:
    if a in NUMBERS and b in NUMBERS:
        return True
    lists = a.is_list or b.is_list
    return equality and a.base == b.base and (not lists or a == b == list_of("int"))


def _present(value: Value) -> str:
    """Whether an optional value is given."""
    if value.type.is_tensor:
        return f"{value.code}.defined()"
    if value.type.base == "Generator":
        return f"static_cast<bool>({value.code})"
    return f"{value.code}.has_value()" if value.type.optional else "true"


def _contained(scope: Scope, left: ast.expr, right: ast.expr, absent: bool, node: ast.AST) -> Value:
    value, options = unwrap(expression(scope, left)), expression(scope, right)
    if options.elements is None:
        raise scope.error(node, "`in` wants a list of constants")
    for option in options.elements:
        if not _comparable(value.type, option.type, equality=True):
            raise scope.error(node, f"`in` does not compare {value.type} and {option.type}")
    tests = " || ".join(f"{value.code} == {e.code}" for e in options.elements) or "false"
    return Value(f"!({tests})" if absent else f"({tests})", BOOL)


def condition(scope: Scope, node: ast.expr) -> str:
    value = unwrap(expression(scope, node))
    if value.type == BOOL:
        return value.code
    if value.type == INT:
        return f"({value.code} != 0)"
    if value.type.is_list:
        return f"!{value.code}.empty()"
    raise scope.error(node, f"{described(value.type)} is no condition; compare it")


def _conditional(
    scope: Scope, test: ast.expr, body: ast.expr, orelse: ast.expr, node: ast.AST
) -> Value:
    a, b = expression(scope, body), expression(scope, orelse)
    wanted = common(a, b)
    if wanted is None:
        raise scope.error(node, f"the two branches are {a.type} and {b.type}")
    kind = cpp_types.owned(wanted)
    left = scope.convert(a, wanted, body, owned=True).code
    right = scope.convert(b, wanted, orelse, owned=True).code
    return Value(f"({condition(scope, test)} ? {kind}({left}) : {kind}({right}))", wanted)


# ---- lists ----


def _list(scope: Scope, nodes: list[ast.expr], node: ast.AST) -> Value:
    values = [unwrap(expression(scope, n)) for n in nodes]
    base = "int"
    if any(v.type.is_tensor for v in values):
        base = "Tensor"
    elif values and all(v.type == BOOL for v in values):
        base = "bool"
    elif any(v.type not in (INT, BOOL) for v in values):
        if all(v.type == STR for v in values):
            return Value("", list_of("str"), elements=tuple(values))
        raise scope.error(node, "a list holds ints, bools or tensors")
    items = tuple(scope.convert(v, Type(base), n) for v, n in zip(values, nodes, strict=True))
    kind = list_of(base)
    code = f"{cpp_types.owned(kind)}{{{', '.join(i.code for i in items)}}}"
    return Value(code, kind, elements=items)


def _subscript(scope: Scope, owner: Value, index: ast.expr, node: ast.AST) -> Value:
    if owner.items:
        if not (isinstance(index, ast.Constant) and isinstance(index.value, int)):
            raise scope.error(node, "a result tuple is indexed by a constant")
        if not 0 <= index.value < len(owner.items):
            raise scope.error(node, f"result {index.value} of {len(owner.items)}")
        return Value(f"std::get<{index.value}>({owner.code})", owner.items[index.value])
    if not owner.type.is_list:
        message = f"{described(owner.type)} is not indexed in formulas; use select or slice"
        raise scope.error(node, message)
    if isinstance(index, ast.Slice):
        return _slice(scope, owner, index, node)
    at = scope.convert(expression(scope, index), INT, node).code
    return Value(f"list_item({owner.code}, {at})", Type(owner.type.base))


def _slice(scope: Scope, owner: Value, index: ast.Slice, node: ast.AST) -> Value:
    if index.step is not None:
        raise scope.error(node, "a slice of a list has no step in formulas")

    def bound(part: ast.expr | None, default: str) -> str:
        if part is None:
            return default
        return scope.convert(expression(scope, part), INT, node).code

    low = bound(index.lower, "0")
    high = bound(index.upper, "std::numeric_limits<int64_t>::max()")
    kind = list_of(owner.type.base)
    return Value(f"slice_list<{cpp_types.owned(kind)}>({owner.code}, {low}, {high})", kind)


def range_bounds(scope: Scope, call: ast.Call, most: int) -> list[str]:
    """Start and stop of a `range`, and its step where `most` is 3."""
    if not 1 <= len(call.args) <= most or call.keywords:
        raise scope.error(call, f"range() takes 1 to {most} numbers here, found {len(call.args)}")
    bounds = [scope.convert(expression(scope, a), INT, a).code for a in call.args]
    return ["0", *bounds] if len(bounds) == 1 else bounds


def _comprehension(scope: Scope, element: ast.expr, name: str, source: ast.expr) -> Value:
    saved = scope.variables.get(name)
    code = cpp_types.identifier(name)
    if isinstance(source, ast.Call) and ast.unparse(source.func) == "range":
        start, stop = range_bounds(scope, source, 2)
        head = f"for (int64_t {code} = {start}; {code} < {stop}; ++{code})"
        scope.variables[name] = Value(code, INT)
    else:
        items = unwrap(expression(scope, source))
        if not items.type.is_list:
            raise scope.error(source, "a list or range is wanted here")
        head = f"for (const auto& {code} : {items.code})"
        scope.variables[name] = Value(code, Type(items.type.base))
    value = unwrap(expression(scope, element))
    if value.type.base not in ("int", "bool", "Tensor") or value.type.is_list:
        raise scope.error(element, "a list holds ints, bools or tensors")
    if saved is None:
        del scope.variables[name]
    else:
        scope.variables[name] = saved
    kind = list_of(value.type.base)
    body = f"{cpp_types.owned(kind)} list_; {head} list_.push_back({value.code}); return list_;"
    return Value(f"[&] {{ {body} }}()", kind)


# ---- calls ----


def _call(scope: Scope, node: ast.Call) -> Value:
    if scope.calls and ast.unparse(node) in scope.calls:  # made in the forward
        return scope.calls[ast.unparse(node)]
    for keyword in node.keywords:
        if keyword.arg is None:
            raise scope.error(node, "a call names each argument; `**` is not in the language")
    keywords = {k.arg: expression(scope, k.value) for k in node.keywords if k.arg is not None}
    match node.func:
        case ast.Attribute(value=owner_node, attr=method):
            owner = expression(scope, owner_node)
            fact = _fact(scope, owner, owner_node, method, node)
            if fact is not None:
                return fact
            arguments = [owner, *(expression(scope, a) for a in node.args)]
            return calls.operator(scope, method, arguments, keywords, node)
        case ast.Name(id=name):
            arguments = [expression(scope, a) for a in node.args]
            return calls.function(scope, name, arguments, keywords, node)
    raise scope.error(node, "this is not callable in formulas")


def _fact(
    scope: Scope, owner: Value, owner_node: ast.expr, method: str, node: ast.Call
) -> Value | None:
    """A method that is no operator, or None."""
    if unwrap(owner).type == SCALAR and method == "conj" and not node.args:
        return Value(f"{unwrap(owner).code}.conj()", SCALAR)
    if not owner.type.is_tensor or not {*facts.ITEMS, *facts.METHODS} >= {method}:
        return None
    wanted = int(method in facts.ITEMS)
    if len(node.args) != wanted or node.keywords:
        takes = "the number of a dim" if wanted else "nothing"
        raise scope.error(node, f"{method}() takes {takes} in formulas")
    text = ast.unparse(owner_node)
    if not wanted:
        return facts.method(scope.variables, owner, text, method)
    at = scope.convert(expression(scope, node.args[0]), INT, node).code
    return facts.item(scope.variables, owner, text, method, at)
