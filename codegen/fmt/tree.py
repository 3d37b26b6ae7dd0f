"""A YAML text as a tree of texts and groups, each with the comments that belong to it."""

from __future__ import annotations

import bisect
import copy
from dataclasses import dataclass, field

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ..schema.errors import SchemaError, SchemaErrors
from ..schema.source import Source
from .comments import Comment, Offsets, find


@dataclass
class Text:
    """A scalar: a text, or what YAML takes for a number, a truth value or nothing."""

    value: str
    tag: str


@dataclass
class Item:
    """An item of a list or, with a key, of a mapping.

    `before` are the comments above it, in lines of their own, where "" is an empty line; `beside`
    are those at the end of its lines.
    """

    value: Text | Group
    key: Text | None = None
    before: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)


@dataclass
class Group:
    """A mapping or a list; `end` are the comments after its last item."""

    mapping: bool
    tag: str
    items: list[Item] = field(default_factory=list)
    end: list[str] = field(default_factory=list)

    def commented(self) -> bool:
        """Whether any comment stands within it."""
        return bool(self.end) or any(
            item.before or item.beside or (isinstance(item.value, Group) and item.value.commented())
            for item in self.items
        )


def read(source: Source) -> Group:
    """The file, a list of records."""
    root = source.compose()
    if not isinstance(root, SequenceNode | None):
        message = "the file is a list of records: - op: ..., - math: ..."
        raise SchemaErrors([SchemaError(source.top, "", message)])
    reader = _Reader(source)
    group = reader.group(root, None) if root is not None else Group(mapping=False, tag="")
    for comment in find(source.text, root):
        lines = reader.place(comment, group)
        lines += [comment.text, ""] if comment.above_empty_line else [comment.text]
    return group


_NOTHING = Text("", "")


@dataclass
class _Block:
    """Where a group stands, and the item whose value it is."""

    group: Group
    column: int
    flow_end: int  # offset of the end of `[...]` and `{...}`, else 0
    item: Item | None
    outer: _Block | None


class _Reader:
    """Makes the tree and keeps, of every item in the order of the text, where it begins."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._offsets = Offsets(source.text)
        self._begins: list[int] = []
        self._items: list[tuple[Item, _Block]] = []
        self._made: dict[int, Text | Group] = {}

    def group(
        self, node: MappingNode | SequenceNode, item: Item | None, outer: _Block | None = None
    ) -> Group:
        mapping = isinstance(node, MappingNode)
        group = Group(mapping, str(node.tag))
        end = self._offsets.of(node.end_mark) if node.flow_style else 0
        block = _Block(group, node.start_mark.column, end, item, outer)
        for pair in node.value:
            key, value = pair if mapping else (None, pair)
            if not isinstance(key, ScalarNode | None):
                self._refuse(key, "a key must be plain text")
            alias = id(value) in self._made
            made = Item(_NOTHING, None if key is None else Text(str(key.value), str(key.tag)))
            group.items.append(made)
            if key is not None or not alias:
                self._items.append((made, block))
                self._begins.append(self._offsets.of((key or value).start_mark))
            if alias:  # written out, as if it stood there itself
                made.value = copy.deepcopy(self._made[id(value)])
            elif isinstance(value, ScalarNode):
                made.value = Text(str(value.value), str(value.tag))
            else:
                made.value = self.group(value, made, block)
            self._made[id(value)] = made.value
        return group

    def _refuse(self, node: Node, message: str) -> None:
        raise SchemaErrors([SchemaError(self._source.place(node), "", message)])

    def place(self, comment: Comment, root: Group) -> list[str]:
        """The list that a comment goes to."""
        following = bisect.bisect(self._begins, comment.offset)
        if following == 0:
            return self._items[0][0].before if self._items else root.end
        item, block = self._items[following - 1]
        if not comment.alone:
            while comment.offset >= block.flow_end > 0 and block.item and block.outer:
                item, block = block.item, block.outer
            return item.beside
        inner: _Block | None = block
        if isinstance(item.value, Group) and item.value.items:
            return self._items[following][0].before
        known = self._items[following : following + 1]
        around = list(_around(known[0][1])) if known else []
        while inner is not None and all(inner is not other for other in around):
            inside_flow = comment.offset < inner.flow_end
            if inside_flow or (not inner.flow_end and comment.column >= inner.column):
                return inner.group.end
            inner = inner.outer
        return known[0][0].before if known else root.end


def _around(block: _Block | None) -> list[_Block]:
    found = []
    while block is not None:
        found.append(block)
        block = block.outer
    return found
