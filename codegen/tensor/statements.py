"""Programs of tensor formulas -> C++: assignments, `if`, `for`, `raise`, `warn`, `return`."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ..schema import cpp_types
from ..schema.model import Type
from ..schema.words import ERRORS
from . import refusals
from .expressions import condition, expression, range_bounds
from .scope import Scope
from .values import (
    BOOL,
    FLOAT,
    INT,
    INTS,
    NONE,
    STR,
    TENSOR,
    Value,
    described,
    list_of,
    unwrap,
)

_SHOWN = (INT, FLOAT, BOOL, STR)  # a Scalar has no text in C++


def program(scope: Scope, body: Sequence[ast.stmt], returns: tuple[Type, ...]) -> list[str]:
    """The C++ statements of a program with results of the given types."""
    if len(body) == 1 and isinstance(body[0], ast.Expr):
        return [returned(scope, body[0].value, returns)]
    return _Program(scope, returns).translate(body)


def returned(scope: Scope, node: ast.expr, returns: tuple[Type, ...]) -> str:
    """`return node` for results of the given types."""
    if len(returns) == 1:
        value = scope.convert(expression(scope, node), returns[0], node, owned=True)
        return f"return {value.code};"
    if isinstance(node, ast.Tuple):
        _same_number(scope, len(node.elts), len(returns), node)
        parts = [
            scope.convert(expression(scope, e), t, e, owned=True).code
            for e, t in zip(node.elts, returns, strict=True)
        ]
        return f"return {{{', '.join(parts)}}};"
    value = expression(scope, node)
    _same_number(scope, len(value.items) or 1, len(returns), node)
    return f"return {value.code};"


def _same_number(scope: Scope, found: int, wanted: int, node: ast.AST) -> None:
    if found != wanted:
        raise scope.error(node, f"{wanted} results are declared, {found} returned")


def _ends(body: Sequence[ast.stmt]) -> bool:
    """Whether no path runs past the end of these statements."""
    match body[-1] if body else None:
        case ast.Return() | ast.Raise():
            return True
        case ast.If(body=yes, orelse=no):
            return _ends(yes) and _ends(no)
    return False


def message(scope: Scope, node: ast.expr) -> str:
    """The parts of a text that shows values, as arguments of C++'s `raise`."""
    if isinstance(node, ast.JoinedStr):
        return ", ".join(_shown(scope, piece, node) for piece in node.values)
    return scope.convert(expression(scope, node), STR, node).code


def _shown(scope: Scope, piece: ast.expr, whole: ast.expr) -> str:
    """A part of an f-string; versions of Python differ in where a part begins."""
    match piece:
        case ast.Constant(value=str(text)):
            return cpp_types.quoted(text)
        case ast.FormattedValue(value=node, conversion=-1, format_spec=None):
            value = unwrap(expression(scope, node))
            if value.type == INTS:
                return f"shape_string({value.code})"
            if value.type.base == "ScalarType":
                return f"dtype_name({value.code})"
            if value.type in _SHOWN:
                return value.code
            raise scope.error(whole, f"a message cannot show {described(value.type)}")
    raise scope.error(whole, "a message shows values without conversions and formats")


class _Program:
    """Translates statements; names that they assign to are declared once, at the top."""

    def __init__(self, scope: Scope, returns: tuple[Type, ...]) -> None:
        self.scope = scope
        self.returns = returns
        self._locals: dict[str, tuple[Value, str]] = {}  # with the initialiser
        self._test: ast.expr | None = None  # of the innermost `if`

    def translate(self, body: Sequence[ast.stmt]) -> list[str]:
        lines = self._block(body)
        if self.returns and not _ends(body):
            raise self.scope.error(body[-1], "the program may end here without 'return'")
        declared = [
            f"{cpp_types.owned(value.type)} {value.code}{initial};"
            for value, initial in self._locals.values()
        ]
        return declared + lines

    def _block(self, body: Sequence[ast.stmt]) -> list[str]:
        return [line for statement in body for line in self._statement(statement)]

    def _statement(self, node: ast.stmt) -> list[str]:
        scope = self.scope
        match node:
            case ast.Return(value=None):
                raise scope.error(node, "return needs a value")
            case ast.Return(value=ast.expr() as value):
                return [returned(scope, value, self.returns)]
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return [self._assign(name, expression(scope, value), node)]
            case ast.AugAssign(target=ast.Name(id=name), op=operator, value=value):
                combined = ast.BinOp(ast.Name(name, ast.Load()), operator, value)
                for part in (combined, combined.left):
                    ast.copy_location(part, node)
                return [self._assign(name, expression(scope, combined), node)]
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                return [self._unpack(targets, expression(scope, value), node)]
            case ast.If(test=test, body=body, orelse=orelse):
                outer, self._test = self._test, test
                lines = [f"if ({condition(scope, test)}) {{", *self._block(body)]
                self._test = outer
                if orelse:
                    lines += ["} else {", *self._block(orelse)]
                return [*lines, "}"]
            case ast.For(
                target=ast.Name(id=name),
                iter=ast.Call(func=ast.Name(id="range")) as call,
                body=body,
                orelse=[],
            ):
                return self._for_range(name, call, body)
            case ast.Raise(exc=ast.Call(func=ast.Name(id=kind), args=[message]), cause=None):
                return [self._raise(kind, message, node)]
            case ast.Expr(value=ast.Call(func=ast.Name(id="warn"), args=[message], keywords=[])):
                return [f"warn({self._message(message)});"]
            case ast.Expr(value=value):
                return [self._append(value) or f"{expression(scope, value).code};"]
            case ast.Pass():
                return []
        text = ast.unparse(node).partition("\n")[0]
        raise scope.error(node, f"`{text}` is not part of the formula language")

    def _append(self, node: ast.expr) -> str | None:
        """`list.append(item)`, where the list is a variable."""
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="append"), args=[item]):
                known = self.scope.variables.get(owner)
                if known is not None and known.type.is_list:
                    value = expression(self.scope, item)
                    element = self.scope.convert(value, Type(known.type.base), item)
                    return f"{known.code}.push_back({element.code});"
        return None

    def _for_range(self, name: str, call: ast.Call, body: Sequence[ast.stmt]) -> list[str]:
        start, stop, step = [*range_bounds(self.scope, call, 3), "1"][:3]
        code = cpp_types.identifier(name)
        self.scope.variables[name] = Value(code, INT)
        compare = ">" if step.startswith(("-", "(-")) else "<"
        return [
            # as in Python, the bound is what it was when the loop began
            f"for (int64_t {code} = {start}, stop_{code} = {stop}; {code} {compare} stop_{code};"
            f" {code} += {step}) {{",
            *self._block(body),
            "}",
        ]

    # ---- raise, warn ----

    def _raise(self, kind: str, message: ast.expr, node: ast.AST) -> str:
        if kind not in ERRORS:
            raise self.scope.error(node, f"unknown error {kind}; allowed: {', '.join(ERRORS)}")
        op = refusals.operator(self.scope.op, self._test)
        told = refusals.kind(self._test, kind)
        return f"raise(ErrorKind::{told}, {op}, {self._message(message)});"

    def _message(self, text: ast.expr) -> str:
        return message(self.scope, text)

    # ---- variables ----

    def _assign(self, name: str, value: Value, node: ast.AST) -> str:
        if value.items:
            message = f"{len(value.items)} results need {len(value.items)} names, or an index"
            raise self.scope.error(node, message)
        target = self._declare(name, value.type if value.type != NONE else TENSOR, node)
        converted = self.scope.convert(value, target.type, node, owned=True)
        return f"{target.code} = {converted.code};"

    def _unpack(self, targets: Sequence[ast.expr], value: Value, node: ast.AST) -> str:
        if len(value.items) != len(targets):
            message = f"{len(targets)} names for {len(value.items) or 1} values"
            raise self.scope.error(node, message)
        slots = []
        for target, item in zip(targets, value.items, strict=True):
            if not isinstance(target, ast.Name):
                raise self.scope.error(target, "a plain name is wanted here")
            ignored = target.id == "_"
            slots.append("std::ignore" if ignored else self._declare(target.id, item, node).code)
        return f"std::tie({', '.join(slots)}) = {value.code};"

    def _declare(self, name: str, wanted: Type, node: ast.AST) -> Value:
        if name in self._locals:
            return self._locals[name][0]
        initial = "{}"
        shadowed = self.scope.variables.get(name)
        if shadowed is not None:  # an argument assigned to: the local starts as the argument
            t = shadowed.type
            wanted = Type(t.base, t.optional, 0 if t.is_list else None)
            initial = f" = {self.scope.convert(shadowed, wanted, node, owned=True).code}"
        elif wanted.is_list:
            wanted = list_of(wanted.base)
        elif wanted.base in ("Tensor", "Generator"):
            wanted = Type(wanted.base)
        if not cpp_types.is_storable(wanted):
            raise self.scope.error(node, f"a {wanted} cannot be kept in a variable")
        known = Value(f"{cpp_types.identifier(name)}_v", wanted)
        self.scope.variables[name] = known
        self._locals[name] = (known, initial)
        return known
