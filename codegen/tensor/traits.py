"""What holds of an operator whatever it is called with: the words of the key `traits`.

`may_alias`, its results may share memory with its inputs; `value_dependent`, the shape of its
results or the work itself depends on elements, so that tensors without any (meta) do not serve;
`random`, it draws numbers. Kernels and C++ compositions state theirs, of formulas they follow from
the operators that these call.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..schema.model import Operator, Schema, Signature

# Traits that an operator has as soon as it calls one that has them.
OF_CALLS = ("value_dependent", "random")


def traits(schema: Schema) -> dict[str, tuple[str, ...]]:
    """The traits of each operator, stated or not, by its name."""
    found = {op.name: frozenset(op.traits) | _of_signature(op) for op in schema.callables}
    # Kernels have the traits of what they do, not those of their decomposition.
    programs = [(o, o.composite.tree) for o in schema.callables if o.composite and not o.dispatch]
    changed = True
    while changed:
        changed = False
        for op, tree in programs:
            more = frozenset(_of_formula(schema, op, tree, found)) | found[op.name]
            changed |= more != found[op.name]
            found[op.name] = more
    return {name: tuple(sorted(words)) for name, words in found.items()}


def _of_signature(op: Operator) -> frozenset[str]:
    """What kind and arguments tell: a view lies in its input, who takes a generator draws."""
    drawn = op.kind == "random" or any(a.type.base == "Generator" for a in op.signature.arguments)
    words = {"may_alias": op.kind == "view", "random": drawn}
    return frozenset(word for word, holds in words.items() if holds)


def _of_formula(
    schema: Schema, op: Operator, tree: ast.AST, found: dict[str, frozenset[str]]
) -> Iterator[str]:
    called = [o for node in ast.walk(tree) for o in _called(schema, node)]
    for trait in OF_CALLS:
        if any(trait in found[o.name] for o in called):
            yield trait
    written = all(r.type.mutable for r in op.signature.returns)
    if not written and _Aliases(schema, op, tree, found).of_results():
        yield "may_alias"


def _called(schema: Schema, node: ast.AST) -> list[Operator]:
    """The operators that a node may stand for: a function, a method or a property."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            given = len(node.args)
        case ast.Call(func=ast.Attribute(attr=name)):
            given = len(node.args) + 1
        case ast.Attribute(attr=name):
            return [o for o in schema.by_base_name.get(name, []) if "property" in o.python]
        case _:
            return []
    found = schema.by_base_name.get(name) or schema.by_base_name.get(name.rstrip("_"), [])
    return [o for o in found if _takes(o.signature, given + len(node.keywords))]


def _takes(signature: Signature, given: int) -> bool:
    """Can it be called with so many arguments?"""
    needed = [a for a in signature.arguments if a.default is None and not a.type.varargs]
    spread = any(a.type.varargs for a in signature.arguments)
    return len(needed) <= given and (spread or given <= len(signature.arguments))


class _Aliases:
    """Which values of a program may lie in the memory of its tensor arguments."""

    def __init__(
        self, schema: Schema, op: Operator, tree: ast.AST, found: dict[str, frozenset[str]]
    ) -> None:
        self._schema, self._found, self._tree = schema, found, tree
        self._names = {a.name for a in op.signature.arguments if a.type.base == "Tensor"}

    def of_results(self) -> bool:
        before = -1
        while len(self._names) > before:
            before = len(self._names)
            for node in ast.walk(self._tree):
                self._assign(node)
        match self._tree:
            case ast.Expression(body=body):
                return self._lies(body)
        ends = [n.value for n in ast.walk(self._tree) if isinstance(n, ast.Return) and n.value]
        ends += [n.value for n in getattr(self._tree, "body", []) if isinstance(n, ast.Expr)][-1:]
        return any(map(self._lies, ends))

    def _assign(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value) if self._lies(value):
                for target in targets:
                    self._names |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
            case ast.For(target=ast.Name(id=name), iter=value) if self._lies(value):
                self._names.add(name)

    def _lies(self, node: ast.expr) -> bool:
        match node:
            case ast.Name(id=name):
                return name in self._names
            case ast.IfExp(body=a, orelse=b):
                return self._lies(a) or self._lies(b)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return any(map(self._lies, items))
            case ast.ListComp(elt=item, generators=sources):
                for source in sources:
                    if self._lies(source.iter):
                        self._names |= {
                            n.id for n in ast.walk(source.target) if isinstance(n, ast.Name)
                        }
                return self._lies(item)
            case ast.BinOp(op=ast.Add(), left=a, right=b) if _is_list(a) or _is_list(b):
                return self._lies(a) or self._lies(b)
            case ast.Subscript(value=value):
                return self._lies(value)
            case ast.Call(func=ast.Name(id=name), args=given):
                return self._passes(node, name, given)
            case ast.Call(func=ast.Attribute(value=owner, attr=name), args=given):
                return self._passes(node, name, [owner, *given])
            case ast.Attribute(value=owner):
                return self._passes(node, node.attr, [owner])
        return False

    def _passes(self, node: ast.expr, name: str, given: list[ast.expr]) -> bool:
        """Does a call hand on the memory of one of these?"""
        called = _called(self._schema, node)
        in_place = name.endswith("_") and not name.endswith("__")
        views = in_place or any("may_alias" in self._found[o.name] for o in called)
        return views and any(map(self._lies, given[:1] if in_place else given))


def _is_list(node: ast.expr) -> bool:
    return isinstance(node, ast.List | ast.ListComp)
