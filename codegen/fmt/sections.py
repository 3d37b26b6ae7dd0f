"""The sections of ops.yaml, `# ---- name ----`, and the table of contents made of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..schema.errors import SchemaError
from ..schema.model import Location
from .tree import Group, Item

CONTENTS = (
    "# Contents, which `python -m codegen fmt` writes; a section is found by `---- its name`:"
)
LINE_OF_CONTENTS = "#   "

_HEADING = re.compile(r"# ---- (.+?) ----")


@dataclass
class Section:
    """A heading, the comments below it, each a list of lines, and the records."""

    name: str
    notes: list[list[str]] = field(default_factory=list)
    records: list[Item] = field(default_factory=list)


@dataclass
class Book:
    """The file: comments at its head and end, and sections; records above the first have none."""

    head: list[list[str]]
    sections: list[Section]
    end: list[list[str]]

    def contents(self) -> list[str]:
        names = [section.name for section in self.sections if section.name]
        return [CONTENTS, *(LINE_OF_CONTENTS + name for name in names)] if names else []


def book(root: Group) -> Book:
    """The records in their sections; comments above the first record are the head of the file."""
    found = Book([], [Section("")], [])
    for record in root.items:
        paragraphs = list(_paragraphs(record.before))
        own = bool(record.before) and record.before[-1] != ""
        last = paragraphs.pop() if own and not _HEADING.fullmatch(paragraphs[-1][0]) else []
        above = _divide(found, paragraphs)
        record.before = [line for lines in above for line in [*lines, ""]] + last
        found.sections[-1].records.append(record)
    found.end = _divide(found, list(_paragraphs(root.end)))
    if not found.sections[0].records:
        found.sections = found.sections[1:]
    return found


def _paragraphs(lines: list[str]) -> Iterator[list[str]]:
    """Comments between empty lines; a heading begins one, too."""
    paragraph: list[str] = []
    for line in lines:
        if paragraph and (not line or _HEADING.fullmatch(line)):
            yield paragraph
            paragraph = []
        if line:
            paragraph.append(line)
    if paragraph:
        yield paragraph


def _divide(found: Book, paragraphs: list[list[str]]) -> list[list[str]]:
    """Begin the sections that headings name; returns what stands among records."""
    among: list[list[str]] = []
    for lines in paragraphs:
        section = found.sections[-1]
        heading = _HEADING.fullmatch(lines[0])
        if lines[0] == CONTENTS:
            continue
        if heading:
            found.sections.append(Section(heading[1], [lines[1:]] if lines[1:] else []))
        elif section.records:
            among.append(lines)
        elif section.name:
            section.notes.append(lines)
        else:
            found.head.append(lines)
    return among


def mistakes(path: Path) -> Iterator[SchemaError]:
    """Sections of one name, and a table of contents that is not that of the sections."""
    lines = path.read_text(encoding="utf-8").splitlines()
    first: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        heading = _HEADING.fullmatch(line)
        if heading and heading[1] in first:
            message = (
                f"the section '{heading[1]}' is that of line {first[heading[1]]}; a section is one"
            )
            yield SchemaError(Location(path.name, number, 1), "", message)
        elif heading:
            first[heading[1]] = number
    at = lines.index(CONTENTS) + 1 if CONTENTS in lines else 1
    stated = []
    for line in lines[at:] if CONTENTS in lines else []:
        if not line.startswith(LINE_OF_CONTENTS):
            break
        stated.append(line.removeprefix(LINE_OF_CONTENTS))
    if stated != list(first):
        message = "the table of contents names other sections; `python -m codegen fmt` writes it"
        yield SchemaError(Location(path.name, at, 1), "", message)
