"""The pieces of a record: texts, words, flags, formulas and signatures under its keys.

A piece that cannot be read is noted as a mistake with its place, and reading goes on without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from yaml.nodes import MappingNode, Node, ScalarNode

from . import expr, signature
from .errors import Errors, suggestion
from .model import Formula, Location, Place, Signature
from .source import Record, Source
from .words import KEYS


class Fields:
    """What stands under the keys of one record, each key taken once."""

    def __init__(self, source: Source, node: MappingNode, kind: str, errors: Errors) -> None:
        head = node.value[0][1]
        text = head.value if isinstance(head, ScalarNode) else ""
        subject = re.split(r"[(\s]", text.strip(), maxsplit=1)[0]
        self.record = Record(source, node, subject, errors)
        self.location = self.record.location
        # Where things stand, for mistakes that only later stages can see.
        self.places: dict[str, Place] = {k: Place(at) for k, at in self.record.keys.items()}
        self._source = source
        for key in self.record.left():
            if key not in KEYS[kind]:
                self.record.take(key)
                hint = suggestion(key, KEYS[kind])
                self.error(self.record.keys[key], f"unknown key '{key}'{hint}")

    def error(self, where: Node | Location, message: str) -> None:
        self.record.error(where, message)

    def place(self, node: Node) -> Location:
        return self._source.place(node)

    def note(self, key: str, node: Node) -> None:
        """Keep where a text stands."""
        runs = self._source.runs(node) if isinstance(node, ScalarNode) else ()
        self.places[key] = Place(self.place(node), runs)

    def take(self, key: str) -> Node | None:
        return self.record.take(key)

    def has(self, *keys: str) -> bool:
        """Whether one of the keys was given."""
        return not set(keys).isdisjoint(self.record.keys)

    # ---- texts and words ----

    def text(self, key: str) -> ScalarNode | None:
        node = self.take(key)
        return None if node is None else self.record.text(node, f"'{key}'")

    def word(self, key: str, known: tuple[str, ...] = ()) -> str | None:
        """The text of a key; where words are known, one of them."""
        text = self.text(key)
        if text is None:
            return None
        if known and text.value not in known:
            hint = suggestion(text.value, known)
            self.error(text, f"unknown word '{text.value}' for '{key}'{hint}")
            return None
        self.note(key, text)
        return str(text.value)

    def words(
        self, key: str, known: tuple[str, ...] = (), default: tuple[str, ...] = ()
    ) -> tuple[str, ...]:
        """A list of different words."""
        node = self.take(key)
        if node is None:
            return default
        found: list[str] = []
        for item in self.record.text_list(node, f"'{key}'"):
            if known and item.value not in known:
                hint = suggestion(item.value, known)
                self.error(item, f"unknown word '{item.value}' in '{key}'{hint}")
            elif item.value in found:
                self.error(item, f"'{item.value}' is given twice in '{key}'")
            else:
                self.note(f"{key}.{len(found)}", item)
                found.append(item.value)
        return tuple(found)

    def flag(self, key: str, default: bool) -> bool:
        return {"true": True, "false": False, None: default}[self.word(key, ("true", "false"))]

    def entries(self, node: Node | None, what: str) -> Iterator[tuple[str, Location, Node]]:
        """The entries of a mapping, with the places of their keys; none of an absent node."""
        inner = None if node is None else self.record.mapping(node, what)
        if inner is not None:
            for name, value in inner.items():
                yield name, inner.keys[name], value

    # ---- parsed texts ----

    def signature(self, key: str) -> Signature | None:
        text = self.text(key)
        if text is None:
            return None
        self.note("signature", text)
        try:
            return signature.parse(text.value, rule=key == "rule")
        except signature.SignatureError as error:
            self.error(self.places["signature"].at(error.column), error.message)
            return None

    def formula(
        self, node: ScalarNode, *, program: bool = False, skip: str = "", text: bool = False
    ) -> Formula | None:
        """Parse what a node says, without a leading `skip` such as `scalar:`.

        It is an expression; with `program` perhaps statements, with `text` words with `{values}`.
        """
        start = len(skip)
        while skip and node.value[start : start + 1] == " ":
            start += 1
        written = node.value[start:].rstrip()
        runs = tuple(
            (max(o - start, 0), ln, c + max(start - o, 0)) for o, ln, c in self._from(node, start)
        )
        location = Location(self._source.file, *runs[0][1:]) if runs else self.place(node)
        if not written:
            self.error(node, "an empty formula")
            return None
        try:
            if text:
                return expr.parse_text(written, location, runs)
            return expr.parse(written, location, runs, program=program)
        except expr.FormulaError as error:
            self.error(Place(location, runs).at(error.offset), error.message)
            return None

    def formulas(self, key: str) -> tuple[Formula, ...]:
        node = self.take(key)
        if node is None:
            return ()
        found = [self.formula(item) for item in self.record.text_list(node, f"'{key}'")]
        return tuple(f for f in found if f is not None)

    def _from(self, node: ScalarNode, start: int) -> tuple[tuple[int, int, int], ...]:
        runs = self._source.runs(node)
        first = max((i for i, run in enumerate(runs) if run[0] <= start), default=0)
        return runs[first:]
