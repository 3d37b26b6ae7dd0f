"""Mutants of the schema: of scalar formulas, composites, derivatives and calls of shape rules.

A mutant is one node of a formula's tree, changed. A formula with mutants chooses at run time:
`where(mutant(17), changed, original)` in a formula of elements, `changed if mutant(17) else
original` in one of tensors, where the changed node stands.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from codegen.schema import expr
from codegen.schema.model import Formula, Operator, Schema

_SIGNS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Add, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_WORDS = {
    "maximum": "minimum", "minimum": "maximum", "fmax": "fmin", "fmin": "fmax", "min": "max",
    "max": "min", "floor": "ceil", "ceil": "floor", "amax": "amin", "amin": "amax",
}  # fmt: skip
# Of integers the changed formula must not divide by what the right one does not divide by.
_DIVIDE = ("floor_divide", "trunc_divide", "remainder", "fmod", "pow", "within")


@dataclasses.dataclass(frozen=True)
class Spot:
    """A formula of the schema: how it is found and replaced."""

    kind: str  # scalar, composite, derivative or shape
    key: tuple[Any, ...]
    formula: Formula
    of_elements: bool


@dataclasses.dataclass(frozen=True)
class Change:
    """One changed node: its number in the order of `ast.walk`, and what stands there instead."""

    node: int
    what: str  # operator, sign, bound, index or constant
    text: str
    line: int


def spots(op: Operator) -> Iterator[Spot]:
    """The formulas of an operator of the schema, the derived ones' too."""
    kind = "derivative" if op.derived_from else "scalar"
    for i, (_, formula) in enumerate(op.scalar):
        yield Spot(kind, ("scalar", i), formula, True)
    if op.composite is not None:
        yield Spot(
            "derivative" if op.derived_from else "composite", ("composite",), op.composite, False
        )
    for i, derivative in enumerate(op.derivatives):
        if derivative.formula is not None:
            yield Spot("derivative", ("derivatives", i), derivative.formula, False)
    if op.forward_formula is not None:
        yield Spot("derivative", ("forward_formula",), op.forward_formula, False)
    for i, formula in enumerate(op.shape):
        yield Spot("shape", ("shape", i), formula, False)
    for i, check in enumerate(op.checks):
        if check.require is not None:
            yield Spot("shape", ("checks", i), check.require, False)


def replaced(op: Operator, key: tuple[Any, ...], formula: Formula) -> Operator:
    """The operator with another formula in one of its places."""
    field, *rest = key
    if not rest:
        return op.replace(**{field: formula})
    items = list(getattr(op, field))
    if field == "scalar":
        items[rest[0]] = (items[rest[0]][0], formula)
    elif field == "derivatives":
        items[rest[0]] = dataclasses.replace(items[rest[0]], formula=formula)
    elif field == "checks":
        items[rest[0]] = dataclasses.replace(items[rest[0]], require=formula)
    else:
        items[rest[0]] = formula
    return op.replace(**{field: tuple(items)})


# ---- what can change ----


def _numbers(value: object) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, *([value - 1] if value > 1 else [])]
    return [value * 1.25 or 1.25] if isinstance(value, float) else []


def _changed(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Each changed form of one node, with what changes."""
    other = copy.deepcopy(node)
    match other:
        case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in _SIGNS:
            other.op = _SIGNS[type(op)]()
            yield "operator", other
        case ast.BinOp(op=ast.Pow(), left=left):
            yield "operator", left
        case ast.Compare(ops=[op]) if type(op) in _SIGNS:
            other.ops = [_SIGNS[type(op)]()]
            yield "bound", other
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            yield "sign", operand
        case ast.Constant(value=value):
            for number in _numbers(value):
                yield "constant", ast.Constant(number)
        case ast.Call(func=ast.Name(id="where"), args=[c, a, b]):
            other.args = [c, b, a]
            yield "operator", other
        case ast.Call(func=ast.Name(id=word)) if word in _WORDS and len(other.args) == 2:
            other.func.id = _WORDS[word]
            yield "operator", other
        case ast.Subscript(slice=ast.Constant(value=int(n))):
            other.slice = ast.Constant(n + 1)
            yield "index", other


def _left_out(tree: ast.AST, of_elements: bool, integers: bool) -> set[int]:
    """Nodes that no mutant may change: texts, and of integers what divides."""
    out: set[int] = set()

    def cover(node: ast.AST) -> None:
        out.update(id(n) for n in ast.walk(node))

    for node in ast.walk(tree):
        match node:
            case ast.Raise() | ast.JoinedStr() | ast.Slice():
                cover(node)
            case ast.Expr(value=ast.Call(func=ast.Name(id="warn"))):
                cover(node)
            case ast.For(iter=ast.Call(args=[_, _, step])):
                cover(step)  # its sign decides how the loop compares
            case ast.Subscript(slice=index):
                cover(index)  # changed with the subscript
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()) if not of_elements:
                out.add(id(node.operand))  # a dim: changed as a whole
            case ast.Call(func=ast.Name(id=word), args=args) if of_elements and word in _DIVIDE:
                if integers or word == "within":
                    for a in args:
                        cover(a)
            case ast.BinOp(op=ast.FloorDiv() | ast.Mod() | ast.Pow() | ast.LShift() | ast.RShift()):
                if of_elements:
                    cover(node.right)
                if of_elements and integers:
                    cover(node)
    return out


def changes(spot: Spot, op: Operator) -> Iterator[Change]:
    integers = bool({"int", "bool"} & set(op.dtypes))
    out = _left_out(spot.formula.tree, spot.of_elements, integers)
    for number, node in enumerate(ast.walk(spot.formula.tree)):
        if id(node) in out:
            continue
        line = spot.formula.at(expr.offset_of(spot.formula, node)).line if _placed(node) else 0
        for what, other in _changed(node):
            shown = f"`{ast.unparse(node)}` as `{ast.unparse(other)}`"
            yield Change(number, what, shown, line or spot.formula.location.line)


def _placed(node: ast.AST) -> bool:
    return hasattr(node, "col_offset")


# ---- a formula with mutants in it ----


def with_mutants(spot: Spot, chosen: dict[int, Change]) -> Formula:
    """The formula that chooses among some of its changes by their numbers."""
    tree = copy.deepcopy(spot.formula.tree)
    by_node: dict[int, list[tuple[int, str]]] = {}
    nodes = list(ast.walk(tree))
    for number, change in chosen.items():
        by_node.setdefault(id(nodes[change.node]), []).append((number, change.text))
    originals = {id(n): copy.deepcopy(n) for n in nodes if id(n) in by_node}

    class Chooser(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            key = id(node)
            node = self.generic_visit(node)
            for number, text in by_node.get(key, ()):
                other = next(
                    o
                    for _, o in _changed(originals[key])
                    if text.endswith(f" as `{ast.unparse(o)}`")
                )
                node = _choice(number, other, node, spot.of_elements)
            return node

    made = ast.fix_missing_locations(Chooser().visit(tree))
    text = ast.unparse(made)
    return expr.parse(text, spot.formula.location, program=not spot.of_elements)


def _choice(number: int, changed: ast.expr, original: Any, of_elements: bool) -> ast.expr:
    asked = ast.Call(ast.Name("mutant"), [ast.Constant(number)], [])
    if of_elements:
        return ast.Call(ast.Name("where"), [asked, changed, original], [])
    return ast.IfExp(asked, changed, original)


def mutated(schema: Schema, chosen: dict[tuple[str, tuple[Any, ...]], dict[int, Change]]) -> Schema:
    """The schema with mutants, by operator and place of the formula."""
    ops = []
    for op in schema.callables:
        new = op
        for spot in spots(op):
            some = chosen.get((op.name, spot.key))
            if some:
                new = replaced(new, spot.key, with_mutants(spot, some))
        ops.append(new)
    return of_callables(schema, ops)


def of_callables(schema: Schema, ops: Sequence[Operator]) -> Schema:
    """The schema with others in the places of its operators and definitions."""
    count = len(schema.operators)
    return dataclasses.replace(schema, operators=tuple(ops[:count]), definitions=tuple(ops[count:]))


Try = Callable[[Schema, Operator], Any]
