"""Running graphs: each becomes one Python function, whose lines are its statements.

Nothing of a graph's text is pasted: names are checked, literals are repr()s, and all that is
called stands in the function's globals, found in `_library`. An operator costs its own call.
"""

from __future__ import annotations

import itertools
import keyword
import linecache
import math
import re
from collections.abc import Callable
from typing import Any

import facula
from facula.jit import _library
from facula.jit._graph import (
    Block,
    Call,
    Constant,
    Graph,
    Items,
    Jump,
    Loop,
    Mapping,
    Name,
    Path,
    Return,
    Span,
    Star,
    Statement,
    Store,
    Throw,
    When,
    Within,
    atoms_of,
    blocks_of,
    leaves,
    tools,
    walk,
)

__all__ = ["code_text", "function_of"]

_numbers = itertools.count()
_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "matmul": "@", "and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "eq": "==",
    "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "is_": "is", "is_not": "is not",
}  # fmt: skip


class _Emitter:
    """Writes the lines of a graph's function, and gathers what they call.

    Args:
        fault: makes the error for a name that there is not.
        pretty: whether the lines are for people: with public paths in place of globals.
    """

    def __init__(self, graph: Graph, fault: Callable[[str], Exception], pretty: bool) -> None:
        self.graph, self.fault, self.pretty = graph, fault, pretty
        self.lines: list[str] = []
        self.space: dict[str, Any] = {"__builtins__": {}}
        self.last: dict[int, list[str]] = _last_uses(graph)
        self.owners: dict[tuple[str, ...], str] = {}

    def put(self, name: str, value: Any, shown: str) -> str:
        """The global under which a value stands."""
        if self.pretty:
            return shown
        key = "__" + re.sub(r"\W", "_", name)
        while key in self.space and self.space[key] is not value:
            key += "_"
        self.space[key] = value
        return key

    # ---- atoms

    def atom(self, a: Any) -> str:
        if isinstance(a, Name):
            return a.id
        if isinstance(a, Path):
            return self.path(a.parts)
        if isinstance(a, Items):
            inner = ", ".join(map(self.atom, a.items))
            if a.kind == "list":
                return f"[{inner}]"
            return f"({inner},)" if len(a.items) == 1 else f"({inner})"
        if isinstance(a, Mapping):
            return "{" + ", ".join(f"{self.atom(k)}: {self.atom(v)}" for k, v in a.pairs) + "}"
        if isinstance(a, Span):
            made = self.put("slice", slice, "slice")
            return f"{made}({', '.join(map(self.atom, (a.start, a.stop, a.step)))})"
        if isinstance(a, Star):
            return f"*{self.atom(a.value)}"
        if isinstance(a, Constant):
            return self.put(f"constant_{a.name}", a.value, a.name)
        if a is ... or a is None or type(a) in (int, bool, str, complex):
            return "..." if a is ... else repr(a)
        if type(a) is float:
            if math.isfinite(a):
                return repr(a)
            return f"{self.put('float', float, 'float')}({str(a)!r})"
        shown = f"facula.device({str(a)!r})" if isinstance(a, facula.device) else str(a)
        return self.put(f"value_{shown}", a, shown)

    def path(self, parts: tuple[str, ...]) -> str:
        text = self.owners.get(parts[:-1]) if parts else "self"
        if text is None:
            text = self.path(parts[:-1])
        place = "" if self.pretty else self.graph.places.get(Path(parts), "")
        for part in parts[-1:]:
            if place:  # quicker than asking the module for the attribute
                text += f".{place}[{part!r}]"
            elif part.isidentifier() and not keyword.iskeyword(part):
                text += f".{part}"
            else:
                get = self.put("getattr", getattr, "getattr")
                text = f"{get}({text}, {part!r})"
        return text

    def prelude(self) -> list[str]:
        """Lines that look submodules up once."""
        if self.pretty:
            return []
        used = {
            leaf.parts[:-1]
            for s in walk(self.graph.body)
            for atom in atoms_of(s)
            for leaf in leaves(atom)
            if isinstance(leaf, Path) and len(leaf.parts) > 1
        }
        if any(isinstance(s, Store) for s in walk(self.graph.body)):
            return []  # what is set may be a module on the way
        lines = []
        whole = {parts[:n] for parts in used for n in range(1, len(parts) + 1)}
        for number, parts in enumerate(sorted(whole, key=lambda p: (len(p), p))):
            lines.append(f"    __module_{number} = {self.path(parts)}")
            self.owners[parts] = f"__module_{number}"
        return lines

    def arguments(self, args: list[Any], kwargs: dict[str, Any]) -> str:
        named = [f"{k}={self.atom(v)}" for k, v in kwargs.items()]
        return ", ".join([*map(self.atom, args), *named])

    # ---- statements

    def call(self, s: Call) -> str:
        """The right side of a call."""
        args, op = s.args, s.op
        if s.kind == "copy":
            return self.atom(args[0])
        if s.kind == "op":
            found = _library.resolve(op)
            if found is None:
                raise self.fault(f"there is no function {op!r} that a program could call")
            shown = op if op.startswith("Tensor.") else f"facula.{op}"
            return f"{self.put(op, found, shown)}({self.arguments(args, s.kwargs)})"
        if s.kind == "py":
            return self.python(s)
        if s.kind == "call":
            if op not in self.graph.functions:
                raise self.fault(f"the program has no graph {op!r}")
            called = self.graph.functions[op]
            target = self.put(f"graph_{op}", _later(called), op)
            return f"{target}({self.arguments(args, s.kwargs)})"
        if not args or op.startswith("__") or not op.isidentifier():
            raise self.fault(f"{op!r} is no attribute of anything in a program")
        owner = self.atom(args[0]) if isinstance(args[0], (Name, Path)) else ""
        owner = owner or f"({self.atom(args[0])})"
        if s.kind == "module":
            if not isinstance(args[0], Path):
                raise self.fault(f"the module of {op!r} is no path")
            method = "" if op == "forward" else f".{op}"
            return f"{owner}{method}({self.arguments(args[1:], s.kwargs)})"
        if s.kind == "method":
            if op not in _library.METHODS:
                raise self.fault(f"there is no method {op!r} that a program could call")
            if op == "format":
                made = self.put("formatted", _library.formatted, "format")
                return f"{made}({self.arguments(args, s.kwargs)})"
            return f"{owner}.{op}({self.arguments(args[1:], s.kwargs)})"
        if op not in _library.READABLE or len(args) != 1:
            raise self.fault(f"there is no attribute {op!r} that a program could read")
        return f"{owner}.{op}"

    def python(self, s: Call) -> str:
        args, op = s.args, s.op
        found = _library.PYTHON.get(op)
        if found is None:
            raise self.fault(f"there is no function of Python {op!r} that a program could call")
        if op in _SIGNS and len(args) == 2 and not s.kwargs:
            return f"{self.operand(args[0])} {_SIGNS[op]} {self.operand(args[1])}"
        if op == "not_" and len(args) == 1:
            return f"not {self.operand(args[0])}"
        if op == "getitem" and len(args) == 2:
            return f"{self.operand(args[0])}[{self.atom(args[1])}]"
        return f"{self.put(op, found, op)}({self.arguments(args, s.kwargs)})"

    def operand(self, a: Any) -> str:
        text = self.atom(a)
        return f"({text})" if text[:1] == "-" or (type(a) is int and a >= 0) else text

    def block(self, block: Block, depth: int) -> None:
        tab = "    " * depth
        if not block:
            self.lines.append(f"{tab}pass")
        for s in block:
            self.statement(s, depth, tab)

    def statement(self, s: Statement, depth: int, tab: str) -> None:
        where = f"  # {s.where}" if s.where else ""
        if isinstance(s, Call):
            done = [n for n in self.last.get(id(s), ()) if n not in [out[0] for out in s.outs]]
            ended = f"; {' = '.join(done)} = None" if done else ""
            targets = ", ".join(out[0] for out in s.outs)
            targets = f"{targets} = " if targets else ""
            self.lines.append(f"{tab}{targets}{self.call(s)}{ended}{where}")
        elif isinstance(s, Store):
            self.lines.append(f"{tab}{self.store(s)}{where}")
        elif isinstance(s, Return):
            self.lines.append(f"{tab}return {self.atom(s.value)}{where}")
        elif isinstance(s, Throw):
            if s.kind not in _library.RAISED:
                raise self.fault(f"a program cannot raise {s.kind!r}")
            kind = self.put(s.kind, _library.RAISED[s.kind], s.kind)
            self.lines.append(f"{tab}raise {kind}({self.atom(s.message)}){where}")
        elif isinstance(s, Jump):
            self.lines.append(f"{tab}{s.kind}{where}")
        elif isinstance(s, When):
            self.lines.append(f"{tab}if {self.atom(s.test)}:{where}")
            self.block(s.then, depth + 1)
            if s.other:
                self.lines.append(f"{tab}else:")
                self.block(s.other, depth + 1)
        elif isinstance(s, Loop):
            head = "while True" if s.out is None else f"for {s.out[0]} in {self.atom(s.over)}"
            self.lines.append(f"{tab}{head}:{where}")
            self.block(s.body, depth + 1)
        elif isinstance(s, Within):
            if s.manager not in _library.MANAGERS:
                raise self.fault(f"a program cannot enter {s.manager!r}")
            manager = self.put(s.manager, _library.MANAGERS[s.manager], f"facula.{s.manager}")
            self.lines.append(f"{tab}with {manager}({self.arguments(s.args, {})}):{where}")
            self.block(s.body, depth + 1)

    def store(self, s: Store) -> str:
        *owners, leaf = s.path.parts
        owner = self.atom(Path(tuple(owners)))
        if leaf.isidentifier():
            return f"{owner}.{leaf} = {self.atom(s.value)}"
        put = self.put("setattr", setattr, "setattr")
        return f"{put}({owner}, {leaf!r}, {self.atom(s.value)})"

    def head(self) -> str:
        parameters, star = [], False
        for p in self.graph.parameters:
            if p.keyword_only and not star:
                star = True
                parameters.append("*")
            default = f"={self.atom(p.default[0])}" if p.default else ""
            parameters.append(p.name + default)
        name = re.sub(r"\W", "_", self.graph.name.rpartition(".")[2]) or "graph"
        self.name = name if name.isidentifier() else f"graph_{name}"
        return f"def {self.name}({', '.join(parameters)}):"


def _later(graph: Graph) -> Callable[..., Any]:
    """The function of a graph, compiled at its first call: graphs may call themselves."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return graph.callable()(*args, **kwargs)

    return call


def _last_uses(graph: Graph) -> dict[int, list[str]]:
    """By statement of the outer block, the variables that nothing behind it reads."""
    seen: set[str] = set()
    found: dict[int, list[str]] = {}
    for s in reversed(graph.body):
        used: set[str] = set()

        def note(statement: Statement, used: set[str] = used) -> None:
            for atom in atoms_of(statement):
                used.update(leaf.id for leaf in leaves(atom) if isinstance(leaf, Name))
            if isinstance(statement, Call):
                used.update(name for name, _ in statement.outs)
            for block in blocks_of(statement):
                for inner in block:
                    note(inner)

        note(s)
        if isinstance(s, Call):
            found[id(s)] = sorted(used - seen)
        seen |= used
    return found


def function_of(graph: Graph, fault: Callable[[str], Exception] = RuntimeError) -> Any:
    """The Python function of a graph; a method takes `self` first.

    Raises:
        what `fault` makes: it calls what there is not, or nests more than Python allows.
    """
    emitter = _Emitter(graph, fault, False)
    head = emitter.head()
    prelude = emitter.prelude()
    emitter.block(graph.body, 1)
    source = "\n".join([head, *prelude, *emitter.lines]) + "\n"
    file = f"<facula.jit.{next(_numbers)} {graph.name}>"
    try:
        code = compile(source, file, "exec", dont_inherit=True)
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        raise fault(f"graph {graph.name!r}: {getattr(error, 'msg', error)}") from None
    lines = [head, *prelude, *_shown(graph)]
    linecache.cache[file] = (len(source), None, [line + "\n" for line in lines], file)
    exec(code, emitter.space)
    return emitter.space[emitter.name]


def _shown(graph: Graph) -> list[str]:
    emitter = _Emitter(graph, RuntimeError, True)
    emitter.block(graph.body, 1)
    return emitter.lines


def code_text(graph: Graph) -> str:
    """The graph as the Python that it runs, with public names."""
    emitter = _Emitter(graph, RuntimeError, True)
    head = emitter.head()
    emitter.block(graph.body, 1)
    return "\n".join([head, *emitter.lines]) + "\n"


tools.function_of = function_of
