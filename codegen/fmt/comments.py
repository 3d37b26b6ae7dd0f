"""The comments of a YAML text, which a parser throws away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from yaml import Mark
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

_MARK = re.compile(r"(?:^|(?<=[ \t]))#[^\n]*", re.M)
_EMPTY = re.compile(r"\n[ \t]*\n")


@dataclass(frozen=True)
class Comment:
    """One comment, and where its `#` stands."""

    offset: int
    column: int
    text: str
    alone: bool  # nothing stands before it in its line
    above_empty_line: bool


class Offsets:
    """Places of characters by line and column, as marks of YAML have them."""

    def __init__(self, text: str) -> None:
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def of(self, mark: Mark) -> int:
        return self._starts[mark.line] + mark.column


def find(text: str, root: Node | None) -> list[Comment]:
    """The comments of a text, in order; what looks like one within a scalar is none."""
    offsets = Offsets(text)
    spans = sorted(_spans(text, root, offsets)) if root is not None else []
    found: list[Comment] = []
    at = 0
    while match := _MARK.search(text, at):
        begin = match.start()
        while spans and spans[0][1] <= begin:
            spans.pop(0)
        if spans and spans[0][0] <= begin:
            at = begin + 1
            continue
        at = match.end()
        start = text.rfind("\n", 0, begin) + 1
        alone = not text[start:begin].strip()
        empty = alone and _EMPTY.match(text, at) is not None
        found.append(Comment(begin, begin - start, match[0].rstrip(), alone, empty))
    return found


def _spans(text: str, node: Node, offsets: Offsets) -> Iterator[tuple[int, int]]:
    """Where scalars stand; those of `|` from the next line on, as a comment may follow the `|`."""
    if isinstance(node, ScalarNode):
        begin, end = offsets.of(node.start_mark), offsets.of(node.end_mark)
        if node.style in ("|", ">"):
            begin = text.find("\n", begin, end) + 1 or end
        if begin < end:
            yield begin, end
    elif isinstance(node, MappingNode):
        for key, value in node.value:
            yield from _spans(text, key, offsets)
            yield from _spans(text, value, offsets)
    elif isinstance(node, SequenceNode):
        for item in node.value:
            yield from _spans(text, item, offsets)
