"""The parser of the form that `_text` prints."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import facula
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
    Parameter,
    Path,
    Return,
    Span,
    Star,
    Statement,
    Store,
    Throw,
    When,
    Within,
    leaves,
)
from facula.jit._text import NAMED, is_name

__all__ = ["MOST_NESTED", "Reader", "parse_graph"]

#: How deep blocks, lists and types nest.
MOST_NESTED = 60
# Words that are something else before a parenthesis, or before a name.
_MADE = frozenset("slice dtype device layout memory_format complex_number constant path".split())
_KINDS = frozenset("py method call module get".split())

_TOKEN = re.compile(
    r"""[ \t]*(?:
    (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<number>-?(?:inf\b|nan\b|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+))
  | (?P<name>[A-Za-z_]\w*(?:\.\w+)*)
  | (?P<sign>->|\.\.\.|[][(){}=,:*|])
  | (?P<comment>\#[^\n]*)
  | (?P<line>\n\s*)
    )""",
    re.VERBOSE | re.ASCII,
)


class Reader:
    """Reads tokens of a text, and atoms and graphs of tokens.

    Args:
        text: the text.
        fault: makes the error for what is wrong, of a sentence.
        constants: the tensors that atoms name.
    """

    def __init__(
        self,
        text: str,
        fault: Callable[[str], Exception] = ValueError,
        constants: dict[str, Any] | None = None,
    ) -> None:
        self._fault = fault
        self.constants = constants or {}
        self.tokens: list[tuple[str, str, int]] = []
        self.at = 0
        place, line, end = 0, 1, len(text.rstrip())
        while place < end:
            match = _TOKEN.match(text, place)
            if match is None:
                self.line_of_end = line
                raise fault(f"line {line} has {text[place : place + 20]!r}, which is no token")
            place = match.end()
            kind = match.lastgroup or ""
            value = match[kind]
            if kind == "line":
                if self.tokens and self.tokens[-1][0] != "line":
                    self.tokens.append(("line", "\n", line))
                line += value.count("\n")
            else:
                self.tokens.append((kind, value, line))
        self.tokens += [("line", "\n", line), ("end", "the end", line)]

    def fault(self, what: str) -> Exception:
        """An error that names the line."""
        return self._fault(f"line {self.tokens[min(self.at, len(self.tokens) - 1)][2]}: {what}")

    @property
    def next(self) -> str:
        """The next token's text."""
        return self.tokens[self.at][1]

    @property
    def kind(self) -> str:
        """The next token's kind."""
        return self.tokens[self.at][0]

    def take(self, expected: str | None = None) -> str:
        """The next token, which is taken; of a text or a kind."""
        kind, value, _ = self.tokens[self.at]
        if expected is not None and value != expected and kind != expected:
            raise self.fault(f"expected {expected!r}, got {value!r}")
        if kind == "end":
            raise self.fault("the text ends early")
        self.at += 1
        return value

    def end_of_line(self) -> str:
        """Take the end of a line, and its comment."""
        comment = self.take()[1:].strip() if self.kind == "comment" else ""
        self.take("line")
        return comment

    def skip_lines(self) -> None:
        """Take empty lines and comments."""
        while self.kind in ("line", "comment"):
            self.at += 1

    def variable(self) -> str:
        name = self.take("name")
        if not is_name(name):
            raise self.fault(f"{name!r} cannot be the name of a variable")
        return name

    # ---- atoms

    def atom(self, depth: int = 0) -> Any:
        """The next atom."""
        if depth > MOST_NESTED:
            raise self.fault(f"lists are nested more than {MOST_NESTED} deep")
        kind, value, _ = self.tokens[self.at]
        if kind == "string":
            return self._string()
        if kind == "number":
            self.at += 1
            if len(value) > 400:
                raise self.fault("a number has more than 400 digits")
            whole = value.lstrip("-").isdigit()
            return int(value) if whole else float(value)
        if value == "...":
            self.at += 1
            return ...
        if value == "[":
            return Items("list", tuple(self._several("[", "]", depth)[0]))
        if value == "(":
            items, comma = self._several("(", ")", depth)
            if len(items) == 1 and not comma:
                raise self.fault("a tuple of one item is written (item,)")
            return Items("tuple", tuple(items))
        if value == "{":
            return self._mapping(depth)
        if kind == "name":
            return self._named(value, depth)
        raise self.fault(f"expected a value, got {value!r}")

    def _string(self) -> str:
        try:
            found = json.loads(self.take("string"))
        except ValueError as error:
            self.at -= 1
            raise self.fault(f"a string is malformed ({error})") from None
        return str(found)

    def _several(self, opening: str, closing: str, depth: int) -> tuple[list[Any], bool]:
        self.take(opening)
        items, comma = [], False
        while self.next != closing or self.kind == "string":
            items.append(self.atom(depth + 1))
            comma = self.next == ","
            if not comma:
                break
            self.take(",")
        self.take(closing)
        return items, comma

    def _mapping(self, depth: int) -> Mapping:
        self.take("{")
        pairs = []
        while self.next != "}" or self.kind == "string":
            key = self.atom(depth + 1)
            self.take(":")
            pairs.append((key, self.atom(depth + 1)))
            if self.next != ",":
                break
            self.take(",")
        self.take("}")
        return Mapping(tuple(pairs))

    def _named(self, word: str, depth: int) -> Any:
        constants = {"None": None, "True": True, "False": False}
        made = word in _MADE and self.tokens[self.at + 1][1] == "("
        if word in constants:
            self.at += 1
            return constants[word]
        if word in ("inf", "nan"):
            self.at += 1
            return float(word)
        if made and word == "slice":
            self.at += 1
            items, _ = self._several("(", ")", depth)
            if len(items) != 3:
                raise self.fault(f"slice has {len(items)} parts, expected 3")
            return Span(*items)
        if made and word == "path":
            self.at += 1
            items, _ = self._several("(", ")", depth)
            if not all(type(i) is str for i in items):
                raise self.fault("a path has names")
            return self._checked(Path(tuple(items)))
        if made and word == "complex_number":
            self.at += 1
            items, _ = self._several("(", ")", depth)
            if len(items) != 2 or any(type(i) not in (int, float) for i in items):
                raise self.fault("complex_number has two numbers")
            return complex(*items)
        if made and word in NAMED:
            self.at += 1
            self.take("(")
            found = getattr(facula, self.take("name"), None)
            if type(found) is not getattr(facula, word):
                raise self.fault(f"there is no such {word}")
            self.take(")")
            return found
        if made and word == "constant":
            self.at += 1
            self.take("(")
            key = self.take("name")
            if key not in self.constants:
                raise self.fault(f"there is no constant {key!r}")
            self.take(")")
            return Constant(key, self.constants[key])
        if made and word == "device":
            self.at += 1
            self.take("(")
            text = self._string()
            self.take(")")
            try:
                return facula.device(text)
            except (RuntimeError, ValueError) as error:
                raise self.fault(f"device {text!r}: {error}") from None
        if word == "self" or word.startswith("self."):
            self.at += 1
            return self.path(word)
        return Name(self.variable())

    def path(self, word: str) -> Path:
        return self._checked(Path(tuple(word.split(".")[1:])))

    def _checked(self, path: Path) -> Path:
        for part in path.parts:
            if part.startswith("__") or not part:
                raise self.fault(f"{part!r} is no name of an attribute of a program's modules")
        return path

    # ---- graphs

    def type(self, depth: int = 0) -> str:
        """A type as text, `Dict[str, Tensor]` say."""
        if depth > MOST_NESTED:
            raise self.fault(f"types are nested more than {MOST_NESTED} deep")
        text = self.take("name")
        if self.next == "[":
            self.take("[")
            inner = []
            while self.next != "]":
                inner.append(self.type(depth + 1))
                if self.next != ",":
                    break
                self.take(",")
            self.take("]")
            text += f"[{', '.join(inner)}]"
        return text

    def typed(self) -> tuple[str, str]:
        name = self.variable()
        if self.next != ":":
            return name, ""
        self.take(":")
        return name, self.type()

    def graph(self) -> Graph:
        """The next graph."""
        self.take("graph")
        name = self.take("name")
        self.take("(")
        parameters: list[Parameter] = []
        star = False
        while self.next != ")":
            if self.next == "*":
                self.take("*")
                star = True
            elif self.next == "self" and not parameters:
                self.take("self")
                parameters.append(Parameter("self"))
            else:
                given, kind = self.typed()
                if any(p.name == given for p in parameters):
                    raise self.fault(f"the parameter {given!r} occurs twice")
                default: tuple[Any, ...] = ()
                if self.next == "=":
                    self.take("=")
                    default = (self.atom(),)
                    self._check_literal(default[0])
                elif not star and any(p.default for p in parameters):
                    raise self.fault(f"the parameter {given!r} needs a default")
                parameters.append(Parameter(given, kind, default, star))
            if self.next != ",":
                break
            self.take(",")
        self.take(")")
        result = ""
        if self.next == "->":
            self.take("->")
            result = self.type()
        body = self.block(0, False)
        return Graph(name, parameters, result, body)

    def _check_literal(self, atom: Any) -> None:
        if any(isinstance(leaf, (Name, Path)) for leaf in leaves(atom)):
            raise self.fault("a default is a literal")

    def block(self, depth: int, loops: bool) -> Block:
        """The statements between braces."""
        if depth > MOST_NESTED:
            raise self.fault(f"blocks are nested more than {MOST_NESTED} deep")
        self.take("{")
        self.end_of_line()
        found: Block = []
        while True:
            self.skip_lines()
            if self.next == "}" and self.kind == "sign":
                self.take("}")
                return found
            found.append(self.statement(depth, loops))

    def statement(self, depth: int, loops: bool) -> Statement:
        word = self.next if self.kind == "name" else ""
        made: Statement
        if word == "if":
            return self._when(depth, loops)
        after = self.tokens[self.at + 1] if word else ("", "", 0)
        if word in ("for", "with") or (word == "loop" and after[1] == "{"):
            return self._nest(word, depth, loops)
        if word == "return":
            self.take()
            made = Return(self.atom())
        elif word == "raise":
            self.take()
            kind = self.take("name")
            self.take("(")
            made = Throw(kind, self.atom())
            self.take(")")
        elif word in ("break", "continue"):
            self.take()
            if not loops:
                raise self.fault(f"{word!r} stands outside of a loop")
            made = Jump(word)
        elif word == "set" and after[0] == "name":
            self.take()
            path = self.atom()
            if not isinstance(path, Path) or not path.parts:
                raise self.fault("what is set is an attribute of self")
            self.take("=")
            made = Store(path, self.atom())
        else:
            made = self._call()
        made.where = self.end_of_line()
        return made

    def _block_and_where(self, made: Any, depth: int, loops: bool) -> Block:
        # The comment of the head stands behind the brace.
        following = self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else ("", "", 0)
        if following[0] == "comment":
            made.where = following[1][1:].strip()
        return self.block(depth + 1, loops)

    def _when(self, depth: int, loops: bool) -> When:
        self.take("if")
        made = When(self.atom(), [], [])
        made.then = self._block_and_where(made, depth, loops)
        if self.next == "else":
            self.take("else")
            made.other = self.block(depth + 1, loops)
        self.end_of_line()
        return made

    def _nest(self, word: str, depth: int, loops: bool) -> Statement:
        self.take()
        if word == "with":
            manager = self.take("name")
            args, _ = self._several("(", ")", 0)
            within = Within(manager, args, [])
            within.body = self._block_and_where(within, depth, loops)
            self.end_of_line()
            return within
        out, over = None, None
        if word == "for":
            out = self.typed()
            self.take("in")
            over = self.atom()
        made = Loop(out, over, [])
        made.body = self._block_and_where(made, depth, True)
        self.end_of_line()
        return made

    def _call(self) -> Call:
        outs: list[tuple[str, str]] = []
        if self._has_targets():
            while self.next != "=":
                outs.append(self.typed())
                if self.next != ",":
                    break
                self.take(",")
            self.take("=")
        kind = self.next if self.kind == "name" else ""
        after = self.tokens[self.at + 1]
        if kind in _KINDS and after[0] == "name":
            self.take()
        elif self.kind == "name" and after[1] == "(" and kind not in _MADE:
            kind = "op"
        else:
            if not outs:
                raise self.fault(f"expected a statement, got {self.next!r}")
            return Call(outs, "copy", "", [self.atom()])
        op = self.take("name")
        self.take("(")
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        while self.next != ")" or self.kind == "string":
            if self.kind == "name" and self.tokens[self.at + 1][1] == "=":
                key = self.take()
                if not key.isidentifier() or key in kwargs:
                    raise self.fault(f"the argument {key!r} is no name, or is given twice")
                self.take("=")
                kwargs[key] = self.atom()
            elif self.next == "*":
                self.take("*")
                args.append(Star(self.atom()))
            elif kwargs:
                raise self.fault("an argument without a name follows one with a name")
            else:
                args.append(self.atom())
            if self.next != ",":
                break
            self.take(",")
        self.take(")")
        return Call(outs, kind, op, args, kwargs)

    def _has_targets(self) -> bool:
        """Does an `=` of its own stand on this line, before any parenthesis?"""
        at = self.at
        while self.tokens[at][0] not in ("line", "comment", "end"):
            if self.tokens[at][1] == "(" and self.tokens[at][0] == "sign":
                return False
            if self.tokens[at][1] == "=" and self.tokens[at][0] == "sign":
                return True
            at += 1
        return False


def parse_graph(text: str, constants: dict[str, Any] | None = None) -> Graph:
    """The graph of a text; `constants` are the tensors that it names.

    Raises:
        ValueError: it is malformed; the line is named.
    """
    reader = Reader(text, constants=constants)
    reader.skip_lines()
    graph = reader.graph()
    reader.skip_lines()
    reader.take("end") if reader.kind != "end" else None
    return graph
