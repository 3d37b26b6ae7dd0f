"""Families: one record for operators that differ by a number or a word.

`family` has columns of words, an item a member: `{n: [1, 2, 3], dims: [L, "H, W", "D, H, W"]}`.
`{n}` and `{dims}` in any text of the record are the member's words. A key whose value is a mapping
by words of the first column has a value for each member; one that it leaves out lacks the key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from .errors import Errors, suggestion
from .source import Placed, Source, scalar_text

KEY = "family"
_COLUMN = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Member:
    """A record as if it had been written out, and the name of its family; "" of one without."""

    node: MappingNode
    family: str = ""


def members(source: Source, record: MappingNode, errors: Errors) -> Iterator[Member]:
    """The records that a record stands for."""
    stated = _stated(record)
    if stated is None:
        yield Member(record)
        return
    name = re.split(r"[(\s]", str(scalar_text(record.value[0][1])), maxsplit=1)[0]
    found = _columns(source, stated, name, errors)
    if not found:
        return
    reader = _Reader(source, name, found, errors)
    for i in range(len(next(iter(found.values())))):
        yield Member(reader.member(record, i), name)
    reader.unused(stated)


def _stated(record: MappingNode) -> Node | None:
    """What stands under `family`."""
    return next((value for key, value in record.value if scalar_text(key) == KEY), None)


def _columns(source: Source, node: Node, name: str, errors: Errors) -> dict[str, list[str]]:
    """The words of each column, of one length; nothing where they cannot be read."""
    found: dict[str, list[str]] = {}
    pairs = node.value if isinstance(node, MappingNode) else []
    for key, value in pairs:
        column = scalar_text(key) or ""
        items = value.value if isinstance(value, SequenceNode) else []
        words = [str(v.value) for v in items if isinstance(v, ScalarNode)]
        if not _COLUMN.fullmatch(column) or not words or len(words) < len(items):
            message = "a column of 'family' is a name with a list of words, as `n: [1, 2, 3]`"
            errors.add(source.place(key), name, message)
            return {}
        found[column] = words
    first = next(iter(found.values()), [])
    if not found or len(first) < 2 or len(set(first)) != len(first):
        message = (
            "'family' has columns, as {n: [1, 2, 3]}, the first of different words, two or more"
        )
        errors.add(source.place(node), name, message)
        return {}
    for column, words in found.items():
        if len(words) != len(first):
            message = f"'{column}' has {len(words)} words for {len(first)} members"
            errors.add(source.place(node), name, message)
            return {}
    return found


class _Reader:
    def __init__(
        self, source: Source, name: str, columns: dict[str, list[str]], errors: Errors
    ) -> None:
        self._source, self._name, self._errors = source, name, errors
        self._columns = columns
        self._words: Sequence[str] = next(iter(columns.values()))
        self._mark = re.compile(r"\{(" + "|".join(columns) + r")\}")
        self._said: set[str] = {next(iter(columns))}
        self._noted: set[str] = set()

    def member(self, record: MappingNode, i: int) -> MappingNode:
        pairs = []
        for key, value in record.value:
            if scalar_text(key) == KEY:
                continue
            kept = self._of_member(value, i)
            if kept is not None:
                pairs.append((key, self._with_words(kept, i)))
        return MappingNode(record.tag, pairs, record.start_mark, record.end_mark, record.flow_style)

    def _of_member(self, value: Node, i: int) -> Node | None:
        """The value of a key, of one by members this member's, None where that has none."""
        if not isinstance(value, MappingNode):
            return value
        keys = [scalar_text(key) for key, _ in value.value]
        if not any(key in self._words for key in keys):
            return value
        for key, _ in value.value:
            word = str(scalar_text(key))
            if word not in self._words and word not in self._noted:
                self._noted.add(word)
                hint = suggestion(word, self._words, "members are")
                message = f"no member '{word}' of the family{hint}"
                self._errors.add(self._source.place(key), self._name, message)
        return next((v for k, v in value.value if scalar_text(k) == self._words[i]), None)

    def _with_words(self, node: Node, i: int) -> Node:
        if isinstance(node, ScalarNode):
            return self._text(node, i)
        if isinstance(node, SequenceNode):
            items = [self._with_words(item, i) for item in node.value]
            return SequenceNode(node.tag, items, node.start_mark, node.end_mark, node.flow_style)
        assert isinstance(node, MappingNode)
        pairs = [(self._with_words(k, i), self._with_words(v, i)) for k, v in node.value]
        return MappingNode(node.tag, pairs, node.start_mark, node.end_mark, node.flow_style)

    def _text(self, node: ScalarNode, i: int) -> ScalarNode:
        """A text with the member's words, which knows where each piece of it stands."""
        if not self._mark.search(node.value):
            return node
        before = self._source.runs(node)
        runs: list[tuple[int, int, int]] = []
        text = ""
        at = 0
        # Pieces of the file and names of columns by turns.
        for turn, piece in enumerate(self._mark.split(node.value)):
            length = len(piece) + 2 * (turn % 2)
            places = _within(before, at, at + (1 if turn % 2 else length))
            runs += [(len(text) + offset - at, line, column) for offset, line, column in places]
            if turn % 2:
                self._said.add(piece)
            text += self._columns[piece][i] if turn % 2 else piece
            at += length
        return Placed(node, text, tuple(runs))

    def unused(self, stated: Node) -> None:
        for column in self._columns:
            if column not in self._said:
                message = f"nothing says '{{{column}}}', a column of 'family'"
                self._errors.add(self._source.place(stated), self._name, message)


def _within(
    runs: Sequence[tuple[int, int, int]], start: int, end: int
) -> Iterator[tuple[int, int, int]]:
    """The stretches of a text from `start` to `end`, the first one cut to begin there."""
    ends = [*(run[0] for run in runs[1:]), None]
    for (offset, line, column), stop in zip(runs, ends, strict=True):
        if start < end and offset < end and (stop is None or stop > start):
            cut = max(start - offset, 0)
            yield offset + cut, line, column + cut
