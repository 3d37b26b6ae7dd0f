"""How long the entries of ops.yaml are, and what makes the longest so long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from yaml.nodes import MappingNode, SequenceNode

from .schema.families import KEY
from .schema.source import Source, scalar_text

LONG = 15


@dataclass(frozen=True)
class Entry:
    """A record with its lines, those of each key among them."""

    kind: str
    name: str
    line: int
    keys: dict[str, int]
    members: int  # operators that it stands for

    @property
    def lines(self) -> int:
        return sum(self.keys.values())

    def why(self) -> str:
        """The keys that take the most lines, until the others would fit."""
        told = []
        rest = self.lines
        for key, lines in sorted(self.keys.items(), key=lambda item: -item[1]):
            if rest <= LONG or lines < 2:
                break
            told.append(f"{key} {lines}")
            rest -= lines
        return ", ".join(told) or "many keys"


def entries(path: Path) -> Iterator[Entry]:
    source = Source(path)
    root = source.compose()
    for record in root.value if isinstance(root, SequenceNode) else ():
        if not isinstance(record, MappingNode) or not record.value:
            continue
        starts = [key.start_mark.line for key, _ in record.value]
        last = _end(source, record)
        ends = [*starts[1:], last + 1]
        names = [scalar_text(key) or "" for key, _ in record.value]
        keys = {n: e - s for n, s, e in zip(names, starts, ends, strict=True)}
        kind = names[0]
        text = scalar_text(record.value[0][1]) or ""
        columns = next((v for k, v in record.value if scalar_text(k) == KEY), None)
        words = columns.value[0][1].value if isinstance(columns, MappingNode) else [0]
        yield Entry(kind, text.partition("(")[0], starts[0] + 1, keys, len(words))


def _end(source: Source, record: MappingNode) -> int:
    """The last line with text of a record; blocks end where the next begins."""
    lines = source.text.split("\n")
    last = min(record.end_mark.line, len(lines) - 1)
    if record.end_mark.column == 0:
        last -= 1
    while not lines[last].strip() or lines[last].startswith("#"):
        last -= 1
    return last


def report(path: Path) -> Iterator[str]:
    found = list(entries(path))
    for kind, title in (("op", "operators"), ("define", "definitions")):
        some = [e for e in found if e.kind == kind]
        if not some:
            continue
        total, members = sum(e.lines for e in some), sum(e.members for e in some)
        long = [e for e in some if e.lines > LONG]
        yield (
            f"{title}: {len(some)} entries for {members}, {total} lines, "
            f"{total / len(some):.1f} an entry, {total / members:.1f} one of them; "
            f"{len(long)} entries over {LONG} lines"
        )
    for e in sorted(found, key=lambda e: -e.lines):
        if e.lines > LONG:
            yield f"{e.lines:5} {path.name}:{e.line} {e.name}: {e.why()}"
