"""Tensor formulas and programs (derivatives, composites, shape rules) -> C++ over facula::ops.

A small typed translator: every Python sub-expression gets one of the schema's types, and a call is
resolved against the signatures of ops.yaml, so a wrong name, arity or type is an error with its
place in the schema, not a C++ error.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from codegen import cpp_types
from codegen.errors import nearest
from codegen.expr import CONSTANTS
from codegen.model import Argument, Formula, Location, Operator, Schema, Signature, Type

TENSOR = Type("Tensor")
TENSORS = Type("Tensor", list_size=0)
INT = Type("int")
INTS = Type("int", list_size=0)
FLOAT = Type("float")
BOOL = Type("bool")
BOOLS = Type("bool", list_size=0)
STR = Type("str")
SCALAR = Type("Scalar")
DTYPE = Type("ScalarType")
DEVICE = Type("Device")
META = Type("Meta")
NONE = Type("None")

_BINARY = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
# Tensor facts that are no operators: attribute or method -> (type, C++ member expression).
_FACTS: dict[str, tuple[Type, str]] = {
    "shape": (INTS, "sizes()"),
    "ndim": (INT, "dim()"),
    "dtype": (DTYPE, "dtype()"),
    "device": (DEVICE, "device()"),
}
_FACT_METHODS: dict[str, tuple[Type, str]] = {
    "numel": (INT, "numel()"),
    "dim": (INT, "dim()"),
    "is_complex": (BOOL, "is_complex()"),
    "is_floating_point": (BOOL, "is_floating_point()"),
    "is_contiguous": (BOOL, "is_contiguous()"),
    "strides": (INTS, "strides()"),
    "storage_offset": (INT, "offset()"),
}
_DTYPES = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)

# Functions of the C++ runtime that formulas may call: argument types and result.
HELPERS: dict[str, tuple[tuple[Type, ...], Type]] = {
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
    "inverse_permutation": ((INTS,), INTS),
    "result_dtype": ((TENSOR, TENSOR), DTYPE),
    "contiguous_strides": ((INTS,), INTS),
    "sizes_along": ((TENSORS, INT), INTS),
}


@dataclass(frozen=True)
class Value:
    """A translated sub-expression. `items` are the element types of a tuple."""

    code: str
    type: Type
    items: tuple[Type, ...] = ()
    elements: tuple[Value, ...] | None = None  # of a list literal


class FormulaError(Exception):
    """A formula that does not translate; carries its place in the schema."""

    def __init__(self, location: Location, message: str) -> None:
        super().__init__(f"{location}: {message}")
        self.location = location
        self.message = message


def facts_of(tree: ast.AST, name: str) -> tuple[bool, set[str]]:
    """Whether `name` is used as a tensor in `tree`, and which of its facts are used otherwise."""
    facts: set[str] = set()
    whole = False

    def visit(node: ast.AST) -> None:
        nonlocal whole
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == name
            and node.attr in _FACTS
        ):
            facts.add(node.attr)
            return
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id == name:
                fact = {
                    "size": "shape",
                    "dim": "ndim",
                    "numel": "shape",
                    "is_complex": "dtype",
                    "is_floating_point": "dtype",
                }.get(node.func.attr)
                if fact is not None:
                    facts.add(fact)
                    for argument in node.args:
                        visit(argument)
                    return
        if isinstance(node, ast.Name) and node.id == name:
            whole = True
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree)
    return whole, facts


def names_used(tree: ast.AST, but: Sequence[ast.AST] = ()) -> set[str]:
    """Names in a formula, without those that stand in the sub-trees `but` alone."""
    skipped = {id(n) for part in but for n in ast.walk(part)}
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in skipped}


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    sign = "-" if value < 0 else ""
    which = "infinity" if math.isinf(value) else "quiet_NaN"
    return f"{sign}std::numeric_limits<double>::{which}()"


class Translator:
    """Translates formulas of one operator; `variables` maps names to typed C++ expressions."""

    def __init__(self, schema: Schema, op: Operator, variables: Mapping[str, Value]) -> None:
        self._schema = schema
        self._op = op
        self._variables: dict[str, Value] = dict(variables)
        self._formula: Formula | None = None
        self._by_base, self._by_token = schema.by_base_name, schema.by_token
        self._rules = schema.rule_signatures
        self._locals: dict[str, tuple[Value, str]] = {}
        self._in_shape = False  # shape rules and operators have names of their own

    # ---- entry points ----

    def expression(self, formula: Formula, wanted: Type | None = None) -> Value:
        self._formula = formula
        tree = formula.tree
        body = tree.body if isinstance(tree, ast.Expression) else tree
        if isinstance(body, list):
            if len(body) != 1 or not isinstance(body[0], ast.Expr | ast.Return):
                raise self._error(tree, "one expression is wanted here")
            body = body[0].value  # type: ignore[assignment]
        assert isinstance(body, ast.expr)
        value = self._expr(body)
        return self._convert(value, wanted, body) if wanted is not None else value

    def subexpression(self, formula: Formula, node: ast.AST) -> Value:
        """One part of a formula."""
        self._formula = formula
        assert isinstance(node, ast.expr)
        return self._expr(node)

    def shape_expression(self, formula: Formula) -> str:
        self._in_shape = True
        try:
            return self.expression(formula, META).code
        finally:
            self._in_shape = False

    def program(self, formula: Formula, returns: tuple[Type, ...]) -> list[str]:
        """C++ statements for an expression or a program ending in `return`."""
        self._formula = formula
        tree = formula.tree
        if isinstance(tree, ast.Expression):
            return [self._return(tree.body, returns)]
        assert isinstance(tree, ast.Module)
        if len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
            return [self._return(tree.body[0].value, returns)]
        body = self._block(tree.body, returns)
        declared = [
            f"{cpp_types.owned(value.type)} {value.code}{initial};"
            for value, initial in self._locals.values()
        ]
        return declared + body

    # ---- statements ----

    def _block(self, statements: list[ast.stmt], returns: tuple[Type, ...]) -> list[str]:
        lines: list[str] = []
        for statement in statements:
            lines += self._statement(statement, returns)
        return lines

    def _statement(self, node: ast.stmt, returns: tuple[Type, ...]) -> list[str]:
        match node:
            case ast.Return(value=value):
                if value is None:
                    raise self._error(node, "return needs a value")
                return [self._return(value, returns)]
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return [self._assign(name, self._expr(value), node)]
            case ast.AugAssign(target=ast.Name(id=name), op=operator, value=value):
                combined = ast.BinOp(ast.Name(name, ast.Load()), operator, value)
                return [self._assign(name, self._expr(ast.copy_location(combined, node)), node)]
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                got = self._expr(value)
                if len(got.items) != len(targets):
                    raise self._error(
                        node, f"{len(targets)} names for {len(got.items) or 1} values"
                    )
                slots = []
                for target, item in zip(targets, got.items, strict=True):
                    if not isinstance(target, ast.Name):
                        raise self._error(target, "a plain name is wanted here")
                    if target.id == "_":
                        slots.append("std::ignore")
                    else:
                        slots.append(self._declare(target.id, item, node).code)
                return [f"std::tie({', '.join(slots)}) = {got.code};"]
            case ast.If(test=test, body=body, orelse=orelse):
                lines = [f"if ({self._condition(test)}) {{", *self._block(body, returns)]
                if orelse:
                    lines += ["} else {", *self._block(orelse, returns)]
                return [*lines, "}"]
            case ast.For(
                target=ast.Name(id=name),
                iter=ast.Call(func=ast.Name(id="range"), args=args),
                body=body,
            ):
                return self._for_range(name, args, body, returns)
            case ast.Raise(exc=ast.Call(func=ast.Name(id=kind), args=[message])):
                return [self._raise(kind, message, node)]
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id=owner), attr="append"), args=[item]
                )
            ):
                owned = self._variables.get(owner)
                if owned is not None and owned.type.is_list:
                    element = self._convert(self._expr(item), Type(owned.type.base), item)
                    return [f"{owned.code}.push_back({element.code});"]
                return [self._expr(node.value).code + ";"]
            case ast.Expr(value=value):
                return [self._expr(value).code + ";"]
            case ast.Pass():
                return []
        raise self._error(node, f"`{type(node).__name__}` is not part of the formula language")

    def _for_range(
        self, name: str, args: list[ast.expr], body: list[ast.stmt], returns: tuple[Type, ...]
    ) -> list[str]:
        bounds = [self._convert(self._expr(a), INT, a).code for a in args]
        start, stop, step = (["0", *bounds, "1"] if len(bounds) == 1 else [*bounds, "1"])[:3]
        code = cpp_types.identifier(name)
        self._variables[name] = Value(code, INT)
        compare = ">" if step.startswith("-") or step.startswith("(-") else "<"
        return [
            # as in Python, the bound is what it was when the loop began
            f"for (int64_t {code} = {start}, stop_{code} = {stop}; {code} {compare} stop_{code};"
            f" {code} += {step}) {{",
            *self._block(body, returns),
            "}",
        ]

    def _raise(self, kind: str, message: ast.expr, node: ast.AST) -> str:
        kinds = {
            "ValueError": "Value",
            "RuntimeError": "Runtime",
            "TypeError": "Type",
            "IndexError": "Index",
            "NotImplementedError": "NotImplemented",
        }
        if kind not in kinds:
            raise self._error(node, f"unknown error {kind}; allowed: {', '.join(kinds)}")
        if isinstance(message, ast.JoinedStr):
            parts = []
            for piece in message.values:
                if isinstance(piece, ast.Constant):
                    parts.append(self._quote(str(piece.value)))
                elif isinstance(piece, ast.FormattedValue):
                    value = self._unwrap(self._expr(piece.value))
                    if value.type == INTS:
                        parts.append(f"shape_string({value.code})")
                    elif value.type.base == "ScalarType":
                        parts.append(f"dtype_name({value.code})")
                    else:
                        parts.append(value.code)
        else:
            parts = [self._expr(message).code]
        return f"raise(ErrorKind::{kinds[kind]}, {', '.join(parts)});"

    def _assign(self, name: str, value: Value, node: ast.AST) -> str:
        target = self._declare(name, value.type if value.type != NONE else TENSOR, node)
        return f"{target.code} = {self._convert(value, target.type, node, owned=True).code};"

    def _declare(self, name: str, wanted: Type, node: ast.AST) -> Value:
        if name in self._locals:
            return self._locals[name][0]
        code, initial = f"{cpp_types.identifier(name)}_v", "{}"
        shadowed = self._variables.get(name)
        if shadowed is not None:  # an argument assigned to: the local starts as the argument
            wanted = Type(
                shadowed.type.base, shadowed.type.optional, 0 if shadowed.type.is_list else None
            )
            initial = f" = {self._convert(shadowed, wanted, node, owned=True).code}"
        elif wanted.is_list:
            wanted = Type(wanted.base, list_size=0)
        elif wanted.base in ("Tensor", "Generator"):
            wanted = Type(wanted.base)
        known = Value(code, wanted)
        self._variables[name] = known
        self._locals[name] = (known, initial)
        return known

    def _return(self, node: ast.expr, returns: tuple[Type, ...]) -> str:
        if len(returns) == 1:
            return f"return {self._convert(self._expr(node), returns[0], node, owned=True).code};"
        if isinstance(node, ast.Tuple):
            if len(node.elts) != len(returns):
                raise self._error(
                    node, f"{len(returns)} results are declared, {len(node.elts)} returned"
                )
            parts = [
                self._convert(self._expr(e), t, e, owned=True).code
                for e, t in zip(node.elts, returns, strict=True)
            ]
            return f"return {{{', '.join(parts)}}};"
        value = self._expr(node)
        if len(value.items) != len(returns):
            raise self._error(
                node, f"{len(returns)} results are declared, {len(value.items) or 1} returned"
            )
        return f"return {value.code};"

    # ---- expressions ----

    def _expr(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value=value):
                return self._constant(value, node)
            case ast.Name(id=name):
                return self._name(name, node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.UnaryOp(op=operator, operand=operand):
                return self._unary(operator, operand, node)
            case ast.BinOp(left=left, op=operator, right=right):
                return self._binary(
                    _BINARY[type(operator)], self._expr(left), self._expr(right), node
                )
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                return self._compare(left, operator, right, node)
            case ast.BoolOp(op=operator, values=values):
                sign = " && " if isinstance(operator, ast.And) else " || "
                return Value("(" + sign.join(self._condition(v) for v in values) + ")", BOOL)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._conditional(test, body, orelse, node)
            case ast.Call():
                return self._call(node)
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return self._list([self._expr(e) for e in elements], node)
            case ast.Subscript(value=owner, slice=index):
                return self._subscript(self._expr(owner), index, node)
            case ast.ListComp(
                elt=element,
                generators=[ast.comprehension(target=ast.Name(id=name), iter=source, ifs=[])],
            ):
                return self._comprehension(element, name, source, node)
        raise self._error(node, f"`{ast.unparse(node)}` is not part of the formula language")

    def _constant(self, value: object, node: ast.AST) -> Value:
        if value is None:
            return Value("{}", NONE)
        if isinstance(value, bool):
            return Value(str(value).lower(), BOOL)
        if isinstance(value, int):
            return Value(f"int64_t{{{value}}}", INT)
        if isinstance(value, float):
            return Value(repr(value), FLOAT)
        if isinstance(value, complex):
            return Value(f"Scalar(complex128({value.real!r}, {value.imag!r}))", SCALAR)
        if isinstance(value, str):
            return Value(f"std::string_view({self._quote(value)})", STR)
        raise self._error(node, f"constant {value!r} is not allowed")

    def _name(self, name: str, node: ast.AST) -> Value:
        if name in self._variables:
            return self._variables[name]
        if name in CONSTANTS:
            return Value(_number(CONSTANTS[name]), FLOAT)
        if name in _DTYPES:
            return Value(cpp_types.dtype_literal(name), DTYPE)
        known = [*self._variables, *CONSTANTS, *(a.name for a in self._op.signature.arguments)]
        raise self._error(node, f"unknown name '{name}'{nearest(name, known)}")

    def _attribute(self, node: ast.Attribute) -> Value:
        owner = self._expr(node.value)
        if owner.type.is_tensor and node.attr in _FACTS:
            fact, code = _FACTS[node.attr]
            key = f"{ast.unparse(node.value)}.{node.attr}"
            return self._variables.get(key, Value(f"{owner.code}.{code}", fact))
        if owner.type.is_tensor:
            for candidate in self._by_base.get(node.attr, ()):
                if "property" in candidate.python:
                    return self._invoke(candidate, [owner], {}, node)
        raise self._error(node, f"`{node.attr}` is no fact or property of a {owner.type}")

    def _unary(self, operator: ast.unaryop, operand: ast.expr, node: ast.AST) -> Value:
        if isinstance(operator, ast.Not):
            return Value(f"!({self._condition(operand)})", BOOL)
        value = self._expr(operand)
        token = {ast.USub: "unary -", ast.UAdd: "unary +", ast.Invert: "~"}[type(operator)]
        if value.type.is_tensor:
            return self._token_call(token, [value], node)
        if isinstance(operator, ast.USub) and value.type in (INT, FLOAT, SCALAR):
            return Value(f"(-{value.code})", value.type)
        raise self._error(node, f"`{token}` does not apply to a {value.type}")

    def _binary(self, token: str, left: Value, right: Value, node: ast.AST) -> Value:
        if left.type.is_tensor or right.type.is_tensor:
            return self._token_call(token, [left, right], node)
        left, right = self._unwrap(left), self._unwrap(right)
        if left.type.is_list and right.type.is_list and token == "+":
            element = left.type.base if left.elements != () else right.type.base
            kind = cpp_types.owned(Type(element, list_size=0))
            return Value(
                f"join<{kind}>({self._materialized(left)}, {self._materialized(right)})",
                Type(element, list_size=0),
            )
        if left.type.is_list and right.type == INT and token == "*":
            kind = cpp_types.owned(Type(left.type.base, list_size=0))
            return Value(
                f"repeat_list<{kind}>({self._materialized(left)}, {right.code})",
                Type(left.type.base, list_size=0),
            )
        kinds = {left.type, right.type}
        if not kinds <= {INT, FLOAT, SCALAR, BOOL}:
            raise self._error(node, f"`{token}` does not apply to {left.type} and {right.type}")
        if SCALAR in kinds:
            helper = {
                "+": "scalar_add",
                "-": "scalar_sub",
                "*": "scalar_mul",
                "/": "scalar_div",
            }.get(token)
            if helper is None:
                raise self._error(node, f"`{token}` does not apply to Scalars")
            return Value(f"{helper}({left.code}, {right.code})", SCALAR)
        both_int = FLOAT not in kinds
        result = INT if both_int else FLOAT
        if token == "/":
            return Value(f"(double({left.code}) / double({right.code}))", FLOAT)
        if token in ("//", "%"):
            helper = "floor_div" if token == "//" else "floor_mod"
            return Value(f"{helper}({left.code}, {right.code})", result)
        if token == "**":
            return Value(f"std::pow(double({left.code}), double({right.code}))", FLOAT)
        if token in ("+", "-", "*"):
            return Value(f"({left.code} {token} {right.code})", result)
        raise self._error(node, f"`{token}` does not apply to {left.type} and {right.type}")

    def _compare(
        self, left: ast.expr, operator: ast.cmpop, right: ast.expr, node: ast.AST
    ) -> Value:
        if isinstance(operator, ast.Is | ast.IsNot):
            if not (isinstance(right, ast.Constant) and right.value is None):
                raise self._error(node, "`is` compares with None only")
            value = self._expr(left)
            if value.type.is_tensor:
                present = f"{value.code}.defined()"
            elif value.type.base == "Generator":
                present = f"static_cast<bool>({value.code})"
            elif value.type.optional:
                present = f"{value.code}.has_value()"
            else:
                present = "true"
            return Value(f"!{present}" if isinstance(operator, ast.Is) else present, BOOL)
        if isinstance(operator, ast.In | ast.NotIn):
            value, options = self._unwrap(self._expr(left)), self._expr(right)
            if options.elements is None:
                raise self._error(node, "`in` wants a list of constants")
            tests = " || ".join(f"{value.code} == {e.code}" for e in options.elements)
            return Value(f"!({tests})" if isinstance(operator, ast.NotIn) else f"({tests})", BOOL)
        token = _COMPARE[type(operator)]
        a, b = self._expr(left), self._expr(right)
        if a.type.is_tensor or b.type.is_tensor:
            return self._token_call(token, [a, b], node)
        if a.type.is_list and b.type.is_list:
            code = f"(IntList({self._materialized(a)}) == IntList({self._materialized(b)}))"
            return Value(code if token == "==" else f"!{code}", BOOL)
        if SCALAR in (a.type, b.type):
            if token not in ("==", "!="):
                a, b = self._as_float(a), self._as_float(b)
                return Value(f"({a.code} {token} {b.code})", BOOL)
            scalar, other = (a, b) if a.type == SCALAR else (b, a)
            code = f"{scalar.code}.equals({self._as_float(other).code})"
            return Value(code if token == "==" else f"!{code}", BOOL)
        if a.type.optional and b.type.optional:
            return Value(f"({a.code} {token} {b.code})", BOOL)
        a, b = self._unwrap(a), self._unwrap(b)
        return Value(f"({a.code} {token} {b.code})", BOOL)

    def _as_float(self, value: Value) -> Value:
        value = self._unwrap(value)
        return Value(f"{value.code}.as_double()", FLOAT) if value.type == SCALAR else value

    def _condition(self, node: ast.expr) -> str:
        value = self._unwrap(self._expr(node))
        if value.type == BOOL:
            return value.code
        if value.type == INT:
            return f"({value.code} != 0)"
        if value.type.is_list:
            return f"!{self._materialized(value)}.empty()"
        raise self._error(node, f"a {value.type} is no condition; compare it")

    def _conditional(
        self, test: ast.expr, body: ast.expr, orelse: ast.expr, node: ast.AST
    ) -> Value:
        a, b = self._expr(body), self._expr(orelse)
        wanted = self._common(a, b, node)
        left = self._convert(a, wanted, body, owned=True).code
        right = self._convert(b, wanted, orelse, owned=True).code
        kind = cpp_types.owned(wanted)
        return Value(f"({self._condition(test)} ? {kind}({left}) : {kind}({right}))", wanted)

    def _common(self, a: Value, b: Value, node: ast.AST) -> Type:
        if a.type == b.type:
            return Type(a.type.base, a.type.optional, 0 if a.type.is_list else None)
        for x, y in ((a, b), (b, a)):
            if x.type == NONE:
                if y.type.base in ("Tensor", "Generator"):
                    return y.type
                return Type(y.type.base, True, y.type.list_size)
            if x.type.base == y.type.base and x.type.is_list == y.type.is_list:
                if x.type.is_tensor:
                    return TENSOR
                return Type(
                    x.type.base, x.type.optional or y.type.optional, 0 if x.type.is_list else None
                )
            if x.type == INT and y.type == FLOAT:
                return FLOAT
            if x.type == SCALAR and y.type in (INT, FLOAT, BOOL):
                return SCALAR
            if x.elements == () and y.type.is_list:
                return y.type
        raise self._error(node, f"the two branches are {a.type} and {b.type}")

    def _list(self, values: list[Value], node: ast.AST) -> Value:
        values = [self._unwrap(v) for v in values]
        base = "int"
        if any(v.type.is_tensor for v in values):
            base = "Tensor"
        elif values and all(v.type == BOOL for v in values):
            base = "bool"
        elif any(v.type not in (INT, BOOL) for v in values):
            if all(v.type == STR for v in values):
                return Value("", Type("str", list_size=0), elements=tuple(values))
            raise self._error(node, "a list holds ints, bools or tensors")
        wanted = Type(base)
        items = tuple(self._convert(v, wanted, node) for v in values)
        kind = cpp_types.owned(Type(base, list_size=0))
        return Value(
            f"{kind}{{{', '.join(i.code for i in items)}}}", Type(base, list_size=0), elements=items
        )

    def _materialized(self, value: Value) -> str:
        return value.code

    def _subscript(self, owner: Value, index: ast.expr, node: ast.AST) -> Value:
        owner = self._unwrap(owner)
        if owner.items:
            if not (isinstance(index, ast.Constant) and isinstance(index.value, int)):
                raise self._error(node, "a result tuple is indexed by a constant")
            if not 0 <= index.value < len(owner.items):
                raise self._error(node, f"result {index.value} of {len(owner.items)}")
            return Value(f"std::get<{index.value}>({owner.code})", owner.items[index.value])
        if owner.type.is_list:
            if isinstance(index, ast.Slice):
                low = self._convert(self._expr(index.lower), INT, node).code if index.lower else "0"
                high = (
                    self._convert(self._expr(index.upper), INT, node).code
                    if index.upper
                    else "std::numeric_limits<int64_t>::max()"
                )
                kind = cpp_types.owned(Type(owner.type.base, list_size=0))
                return Value(
                    f"slice_list<{kind}>({owner.code}, {low}, {high})",
                    Type(owner.type.base, list_size=0),
                )
            at = self._convert(self._expr(index), INT, node).code
            return Value(f"list_item({owner.code}, {at})", Type(owner.type.base))
        raise self._error(node, f"a {owner.type} is not indexed in formulas; use select or slice")

    def _comprehension(
        self, element: ast.expr, name: str, source: ast.expr, node: ast.AST
    ) -> Value:
        saved = self._variables.get(name)
        code = cpp_types.identifier(name)
        if (
            isinstance(source, ast.Call)
            and isinstance(source.func, ast.Name)
            and source.func.id == "range"
        ):
            bounds = [self._convert(self._expr(a), INT, a).code for a in source.args]
            start, stop = (["0", *bounds] if len(bounds) == 1 else bounds)[:2]
            head = f"for (int64_t {code} = {start}; {code} < {stop}; ++{code})"
            self._variables[name] = Value(code, INT)
        else:
            items = self._expr(source)
            if not items.type.is_list:
                raise self._error(source, "a list or range is wanted here")
            head = f"for (const auto& {code} : {items.code})"
            self._variables[name] = Value(code, Type(items.type.base))
        value = self._unwrap(self._expr(element))
        kind = cpp_types.owned(Type(value.type.base, list_size=0))
        if saved is None:
            del self._variables[name]
        else:
            self._variables[name] = saved
        return Value(
            f"[&] {{ {kind} list_; {head} list_.push_back({value.code}); return list_; }}()",
            Type(value.type.base, list_size=0),
        )

    # ---- calls ----

    def _call(self, node: ast.Call) -> Value:
        known = self._variables.get(ast.unparse(node))
        if known is not None:  # made in the forward
            return known
        keywords = {k.arg: self._expr(k.value) for k in node.keywords if k.arg is not None}
        if isinstance(node.func, ast.Attribute):
            owner = self._expr(node.func.value)
            method = node.func.attr
            if owner.type.is_tensor:
                if method in ("size", "stride"):
                    at = self._convert(self._expr(node.args[0]), INT, node).code
                    key = f"{ast.unparse(node.func.value)}.shape"
                    if method == "size" and key in self._variables:
                        sizes = self._variables[key].code
                        return Value(f"list_item({sizes}, {at})", INT)
                    return Value(f"{owner.code}.{method}({at})", INT)
                if method in _FACT_METHODS:
                    return self._fact_method(owner, method, ast.unparse(node.func.value))
            elif self._unwrap(owner).type == SCALAR and method == "conj" and not node.args:
                return Value(f"{self._unwrap(owner).code}.conj()", SCALAR)
            arguments = [owner, *(self._expr(a) for a in node.args)]
            return self._resolve(method, arguments, keywords, node)
        if not isinstance(node.func, ast.Name):
            raise self._error(node, "this is not callable in formulas")
        name = node.func.id
        arguments = [self._expr(a) for a in node.args]
        special = self._builtin(name, arguments, node)
        if special is not None:
            return special
        if self._in_shape and name in self._rules:
            return self._invoke_signature(
                self._rules[name], f"shape::{name}", arguments, keywords, node
            )
        return self._resolve(name, arguments, keywords, node)

    def _fact_method(self, owner: Value, method: str, text: str) -> Value:
        kind, code = _FACT_METHODS[method]
        dtype, shape, ndim = (
            self._variables.get(f"{text}.{k}") for k in ("dtype", "shape", "ndim")
        )
        if method == "is_complex" and dtype is not None:
            return Value(f"is_complex({dtype.code})", BOOL)
        if method == "is_floating_point" and dtype is not None:
            return Value(f"is_floating({dtype.code})", BOOL)
        if method == "numel" and shape is not None:
            return Value(f"numel_of({shape.code})", INT)
        if method == "dim" and ndim is not None:
            return ndim
        return Value(f"{owner.code}.{code}", kind)

    def _builtin(self, name: str, arguments: list[Value], node: ast.Call) -> Value | None:
        plain = [self._unwrap(a) for a in arguments]
        if name == "len" and len(plain) == 1 and plain[0].type.is_list:
            return Value(f"static_cast<int64_t>(({plain[0].code}).size())", INT)
        if name == "conj" and len(plain) == 1 and plain[0].type == SCALAR:
            return Value(f"{plain[0].code}.conj()", SCALAR)
        if name == "int" and len(plain) == 1:
            return Value(f"static_cast<int64_t>({self._as_float(plain[0]).code})", INT)
        if name == "conj" and len(plain) == 1 and plain[0].type in (INT, FLOAT, SCALAR):
            return Value(f"{plain[0].code}.conj()", SCALAR) if plain[0].type == SCALAR else plain[0]
        if name == "float" and len(plain) == 1 and not plain[0].type.is_tensor:
            return Value(f"static_cast<double>({self._as_float(plain[0]).code})", FLOAT)
        if (
            name in ("min", "max")
            and len(plain) == 2
            and all(p.type in (INT, FLOAT) for p in plain)
        ):
            kind = "int64_t" if all(p.type == INT for p in plain) else "double"
            return Value(
                f"std::{name}<{kind}>({plain[0].code}, {plain[1].code})",
                INT if kind == "int64_t" else FLOAT,
            )
        if (
            name in ("abs", "sqrt", "exp", "log", "floor", "ceil")
            and len(plain) == 1
            and plain[0].type in (INT, FLOAT)
        ):
            result = plain[0].type if name == "abs" else FLOAT
            cast = "int64_t" if result == INT else "double"
            return Value(f"static_cast<{cast}>(std::{name}({cast}({plain[0].code})))", result)
        wanted, kind_of_result = HELPERS.get(name, ((), FLOAT))
        fits = len(wanted) == len(plain) and all(map(self._fits, plain, wanted))
        if name in HELPERS and fits:
            codes = [self._convert(a, t, node).code for a, t in zip(plain, wanted, strict=True)]
            return Value(f"{name}({', '.join(codes)})", kind_of_result)
        return None

    def _token_call(self, token: str, arguments: list[Value], node: ast.AST) -> Value:
        for candidate in self._by_token.get(token, ()):
            if self._bindable(candidate.signature, arguments, {}, candidate):
                return self._invoke(candidate, arguments, {}, node)
        raise self._error(
            node,
            f"no operator of ops.yaml stands for `{token}` on "
            f"{', '.join(str(a.type) for a in arguments)}",
        )

    def _resolve(
        self, name: str, arguments: list[Value], keywords: dict[str, Value], node: ast.AST
    ) -> Value:
        inplace = name.endswith("_") and name not in self._by_base and name[:-1] in self._by_base
        candidates = self._by_base.get(name[:-1] if inplace else name, [])
        if not candidates:
            what, known = "operator", list(self._by_base)
            if self._in_shape:
                what, known = "shape rule", list(self._rules)
            raise self._error(node, f"unknown {what} '{name}'{nearest(name, known)}")
        for candidate in candidates:
            if self._bindable(candidate.signature, arguments, keywords, candidate):
                return self._invoke(candidate, arguments, keywords, node, inplace=inplace)
        given = _given(arguments, keywords)
        wanted = " or ".join(str(c.signature) for c in candidates)
        raise self._error(node, f"{name}({given}) does not fit {wanted}")

    def _pair(
        self, signature: Signature, arguments: list[Value], keywords: dict[str, Value]
    ) -> list[tuple[Argument, Value | None]] | None:
        positional = [a for a in signature.arguments if not a.keyword_only]
        if len(arguments) > len(positional):
            last = positional[-1] if positional else None
            if last is None or not last.type.varargs:
                return None
            tail = arguments[len(positional) - 1 :]
            if not all(self._unwrap(v).type == INT for v in tail):
                return None
            code = f"DimVector{{{', '.join(self._unwrap(v).code for v in tail)}}}"
            arguments = [*arguments[: len(positional) - 1], Value(code, INTS)]
        pairs: list[tuple[Argument, Value | None]] = []
        used = set(keywords)
        for i, argument in enumerate(signature.arguments):
            value = arguments[i] if not argument.keyword_only and i < len(arguments) else None
            if argument.name in keywords:
                if value is not None:
                    return None
                value = keywords[argument.name]
                used.discard(argument.name)
            if value is None and argument.default is None:
                return None
            pairs.append((argument, value))
        return None if used else pairs

    def _bindable(
        self,
        signature: Signature,
        arguments: list[Value],
        keywords: dict[str, Value],
        op: Operator | None,
    ) -> bool:
        pairs = self._pair(signature, arguments, keywords)
        numbers = op is not None and op.kind == "pointwise"
        return pairs is not None and all(
            v is None or self._fits(v, a.type, numbers=numbers) for a, v in pairs
        )

    def _invoke(
        self,
        op: Operator,
        arguments: list[Value],
        keywords: dict[str, Value],
        node: ast.AST,
        inplace: bool = False,
    ) -> Value:
        target = f"ops::{cpp_types.identifier(op.symbol)}" + ("_" if inplace else "")
        value = self._invoke_signature(
            op.signature, target, arguments, keywords, node, numbers=op.kind == "pointwise"
        )
        return Value(value.code, TENSOR) if inplace else value

    def _invoke_signature(
        self,
        signature: Signature,
        target: str,
        arguments: list[Value],
        keywords: dict[str, Value],
        node: ast.AST,
        numbers: bool = False,
    ) -> Value:
        pairs = self._pair(signature, arguments, keywords)
        if pairs is None:
            given = [str(a.type) for a in arguments] + [
                f"{k}={v.type}" for k, v in keywords.items()
            ]
            message = f"{signature.name}({', '.join(given)}) does not fit {signature}"
            raise self._error(node, message)
        codes = []
        for argument, value in pairs:
            if value is None:
                assert argument.default is not None
                codes.append(cpp_types.literal(argument.default, argument.type))
            else:
                codes.append(self._convert(value, argument.type, node, numbers=numbers).code)
        code = f"{target}({', '.join(codes)})"
        returns = [r.type for r in signature.returns]
        if len(returns) == 1:
            result = returns[0]
            return Value(code, TENSOR if result.mutable else result)
        return Value(code, Type("tuple"), items=tuple(returns))

    # ---- types ----

    def _unwrap(self, value: Value) -> Value:
        """An optional used where a value is needed: absent ones raise."""
        t = value.type
        if t.optional and t.base not in ("Tensor", "Generator"):
            return Value(f"{value.code}.value()", Type(t.base, list_size=t.list_size))
        if t.is_list and (t.list_size or t.varargs or t.optional_elements):
            return Value(value.code, Type(t.base, list_size=0), elements=value.elements)
        if t.is_tensor and (t.optional or t.mutable):
            return Value(value.code, TENSOR)
        return value

    def _fits(self, value: Value, wanted: Type, numbers: bool = False) -> bool:
        have = value.type
        if have == NONE:
            return wanted.optional or wanted.base == "Generator"
        if wanted.base == "Meta" or have.base == "Meta":
            return have.base == wanted.base
        if wanted.is_tensor:
            return have.is_tensor or (
                numbers and self._unwrap(value).type in (INT, FLOAT, BOOL, SCALAR)
            )
        if wanted.is_list:
            if value.elements == ():
                return True
            if have.is_list:
                return have.base == wanted.base
            single = bool(wanted.list_size) or wanted.varargs
            return single and wanted.base == "int" and self._unwrap(value).type == INT
        if have.is_list or value.items:
            return False
        widening = {
            "float": ("int", "float", "bool"),
            "Scalar": ("int", "float", "bool", "Scalar"),
            "int": ("int", "bool"),
        }
        return have.base in widening.get(wanted.base, (wanted.base,))

    def _convert(
        self,
        value: Value,
        wanted: Type | None,
        node: ast.AST,
        numbers: bool = False,
        owned: bool = False,
    ) -> Value:
        if wanted is None:
            return value
        if not self._fits(value, wanted, numbers):
            raise self._error(
                node, f"{_a(wanted)} is wanted here, `{ast.unparse(node)}` is {_a(value.type)}"
            )
        have = value.type
        if have == NONE:
            kind = cpp_types.owned(wanted)
            return Value(f"{kind}{{}}", wanted)
        if wanted.is_tensor:
            if not have.is_tensor:
                plain = self._unwrap(value)
                inner = plain.code if plain.type == SCALAR else f"Scalar({plain.code})"
                return Value(f"wrapped_number({inner})", TENSOR)
            return Value(value.code, TENSOR)
        if wanted.base == "Meta":
            return value
        if wanted.is_list:
            if value.elements == () and wanted.base != "int":
                value = Value(f"{cpp_types.owned(Type(wanted.base, list_size=0))}{{}}", wanted)
            elif not have.is_list:
                items = ", ".join([self._unwrap(value).code] * (wanted.list_size or 1))
                value = Value(f"DimVector{{{items}}}", INTS)
            if wanted.optional and have.optional:
                if owned and wanted.base == "int":
                    return Value(f"to_owned({value.code})", wanted)
                return Value(
                    f"to_list({value.code})" if wanted.base == "int" else value.code, wanted
                )
            if not wanted.optional:
                value = self._unwrap(value)
            if owned:
                kind = cpp_types.owned(wanted)
                inner = cpp_types.owned(Type(wanted.base, list_size=0))
                code = f"to_owned({value.code})" if wanted.base in ("int", "Tensor") else value.code
                return Value(f"{kind}({code})" if kind != inner else code, wanted)
            if wanted.optional and wanted.base == "int":
                return Value(f"std::optional<IntList>(IntList({value.code}))", wanted)
            return Value(value.code, wanted)
        if wanted.optional and have.optional:
            return Value(value.code, wanted)
        plain = self._unwrap(value) if have.optional else value
        if wanted.base == "Scalar" and plain.type != SCALAR:
            return Value(f"Scalar({plain.code})", wanted)
        if wanted.base == "float" and plain.type.base != "float":
            return Value(f"double({plain.code})", wanted)
        if wanted.base == "str" and owned:
            return Value(f"std::string({plain.code})", wanted)
        return Value(plain.code, wanted)

    # ---- helpers ----

    @staticmethod
    def _quote(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'

    def _error(self, node: ast.AST, message: str) -> FormulaError:
        assert self._formula is not None
        lines = self._formula.text.splitlines(keepends=True)
        line = getattr(node, "lineno", 1)
        offset = sum(len(text) for text in lines[: line - 1]) + getattr(node, "col_offset", 0)
        return FormulaError(self._formula.at(offset), message)


def _given(arguments: list[Value], keywords: Mapping[str, Value]) -> str:
    """The types of a call, for messages."""
    named = [f"{name}={value.type}" for name, value in keywords.items()]
    return ", ".join([*(str(a.type) for a in arguments), *named])


def _a(t: Type) -> str:
    return f"{'an' if str(t)[0] in 'aeiou' else 'a'} {t}"


def argument_values(op: Operator, prefix: Callable[[str], str] = lambda n: n) -> dict[str, Value]:
    """The operator's own arguments as variables of a formula."""
    return {
        a.name: Value(prefix(cpp_types.identifier(a.name)), a.type) for a in op.signature.arguments
    }
