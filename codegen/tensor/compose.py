"""Tensor formulas and programs (derivatives, composites, shape rules) -> C++ over facula::ops.

The parts, each over the ones before it: `values` (types and conversion), `scope` (what a formula
sees), `builtin` and `calls` (what a call means), `expressions`, `statements`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from ..schema import cpp_types, expr
from ..schema.errors import suggestion
from ..schema.model import Check, Formula, Operator, Schema, Type
from . import refusals
from .expressions import expression
from .scope import Scope
from .statements import message, program, returned
from .values import BOOL, META, Value, described, fits


class Translator:
    """Translates formulas of one operator; `variables` maps names to typed C++ expressions."""

    def __init__(
        self,
        schema: Schema,
        op: Operator,
        variables: Mapping[str, Value],
        offered: tuple[str, ...] = (),
    ) -> None:
        self._schema = schema
        self._op = op
        self._variables = variables
        self._offered = offered  # further names, for messages

    def expression(self, formula: Formula, wanted: Type | None = None) -> Value:
        """A formula as a value; a program, where a type is wanted, is called on the spot."""
        if wanted is not None and isinstance(formula.tree, ast.Module) and formula.tree.body[1:]:
            statements = " ".join(self.program(formula, (wanted,)))
            return Value(f"[&]() -> {cpp_types.owned(wanted)} {{ {statements} }}()", wanted)
        scope = self._scope(formula)
        body = _single(scope)
        value = expression(scope, body)
        return value if wanted is None else scope.convert(value, wanted, body)

    def subexpression(self, formula: Formula, node: ast.expr) -> Value:
        """One part of a formula."""
        return expression(self._scope(formula), node)

    def shape_expression(self, formula: Formula) -> str:
        """A call of a shape rule."""
        scope = self._scope(formula, in_shape=True)
        body = _single(scope)
        return scope.convert(expression(scope, body), META, body).code

    def check(self, check: Check) -> str:
        """The statement that raises where the arguments do not satisfy a check."""
        if check.call is not None:
            return self._check_call(check.call, self._op.base_name)
        assert check.require is not None and check.error is not None
        test = self.expression(check.require, BOOL).code
        words = message(self._scope(check.error), expr.body(check.error))
        kind = refusals.kind(check.require.tree, check.raises)
        operator = refusals.operator(self._op, check.require.tree)
        return f"FACULA_CHECK({test}, {kind}, {operator}, {words});"

    def _check_call(self, formula: Formula, name: str) -> str:
        """The call of a rule that only checks; it is told what its arguments are called here."""
        scope = self._scope(formula, in_shape=True)
        rules = {n: r for n, r in self._schema.rule_signatures.items() if not r.returns}
        node = _single(scope)
        match node:
            case ast.Call(func=ast.Name(id=rule), args=values, keywords=keywords) if rule in rules:
                arguments = expression(scope, node).code.removeprefix(f"shape::{rule}(")
                given = zip((a.name for a in rules[rule].arguments), values, strict=False)
                texts = {n: ast.unparse(v) for n, v in given}
                texts |= {str(k.arg): ast.unparse(k.value) for k in keywords}
                quoted = [cpp_types.quoted(texts.get(a.name, "")) for a in rules[rule].arguments]
                called = f'Called{{"{name}", {{{", ".join(quoted)}}}}}'
                return f"shape::{rule}({called}, {arguments};"
            case ast.Call(func=ast.Name(id=unknown)):
                hint = suggestion(unknown, list(rules))
                raise scope.error(node, f"no rule '{unknown}' that returns (){hint}")
        raise scope.error(node, "a check has 'require' and 'error', or calls a rule")

    def joint(self, formula: Formula, wanted: Type, count: int) -> str:
        """A formula of several values of one type, as a C++ tuple."""
        scope = self._scope(formula)
        body = _single(scope)
        value = expression(scope, body)
        if value.elements is None:
            found, fit = max(len(value.items), 1), value.items == (wanted,) * count
        else:
            found, fit = len(value.elements), all(fits(e, wanted) for e in value.elements)
        if found != count or not fit:
            message = f"{count} gradients are wanted here, each {described(wanted)}, found {found}"
            raise scope.error(body, message)
        if value.elements is None:
            return value.code
        return f"std::make_tuple({', '.join(e.code for e in value.elements)})"

    def program(self, formula: Formula, returns: tuple[Type, ...]) -> list[str]:
        """C++ statements for an expression or a program ending in `return`."""
        scope, tree = self._scope(formula), formula.tree
        if isinstance(tree, ast.Expression):
            return [returned(scope, tree.body, returns)]
        assert isinstance(tree, ast.Module)
        return program(scope, tree.body, returns)

    def _scope(self, formula: Formula, in_shape: bool = False) -> Scope:
        variables = dict(self._variables)
        return Scope(self._schema, self._op, formula, variables, in_shape, self._offered)


def _single(scope: Scope) -> ast.expr:
    match scope.formula.tree:
        case ast.Expression(body=body):
            return body
        case ast.Module(body=[ast.Expr(value=body)]):
            return body
        case ast.Module(body=[ast.Return(value=ast.expr() as body)]):
            return body
    raise scope.error(scope.formula.tree, "one expression is wanted here")
