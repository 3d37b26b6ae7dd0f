"""Brings ops.yaml to its one form, and says what is left to do by hand."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..schema.errors import SchemaError, SchemaErrors
from ..schema.model import Location
from ..schema.source import Source
from . import layout, programs, sections, tree
from .sections import CONTENTS, LINE_OF_CONTENTS
from .texts import STR, WIDTH
from .tree import Group, Item, Text


def formatted(path: Path) -> str:
    """The text of a file in its one form; raises SchemaErrors where it cannot have it."""
    root = tree.read(Source(path))
    comments = Counter(_outside_contents(_comments(root)))
    for record in root.items:
        if isinstance(record.value, Group):
            _normalise(record.value)
    meaning = _meaning(root)
    text = "\n".join(layout.lines_of(sections.book(root))) + "\n"
    _verify(text, path.name, meaning, comments)
    return text


def long_lines(text: str, file: str) -> Iterator[SchemaError]:
    """Lines with no place to break them at."""
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > WIDTH:
            message = f"{len(line)} characters, and at most {WIDTH} are allowed: break it by hand"
            yield SchemaError(Location(file, number, WIDTH + 1), "", message)


def _normalise(record: Group) -> None:
    """What a record says, in the one way to say it."""
    said = {item.key.value: item.value for item in record.items if item.key}
    implied: dict[str, str | list[Item] | None] = {
        "kind": "structured" if {"dispatch", "shape"} <= set(said) else None,
        "variants": [] if _plain(said.get("internal")) == "true" else None,
    }
    record.items = [
        item
        for item in record.items
        if item.before
        or item.beside
        or item.key is None
        or item.key.value not in implied
        or _plain(item.value) != implied[item.key.value]
    ]
    for item in list(record.items):
        key, value = item.key, item.value
        _chomp(item)
        if key is not None and key.value == "composite":
            of_members = value.items if isinstance(value, Group) else []
            room = WIDTH - 4 - 2 * bool(of_members)
            for text in (value, *(inner.value for inner in of_members)):
                if isinstance(text, Text) and text.tag == STR and "\n" in text.value:
                    text.value = programs.formatted(text.value, room)
        elif key is not None and key.value == "doc" and isinstance(value, Text):
            value.value, example = _split(value.value)
            if example:
                record.items.append(Item(Text(example, STR), Text("example", STR)))


def _plain(value: Group | Text | None) -> str | list[Item] | None:
    """A text, or the items of a list."""
    if isinstance(value, Group):
        return value.items
    return None if value is None else value.value


def _chomp(item: Item) -> None:
    """Line ends at the end of a text mean nothing to any reader of the file."""
    if isinstance(item.value, Text):
        item.value.value = item.value.value.rstrip("\n")
    else:
        for inner in item.value.items:
            _chomp(inner)


def _split(doc: str) -> tuple[str, str]:
    """The sentences of a doc, and the example that may follow: `>>> CODE -> OUTPUT` in one line.

    Line ends within a paragraph of sentences are as good as spaces.
    """
    doc = doc.strip()
    sentences, mark, example = doc.partition(">>>")
    if mark and "\n" not in doc:
        code, arrow, output = example.rpartition(" -> ")
        example = f"{code}\n{output}" if arrow else example
    paragraphs = [" ".join(p.split("\n")) for p in sentences.strip().split("\n\n")]
    return "\n\n".join(paragraphs), f"{mark}{example}".strip()


# ---- that nothing is lost ----


def _meaning(item: Group | Text) -> Any:
    """What a reader of the file gets, the keys of records in any order."""
    if isinstance(item, Text):
        return item.tag, item.value
    if item.mapping:
        pairs = [
            (i.key and i.key.value, i.key and i.key.tag, _meaning(i.value)) for i in item.items
        ]
        return item.tag, sorted(pairs, key=repr)
    return item.tag, [_meaning(i.value) for i in item.items]


def _comments(group: Group) -> Iterator[str]:
    for item in group.items:
        yield from item.before
        yield from item.beside
        if isinstance(item.value, Group):
            yield from _comments(item.value)
    yield from group.end


def _outside_contents(comments: Iterator[str]) -> Iterator[str]:
    """Comments but the table of contents, which is made anew, and empty lines."""
    inside = False
    for line in comments:
        inside = line == CONTENTS or (inside and line.startswith(LINE_OF_CONTENTS))
        if line and not inside:
            yield line


def _verify(text: str, file: str, meaning: Any, comments: Counter[str]) -> None:
    """That the new text says what the old one said, comments included."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file
        path.write_text(text, encoding="utf-8")
        again = tree.read(Source(path))
    lost = list((comments - Counter(_outside_contents(_comments(again)))).elements())
    for record in again.items:
        if isinstance(record.value, Group):
            _chomp(record)
    if _meaning(again) != meaning or lost:
        message = f"fmt would change its meaning{f' and lose {lost[0]!r}' if lost else ''}"
        raise SchemaErrors([SchemaError(Location(file, 1, 1), "", message)])
