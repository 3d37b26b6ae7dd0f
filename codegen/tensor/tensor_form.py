"""Scalar formulas written over operators, for derivatives of fused backward operators.

A word of the vocabulary becomes the operator of that name. Conditions on non-tensor arguments
become Python conditionals, which choose before anything is computed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..scalar.symbolic import is_zero
from ..scalar.tree import Expr, call, name
from ..schema.model import Operator

_LOGIC = {"and": "logical_and", "or": "logical_or", "not": "logical_not"}


def tensor_form(e: Expr, tensors: Collection[str]) -> list[str]:
    """Lines of a program over operators that returns a tree whose tensor variables are `tensors`.

    What the tree computes several times is assigned to a name first.
    """
    parts = _Repeated(_Writer(frozenset(tensors))).of(e)
    writer = _Writer(frozenset([*tensors, *(n.text for n in parts.values())]))
    lines = []
    for part, own_name in parts.items():
        inside = Expr(part.head, tuple(_named(a, parts) for a in part.args), part.text)
        lines.append(f"{own_name.text} = {writer.text(inside)}")
    return [*lines, f"return {writer.text(_named(e, parts))}"]


def _named(e: Expr, names: Mapping[Expr, Expr]) -> Expr:
    return e.map(names.get)


def operators_used(e: Expr) -> set[str]:
    """Names of the operators that the tensor form of a tree calls."""
    heads = {x.head for x in e.walk()}
    used = {word for head, word in _LOGIC.items() if head in heads}
    return used | e.functions() | ({"where"} if "where" in heads else set())


class _Writer:
    def __init__(self, tensors: frozenset[str]) -> None:
        self.tensors = tensors

    def text(self, e: Expr) -> str:
        if e.head == "where":
            return self._where(e)
        return str(e.map(self._replace))

    def _replace(self, e: Expr) -> Expr | None:
        """Opaque text for what Python spells otherwise than the scalar language."""
        if e.head == "where":
            text = self._where(e)
            return name(f"({text})" if " if " in text else text)
        if e.head in _LOGIC and self.is_tensor(e):
            return call(_LOGIC[e.head], *(a.map(self._replace) for a in e.args))
        return None

    def is_tensor(self, e: Expr) -> bool:
        return bool(e.names() & self.tensors)

    def chooses(self, e: Expr) -> bool:
        """Whether a condition without tensors decides what of `e` is computed at all."""
        return e.head == "where" and self._split(*e.args)[0] is not None

    def _where(self, e: Expr) -> str:
        c, a, b = e.args
        scalar, yes, no = self._split(c, a, b)
        if scalar is not None:
            inner = self.text(yes)
            inner = f"({inner})" if " if " in inner else inner
            return f"{inner} if {self.text(scalar)} else {self.text(no)}"
        if is_zero(a) and is_zero(b):
            return "0"
        return f"where({self.text(c)}, {self.text(a)}, {self.text(b)})"

    def _split(self, c: Expr, a: Expr, b: Expr) -> tuple[Expr | None, Expr, Expr]:
        """Pull a condition without tensors out of `where(c, a, b)`: (it, yes, no)."""
        if not self.is_tensor(c):
            return c, a, b
        if c.head in ("and", "or") and any(not self.is_tensor(x) for x in _leaves(c)):
            left, right = c.args
            if c.head == "and":
                return self._split(left, Expr("where", (right, a, b)), b)
            return self._split(left, a, Expr("where", (right, a, b)))
        return None, a, b


class _Repeated:
    """Finds the tensors that a tree computes in several places, inner ones first."""

    def __init__(self, writer: _Writer) -> None:
        self.writer = writer
        self.uses: dict[Expr, int] = {}

    def of(self, e: Expr) -> dict[Expr, Expr]:
        """Those trees, each with the name it is to have."""
        self._count(e)
        repeated = (part for part, uses in self.uses.items() if uses > 1)
        return {part: name(f"part{i}") for i, part in enumerate(repeated, 1)}

    def _count(self, e: Expr) -> None:
        if not e.args or not self.writer.is_tensor(e) or self.writer.chooses(e):
            return
        if e in self.uses:
            self.uses[e] += 1
            return
        for inner in e.args:
            self._count(inner)
        self.uses[e] = 1


def _leaves(c: Expr) -> list[Expr]:
    return [x for a in c.args for x in _leaves(a)] if c.head in ("and", "or") else [c]


def match(pattern: Expr, target: Expr, variables: Collection[str]) -> dict[str, Expr] | None:
    """Values of the variables that make `pattern` equal to `target`, or None."""
    found: dict[str, Expr] = {}
    return found if _match(pattern, target, variables, found) else None


def _match(p: Expr, t: Expr, variables: Collection[str], found: dict[str, Expr]) -> bool:
    if p.head == "name" and p.text in variables:
        return found.setdefault(p.text, t) == t
    if p.head != t.head or p.text != t.text or len(p.args) != len(t.args):
        return False
    return all(_match(a, b, variables, found) for a, b in zip(p.args, t.args, strict=True))


def simple(e: Expr) -> bool:
    """A name, a number or a conjugate: what can be handed to an operator without computing."""
    if e.head == "call" and e.text == "conj":
        e = e.args[0]
    return e.head == "name" or e.number is not None


class Library:
    """Pointwise operators over tensors alone, to find one that computes a given formula."""

    def __init__(self, formulas: Mapping[str, tuple[Operator, Expr]]) -> None:
        self.formulas = dict(formulas)

    def add(self, op: Operator, formula: Expr) -> None:
        if all(a.type.is_tensor for a in op.signature.arguments):
            self.formulas[op.name] = (op, formula)

    def find(self, target: Expr, family: str, tensors: Collection[str]) -> str | None:
        """The call of an operator that is exactly `target`; derived ones only of one family."""
        for op, pattern in self.formulas.values():
            if op.derived_from not in (None, family) or op.promote in ("bool", "real"):
                continue
            arguments = [a.name for a in op.signature.arguments]
            found = match(pattern, target, arguments)
            if found is None or set(found) != set(arguments):
                continue
            if not all(simple(value) for value in found.values()):
                continue
            if any(found[m].names().isdisjoint(tensors) for m in op.masks):
                continue
            return f"{op.base_name}({', '.join(str(found[a]) for a in arguments)})"
        return None
