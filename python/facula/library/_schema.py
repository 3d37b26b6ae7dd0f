"""Signatures of operators as text: "space::name(Tensor x, int n=2, *, str? s=None) -> Tensor"."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Any

__all__ = ["AliasInfo", "Argument", "FunctionSchema", "parse_schema"]

#: The types that an argument may have, without what makes a list or an optional of them.
TYPES = frozenset(
    "Tensor int SymInt float SymFloat bool SymBool str Scalar number complex ScalarType dtype"
    " Device Layout MemoryFormat Generator Dimname Storage Stream Any t".split()
)
_TYPE = re.compile(
    r"\s*(?P<base>\w+)"
    r"(?:\(\s*(?P<before>\w+(?:\|\w+)*|)\s*(?P<write>!?)\s*(?:->\s*(?P<after>[\w*|]+)\s*)?\))?"
    r"(?P<suffix>(?:\[\d*\]|\?)*)"
)
_NAME = re.compile(r"\s*(?P<name>\w+)\s*")
_DTYPE = re.compile(r"[a-z]+\d*(_\w+)?")


@dataclass(frozen=True)
class AliasInfo:
    """Which memory an argument shares, and whether the operator writes to it."""

    before_set: frozenset[str]
    is_write: bool
    after_set: frozenset[str]


@dataclass(frozen=True)
class Argument:
    """An argument or a result of a signature.

    type: as it is written, "Tensor?" or "int[]" say, without marks of memory.
    N: how many items a list has that one number may stand for; None elsewhere.
    """

    name: str
    type: str
    default_value: Any = None
    has_default: bool = False
    kwarg_only: bool = False
    alias_info: AliasInfo | None = None
    N: int | None = None

    @property
    def real_type(self) -> str:
        """The type."""
        return self.type

    @property
    def is_write(self) -> bool:
        """Does the operator write to it?"""
        return self.alias_info is not None and self.alias_info.is_write

    @property
    def is_out(self) -> bool:
        """Is it a place for a result: written to, and given by name?"""
        return self.kwarg_only and self.is_write

    def has_default_value(self) -> bool:
        """May it be left out?"""
        return self.has_default

    @property
    def is_optional(self) -> bool:
        """May it be None?"""
        return self.type.endswith("?")

    @property
    def is_list(self) -> bool:
        """Is it a list?"""
        return self.type.rstrip("?").endswith("]")

    @property
    def base(self) -> str:
        """The type of one item."""
        return re.split(r"[\[?]", self.type, maxsplit=1)[0]

    def __str__(self) -> str:
        text = self.type
        if self.alias_info is not None:
            mark = "|".join(sorted(self.alias_info.before_set))
            mark += "!" if self.alias_info.is_write else ""
            if self.alias_info.after_set != self.alias_info.before_set:
                mark += " -> " + "|".join(sorted(self.alias_info.after_set))
            text = text.replace(self.base, f"{self.base}({mark})", 1)
        if self.N is not None:
            text = text.replace("[]", f"[{self.N}]", 1)
        text += f" {self.name}" if self.name else ""
        return text + (f"={_default_text(self.default_value)}" if self.has_default else "")


def _default_text(value: Any) -> str:
    if isinstance(value, str):
        return value if _DTYPE.fullmatch(value) and value in _dtypes() else f'"{value}"'
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_default_text(v) for v in value) + "]"
    return str(value)


def _dtypes() -> set[str]:
    import facula

    return {name for name in dir(facula) if isinstance(getattr(facula, name), facula.dtype)}


@dataclass(frozen=True)
class FunctionSchema:
    """A signature: the operator's name, its arguments and its results."""

    name: str
    overload_name: str
    arguments: list[Argument] = field(default_factory=list)
    returns: list[Argument] = field(default_factory=list)

    @property
    def is_mutable(self) -> bool:
        """Does it write to an argument?"""
        return any(a.is_write for a in self.arguments)

    def is_backward_compatible_with(self, other: FunctionSchema) -> bool:
        """Does every call that `other` takes mean the same here: are new arguments optional?"""
        count = len(other.arguments)
        same = [_kind(a) for a in self.arguments[:count]] == [_kind(a) for a in other.arguments]
        added = all(a.has_default for a in self.arguments[count:])
        results = [r.type for r in self.returns] == [r.type for r in other.returns]
        return self.name == other.name and same and added and results

    def __str__(self) -> str:
        parts = []
        star = False
        for argument in self.arguments:
            if argument.kwarg_only and not star:
                star = True
                parts.append("*")
            parts.append(str(argument))
        results = ", ".join(map(str, self.returns))
        if len(self.returns) != 1:
            results = f"({results})"
        dot = "." if self.overload_name else ""
        return f"{self.name}{dot}{self.overload_name}({', '.join(parts)}) -> {results}"

    __repr__ = __str__


def _kind(argument: Argument) -> tuple[Any, ...]:
    return argument.name, argument.type, argument.kwarg_only


class _Reader:
    """The text of a signature and how far it has been read."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def fail(self, expected: str) -> Any:
        rest = self.text[self.at :].strip()[:20] or "the end"
        raise RuntimeError(
            f"parse_schema(): expected {expected} but found {rest!r} at place {self.at} of "
            f"{self.text!r}; a signature is 'space::name(Tensor x, int n=2) -> Tensor'"
        )

    def take(self, mark: str) -> bool:
        """Is the next thing `mark`? Then go beyond it."""
        rest = self.text[self.at :]
        if not rest.lstrip().startswith(mark):
            return False
        self.at = len(self.text) - len(rest.lstrip()) + len(mark)
        return True

    def need(self, mark: str) -> None:
        if not self.take(mark):
            self.fail(repr(mark))

    def type(self) -> tuple[str, AliasInfo | None, int | None]:
        found = _TYPE.match(self.text, self.at)
        if found is None:
            self.fail("a type")
        assert found is not None
        base = found["base"]
        if base not in TYPES and not (len(base) == 1 and base.islower()):
            raise RuntimeError(
                f"parse_schema(): unknown type {base!r} in {self.text!r}; types are "
                f"{' '.join(sorted(TYPES - {'t'}))}, with '[]' for lists and '?' for optional ones"
            )
        self.at = found.end()
        alias = None
        if found["write"] is not None:
            before = frozenset((found["before"] or "*").split("|"))
            after = frozenset(found["after"].split("|")) if found["after"] else before
            alias = AliasInfo(before, found["write"] == "!", after)
        count = re.search(r"\[(\d+)\]", found["suffix"])
        suffix = re.sub(r"\[\d+\]", "[]", found["suffix"])
        return base + suffix, alias, int(count[1]) if count else None

    def default(self, type: str) -> Any:
        """What stands between "=" and the next comma of the signature."""
        depth, start = 0, self.at
        quote = ""
        while self.at < len(self.text):
            c = self.text[self.at]
            if quote:
                quote = "" if c == quote else quote
            elif c in "'\"":
                quote = c
            elif c in "[(":
                depth += 1
            elif c in ")]" and depth:
                depth -= 1
            elif c in ",)" and not depth:
                break
            self.at += 1
        return self._value(self.text[start : self.at].strip(), type)

    def _value(self, text: str, type: str) -> Any:
        if text in ("True", "true", "False", "false"):
            return text in ("True", "true")
        if text in ("inf", "-inf", "nan"):
            return float(text)
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            if not re.fullmatch(r"\w+", text):
                self.fail("a number, a word, a text or a list after '='")
            return text  # a dtype, a layout, "Mean"
        if type.rstrip("?") in ("float", "SymFloat") and isinstance(value, int):
            return float(value)
        return value


def _name_of(reader: _Reader) -> tuple[str, str]:
    found = re.match(r"\s*((?:\w+::)?\w+)(?:\.(\w+))?", reader.text)
    if found is None:
        reader.fail("the name of an operator")
    assert found is not None
    reader.at = found.end()
    return found[1], found[2] or ""


def _arguments(reader: _Reader) -> list[Argument]:
    found: list[Argument] = []
    by_name = False
    while not reader.take(")"):
        if found or by_name:
            reader.need(",")
        if not by_name and reader.take("*"):
            by_name = True
            if reader.take(")"):
                reader.fail("an argument after '*'")
            reader.need(",")
        type, alias, count = reader.type()
        name = _NAME.match(reader.text, reader.at)
        if name is None:
            reader.fail("the name of an argument")
        assert name is not None
        reader.at = name.end()
        given = reader.take("=")
        default = reader.default(type) if given else None
        found.append(Argument(name["name"], type, default, given, by_name, alias, count))
    return found


def _results(reader: _Reader) -> list[Argument]:
    if not reader.take("("):
        type, alias, count = reader.type()
        return [Argument("", type, alias_info=alias, N=count)]
    found: list[Argument] = []
    while not reader.take(")"):
        if found:
            reader.need(",")
        type, alias, count = reader.type()
        name = _NAME.match(reader.text, reader.at)
        if name is not None:
            reader.at = name.end()
        found.append(Argument(name["name"] if name else "", type, alias_info=alias, N=count))
    return found


def parse_schema(text: str) -> FunctionSchema:
    """The signature that a text is.

    Raises:
        RuntimeError: it is none; the message names the place.

    >>> from facula.library import parse_schema
    >>> schema = parse_schema("mine::scale(Tensor x, float by=2) -> Tensor")
    >>> schema.arguments[1].default_value
    2.0
    """
    reader = _Reader(text)
    name, overload = _name_of(reader)
    if not reader.take("("):
        reader.fail("'(' and arguments")
    arguments = _arguments(reader)
    reader.need("->")
    returns = _results(reader)
    if reader.text[reader.at :].strip():
        reader.fail("the end")
    names = [a.name for a in arguments]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise RuntimeError(f"parse_schema(): {text!r} has several arguments named {twice}")
    return FunctionSchema(name, overload, arguments, returns)
