"""Formulas: Python expressions and small programs, parsed with `ast` and checked name by name."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Collection, Mapping

from .errors import Errors, nearest
from .model import Formula, Location

# Names that stand for numbers in every formula.
CONSTANTS: dict[str, float] = {
    "pi": math.pi,
    "e": math.e,
    "inf": math.inf,
    "nan": math.nan,
    "euler_gamma": 0.577215664901532860606512090082,
    "M_SQRT2": math.sqrt(2),
    "M_SQRT1_2": math.sqrt(0.5),
    "M_2_SQRTPI": 2 / math.sqrt(math.pi),
    "M_1_SQRTPI": 1 / math.sqrt(math.pi),
    "M_1_SQRT2PI": 1 / math.sqrt(2 * math.pi),
    "M_LN2": math.log(2),
    "M_LN10": math.log(10),
    "M_LOG2E": math.log2(math.e),
    "M_LOG10E": math.log10(math.e),
}

# Functions of the language itself with their number of arguments; the others are `math:` records.
INTRINSICS: dict[str, int] = {"where": 3}

_SCALAR_NODES = (
    ast.Expression,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.Call,
    ast.Name,
    ast.Constant,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
    ast.expr_context,
)
Scopes = Mapping[str, int]
_SHOWN = re.compile(r"\{([^{}]*)\}")
_MOST_DEPTH = 100
_DEEP = f"not a formula: nested more than {_MOST_DEPTH} deep"


class FormulaError(Exception):
    """A mistake at an offset of a formula's text."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message


def parse(
    text: str,
    location: Location,
    runs: tuple[tuple[int, int, int], ...] = (),
    *,
    program: bool = False,
) -> Formula:
    """Parse an expression, or with `program` an expression or a program of statements."""
    try:
        return Formula(text, _tree(text, "eval"), location, runs)
    except SyntaxError as error:
        mistake = _syntax(text, error)
    try:
        if "\n" in text:  # an expression that runs over several lines
            tree = _tree(f"({text}\n)", "eval")
            for node in ast.walk(tree):
                if getattr(node, "lineno", 0) == 1:
                    node.col_offset -= 1  # type: ignore[attr-defined]
            return Formula(text, tree, location, runs)
    except SyntaxError:
        pass
    if not program:
        raise FormulaError(*mistake)
    try:
        return Formula(text, _tree(text, "exec"), location, runs)
    except SyntaxError as error:
        raise FormulaError(*_syntax(text, error)) from None


def parse_text(
    text: str, location: Location, runs: tuple[tuple[int, int, int], ...] = ()
) -> Formula:
    """Parse a text with `{values}`, as the f-string it would be in a program."""
    pieces: list[ast.expr] = []
    at = 0
    for match in _SHOWN.finditer(text):
        pieces.append(ast.Constant(text[at : match.start()]))
        try:
            tree = _tree(match[1], "eval")
        except SyntaxError as error:
            offset, mistake = _syntax(match[1], error)
            raise FormulaError(match.start(1) + offset, mistake) from None
        assert isinstance(tree, ast.Expression)
        row, column = text.count("\n", 0, match.start(1)), text.rfind("\n", 0, match.start(1)) + 1
        for node in ast.walk(tree):
            if hasattr(node, "col_offset"):
                node.col_offset += len(text[column : match.start(1)].encode())
                node.lineno += row  # type: ignore[attr-defined]
        pieces.append(ast.FormattedValue(tree.body, -1))
        at = match.end()
    pieces.append(ast.Constant(text[at:]))
    left = _SHOWN.sub(lambda match: " " * len(match.group()), text)
    brace = re.search(r"[{}]", left)
    if brace is not None:
        raise FormulaError(brace.start(), f"'{brace.group()}' without its partner")
    found = [p for p in pieces if not isinstance(p, ast.Constant) or p.value]
    return Formula(text, ast.Expression(ast.JoinedStr(found)), location, runs)


def _tree(text: str, mode: str) -> ast.AST:
    """Python's tree of a text, no deeper than what later stages descend by recursion."""
    try:
        tree: ast.AST = ast.parse(text, mode=mode)
    except (RecursionError, MemoryError):
        raise FormulaError(0, _DEEP) from None
    except ValueError as error:
        raise FormulaError(0, f"not a formula: {error}") from None
    level = [tree] if len(text) > _MOST_DEPTH else []
    depth = 0
    while level and depth < _MOST_DEPTH:
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        depth += 1
    if level:
        raise FormulaError(0, _DEEP)
    return tree


def synthetic(text: str, location: Location) -> Formula:
    """A formula that the generator wrote; its place is the record it comes from.

    A program of one `return` is kept as the expression that it returns.
    """
    if "\n" in text:
        return Formula(text, ast.parse(text), location)
    text = text.removeprefix("return ")
    return Formula(text, ast.parse(text, mode="eval"), location)


def _syntax(text: str, error: SyntaxError) -> tuple[int, str]:
    line, column = error.lineno or 1, (error.offset or 1) - 1
    offset = min(line_offset(text, line) + max(column, 0), max(len(text) - 1, 0))
    return offset, f"not a formula: {error.msg}"


def line_offset(text: str, line: int) -> int:
    return sum(len(piece) for piece in text.splitlines(keepends=True)[: line - 1])


def offset_of(formula: Formula, node: ast.AST) -> int:
    """Offset of a node in its formula's text (columns of `ast` count bytes)."""
    line = getattr(node, "lineno", 1)
    lines = formula.text.splitlines() or [""]
    row = lines[min(line, len(lines)) - 1].encode()
    return line_offset(formula.text, line) + len(row[: getattr(node, "col_offset", 0)].decode())


def place(formula: Formula, node: ast.AST) -> Location:
    return formula.at(offset_of(formula, node))


def body(formula: Formula) -> ast.expr:
    """The expression of a formula that is one."""
    assert isinstance(formula.tree, ast.Expression)
    return formula.tree.body


def names(formula: Formula | ast.AST) -> set[str]:
    """Every name that is read in a formula and is not a function called."""
    tree = formula.tree if isinstance(formula, Formula) else formula
    called = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    return {
        n.id
        for n in ast.walk(tree)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and id(n) not in called
    }


class Checker:
    """Notes unknown names, functions and wrong arity of formulas, each with its place."""

    def __init__(self, errors: Errors, subject: str, optional: Collection[str] = ()) -> None:
        self.errors = errors
        self.subject = subject
        self.optional = optional  # names that `is None` asks for

    def add(self, formula: Formula, node: ast.AST, message: str) -> None:
        self.errors.add(place(formula, node), self.subject, message)

    def scalar(self, formula: Formula, known: Collection[str], functions: Scopes) -> None:
        """A formula of elements: `functions` gives the vocabulary with its arity."""
        arity = {**INTRINSICS, **functions}
        said: set[int] = set()  # nodes whose mistakes the node around them reports
        for node in ast.walk(formula.tree):
            if id(node) in said:
                said.update(map(id, ast.iter_child_nodes(node)))
            elif isinstance(node, ast.Call):
                said.add(id(node.func))
                said.update(map(id, node.keywords))
                self._call(formula, node, arity)
            elif isinstance(node, ast.Compare):
                said.update(map(id, node.ops))
                self._compare(formula, node, said)
            elif not isinstance(node, _SCALAR_NODES) or isinstance(node, ast.MatMult):
                self.add(formula, node, f"{_what(node)} has no place in a scalar formula")
                said.update(map(id, ast.iter_child_nodes(node)))
            elif isinstance(node, ast.Constant) and not isinstance(node.value, int | float):
                self.add(formula, node, f"{node.value!r} is not a number")
            elif isinstance(node, ast.Name):
                self._name(formula, node, known, arity)

    def _compare(self, formula: Formula, node: ast.Compare, said: set[int]) -> None:
        for operator, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(operator, ast.In | ast.NotIn):
                self.add(formula, node, "`in` has no place in a scalar formula; compare with `==`")
            elif isinstance(operator, ast.Is | ast.IsNot):
                said.add(id(right))
                optional = isinstance(node.left, ast.Name) and node.left.id in self.optional
                none = isinstance(right, ast.Constant) and right.value is None
                if not (optional and none and len(node.ops) == 1):
                    known = ", ".join(self.optional) or "this operator has none"
                    message = f"`is` asks whether an optional argument is None ({known})"
                    self.add(formula, node, message)

    def _call(self, formula: Formula, node: ast.Call, arity: Scopes) -> None:
        if not isinstance(node.func, ast.Name):
            self.add(formula, node, "only functions of the vocabulary can be called")
            return
        name = node.func.id
        if name not in arity:
            hint = nearest(name, arity) or "; the vocabulary are the 'math' records"
            self.add(formula, node, f"unknown function '{name}'{hint}")
        elif node.keywords:
            self.add(formula, node, f"{name}() takes no keywords in a scalar formula")
        elif len(node.args) != arity[name]:
            wanted = f"{arity[name]} argument{'s' * (arity[name] != 1)}"
            self.add(formula, node, f"{name}() takes {wanted}, found {len(node.args)}")

    def _name(
        self, formula: Formula, node: ast.Name, known: Collection[str], functions: Collection[str]
    ) -> None:
        if node.id in CONSTANTS or node.id in known:
            return
        hint = nearest(node.id, known) or nearest(node.id, CONSTANTS)
        if node.id in functions:
            hint = f"; write {node.id}(...) to call the function"
        elif not hint and known:
            hint = f"; known are {', '.join(sorted(known))}"
        self.add(formula, node, f"unknown name '{node.id}'{hint}")


def _what(node: ast.AST) -> str:
    if isinstance(node, ast.MatMult):
        return "'@'"
    if isinstance(node, ast.Attribute):
        return f"the attribute '.{node.attr}'"
    return f"a Python {type(node).__name__}"
