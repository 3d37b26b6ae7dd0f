"""The form of programs: typed statements in blocks, which `_text` prints and parses.

A graph is one function. Its statements compute one thing each, of atoms: names of variables, paths
of attributes from `self` on, literals, and lists, tuples, dicts and slices of atoms. Blocks nest in
`if`, `loop`, `for` and `with`; a variable may be assigned again, as loops do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "Block",
    "Call",
    "Constant",
    "Graph",
    "Items",
    "Jump",
    "Loop",
    "Mapping",
    "Name",
    "Parameter",
    "Path",
    "Return",
    "Span",
    "Star",
    "Statement",
    "Store",
    "Throw",
    "When",
    "Within",
    "atoms_of",
    "blocks_of",
    "leaves",
    "map_atom",
    "map_statement",
    "walk",
]


# ---- atoms; a literal is the Python value itself


@dataclass(frozen=True)
class Name:
    """The value of a variable."""

    id: str


@dataclass(frozen=True)
class Path:
    """The value of an attribute of the module, `self.layers.0.weight` say."""

    parts: tuple[str, ...]


@dataclass(frozen=True)
class Constant:
    """A tensor that belongs to the program, by its name."""

    name: str
    value: Any = field(compare=False)


@dataclass(frozen=True)
class Items:
    """A new list, or tuple, of atoms."""

    kind: str  # "list" or "tuple"
    items: tuple[Any, ...]


@dataclass(frozen=True)
class Mapping:
    """A new dict of atoms."""

    pairs: tuple[tuple[Any, Any], ...]


@dataclass(frozen=True)
class Star:
    """`*value` among the arguments of a call."""

    value: Any


@dataclass(frozen=True)
class Span:
    """`slice(start, stop, step)` of atoms."""

    start: Any
    stop: Any
    step: Any


# ---- statements


@dataclass
class Statement:
    """What has a line of the program that it was made from, "net.py:12" say."""

    where: str = field(default="", kw_only=True)


@dataclass
class Call(Statement):
    """`outs = op(args)`.

    `kind` says what `op` is: "op" a function of facula by its name; "py" a function of Python;
    "method" a method of the first argument; "call" another graph by name; "module" a method of a
    submodule, whose path is the first argument; "get" an attribute of the first argument; "copy"
    nothing, the first argument itself. Several `outs` take the items of the result; none drops it.
    """

    outs: list[tuple[str, str]]  # name and type; the type "" is unknown
    kind: str
    op: str
    args: list[Any]
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass
class Store(Statement):
    """`self.a.b = atom`."""

    path: Path
    value: Any


@dataclass
class Return(Statement):
    value: Any


@dataclass
class Throw(Statement):
    """`raise kind(message)`."""

    kind: str
    message: Any


@dataclass
class Jump(Statement):
    """`break` or `continue`."""

    kind: str


@dataclass
class When(Statement):
    """`if test: ... else: ...`"""

    test: Any
    then: Block
    other: Block


@dataclass
class Loop(Statement):
    """`for out in over`, or for ever where `out` is None."""

    out: tuple[str, str] | None
    over: Any
    body: Block


@dataclass
class Within(Statement):
    """`with manager(args):`"""

    manager: str
    args: list[Any]
    body: Block


Block = list[Statement]


@dataclass
class Parameter:
    """A parameter of a graph; `default` is a tuple of the atom, or empty."""

    name: str
    type: str = ""
    default: tuple[Any, ...] = ()
    keyword_only: bool = False


class _Tools:
    """What stands above: `_text` and `_running` put their functions here."""

    atom_text: Any
    block_text: Any
    graph_text: Any
    function_of: Any


tools = _Tools()


class _Uses:
    """One value of a graph, as `Node.inputs` and `outputs` give it."""

    def __init__(self, text: str, kind: str = "") -> None:
        self._text, self._kind = text, kind

    def debugName(self) -> str:
        return self._text

    def type(self) -> str:
        return self._kind

    def __repr__(self) -> str:
        return self._text


class Node:
    """A statement as torch's graphs show theirs."""

    def __init__(self, statement: Statement) -> None:
        self._statement = statement

    def kind(self) -> str:
        """The operator, "facula::linear" say."""
        s = self._statement
        if not isinstance(s, Call):
            return f"prim::{type(s).__name__}"
        space = {"op": "facula", "py": "py"}.get(s.kind, "prim")
        return f"{space}::{s.op or s.kind}"

    def inputs(self) -> Iterator[_Uses]:
        return (_Uses(tools.atom_text(a)) for a in atoms_of(self._statement))

    def outputs(self) -> Iterator[_Uses]:
        s = self._statement
        return (_Uses(n, t) for n, t in (s.outs if isinstance(s, Call) else ()))

    def sourceRange(self) -> str:
        return self._statement.where

    def blocks(self) -> list[list[Node]]:
        return [[Node(s) for s in block] for block in blocks_of(self._statement)]

    def __repr__(self) -> str:
        return "\n".join(tools.block_text([self._statement]))


@dataclass
class Graph:
    """A function: parameters, a type of result, a body; the graphs that it calls, by name.

    `print(graph)` shows it in the form that files have.
    """

    name: str
    parameters: list[Parameter]
    result: str = ""
    body: Block = field(default_factory=list)
    functions: dict[str, Graph] = field(default_factory=dict, repr=False, compare=False)
    compiled: Any = field(default=None, repr=False, compare=False)
    # Where modules keep what paths name: "_parameters", "_buffers", "_modules"; see `_modules`.
    places: dict[Path, str] = field(default_factory=dict, repr=False, compare=False)

    def nodes(self) -> Iterator[Node]:
        """The statements of the body."""
        return (Node(s) for s in self.body)

    def inputs(self) -> Iterator[_Uses]:
        """The parameters."""
        return (_Uses(p.name, p.type) for p in self.parameters)

    def outputs(self) -> Iterator[_Uses]:
        """What is returned at the end."""
        last = self.body[-1] if self.body else None
        if not isinstance(last, Return):
            return iter(())
        many = isinstance(last.value, Items) and last.value.kind == "tuple"
        return (_Uses(tools.atom_text(a)) for a in (last.value.items if many else [last.value]))

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:
        """The nodes of a kind, in blocks too."""
        return [n for n in map(Node, walk(self.body)) if n.kind() == kind]

    def __str__(self) -> str:
        return str(tools.graph_text(self))

    def constants(self) -> dict[str, Any]:
        """The tensors that belong to it, by name."""
        found = {}
        for statement in walk(self.body):
            for atom in atoms_of(statement):
                for leaf in leaves(atom):
                    if isinstance(leaf, Constant):
                        found[leaf.name] = leaf.value
        return found

    def callable(self) -> Callable[..., Any]:
        """The Python function that runs it; made once."""
        if self.compiled is None:
            self.compiled = tools.function_of(self)
        found: Callable[..., Any] = self.compiled
        return found


# ---- going through graphs


def blocks_of(statement: Statement) -> list[Block]:
    """The blocks within a statement."""
    if isinstance(statement, When):
        return [statement.then, statement.other]
    if isinstance(statement, (Loop, Within)):
        return [statement.body]
    return []


def walk(block: Block) -> Iterator[Statement]:
    """All statements of a block and of those within it, outer ones first."""
    for statement in block:
        yield statement
        for inner in blocks_of(statement):
            yield from walk(inner)


def atoms_of(statement: Statement) -> list[Any]:
    """The atoms that a statement itself reads."""
    if isinstance(statement, Call):
        return [*statement.args, *statement.kwargs.values()]
    if isinstance(statement, (Store, Return)):
        return [statement.value]
    if isinstance(statement, Throw):
        return [statement.message]
    if isinstance(statement, When):
        return [statement.test]
    if isinstance(statement, Loop):
        return [statement.over] if statement.out is not None else []
    if isinstance(statement, Within):
        return list(statement.args)
    return []


def leaves(atom: Any) -> Iterator[Any]:
    """The names, paths and literals in an atom."""
    if isinstance(atom, Items):
        for item in atom.items:
            yield from leaves(item)
    elif isinstance(atom, Mapping):
        for key, value in atom.pairs:
            yield from leaves(key)
            yield from leaves(value)
    elif isinstance(atom, Star):
        yield from leaves(atom.value)
    elif isinstance(atom, Span):
        for part in (atom.start, atom.stop, atom.step):
            yield from leaves(part)
    else:
        yield atom


def map_atom(atom: Any, change: Callable[[Any], Any]) -> Any:
    """An atom with each name, path and literal in it replaced."""
    if isinstance(atom, Items):
        return Items(atom.kind, tuple(map_atom(item, change) for item in atom.items))
    if isinstance(atom, Mapping):
        return Mapping(tuple((map_atom(k, change), map_atom(v, change)) for k, v in atom.pairs))
    if isinstance(atom, Star):
        return Star(map_atom(atom.value, change))
    if isinstance(atom, Span):
        return Span(*(map_atom(part, change) for part in (atom.start, atom.stop, atom.step)))
    return change(atom)


def map_statement(statement: Statement, change: Callable[[Any], Any]) -> Statement:
    """A statement with the atoms that it and its blocks read replaced."""

    def atom(a: Any) -> Any:
        return map_atom(a, change)

    def block(b: Block) -> Block:
        return [map_statement(s, change) for s in b]

    if isinstance(statement, Call):
        kwargs = {k: atom(v) for k, v in statement.kwargs.items()}
        return dataclasses.replace(statement, args=[*map(atom, statement.args)], kwargs=kwargs)
    if isinstance(statement, (Store, Return)):
        return dataclasses.replace(statement, value=atom(statement.value))
    if isinstance(statement, Throw):
        return dataclasses.replace(statement, message=atom(statement.message))
    if isinstance(statement, When):
        inner = (block(statement.then), block(statement.other))
        return When(atom(statement.test), *inner, where=statement.where)
    if isinstance(statement, Loop):
        return dataclasses.replace(statement, over=atom(statement.over), body=block(statement.body))
    if isinstance(statement, Within):
        args = [*map(atom, statement.args)]
        return dataclasses.replace(statement, args=args, body=block(statement.body))
    return statement
