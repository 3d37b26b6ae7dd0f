"""The lines of records: keys in their order, a list in one line if it fits, else an item a line."""

from __future__ import annotations

from collections.abc import Iterator

from ..schema.words import KEYS
from . import texts
from .sections import Book, Section
from .texts import STR, WIDTH
from .tree import Group, Item, Text

_STEP = 2
_HANGING = " " * 6  # of the further lines of a signature
_PROSE = ("doc", "error", "reason", "none")


def lines_of(book: Book) -> list[str]:
    """The whole file."""
    paragraphs = [*book.head, *filter(None, [book.contents()])]
    for section in book.sections:
        paragraphs += _section(section)
    paragraphs += book.end
    lines: list[str] = []
    for paragraph in paragraphs:
        lines += ["", *paragraph] if lines else paragraph
    return lines


def _section(section: Section) -> Iterator[list[str]]:
    """Paragraphs: the heading with the first note, further notes, records or runs of short ones."""
    notes = list(section.notes)
    if section.name:
        yield [f"# ---- {section.name} ----", *(notes.pop(0) if notes else [])]
    yield from notes
    run: list[str] = []
    kind = ""
    for record in section.records:
        before, now = record.before, _kind(record)
        if run and (before or now != kind or now in ("op", "define")):
            yield run
            run = []
        run, kind = [*run, *before, *_record(record)], now
    if run:
        yield run


def _kind(record: Item) -> str:
    group = record.value
    named = isinstance(group, Group) and group.items and group.items[0].key
    return named.value if named and named.value in KEYS else "op"


def _record(record: Item) -> list[str]:
    if not isinstance(record.value, Group) or not record.value.items:
        return _item(record, 0, "-", "")
    order = KEYS.get(_kind(record), ())
    group = record.value
    group.items.sort(key=lambda item: _rank(item, order))
    return _dashed(group, 0, record.beside, hanging=True)


def _rank(item: Item, order: tuple[str, ...]) -> int:
    """Unknown keys come last; `check` speaks of them."""
    key = item.key.value if item.key else ""
    return order.index(key) if key in order else len(order)


def _dashed(group: Group, indent: int, beside: list[str], hanging: bool = False) -> list[str]:
    """A group as an item of a list: its first line has the dash."""
    pad = " " * indent
    lines = _block(group, indent + _STEP, hanging)
    above = [pad + comment for comment in beside]
    while lines[0].lstrip().startswith("#"):
        above.append(pad + lines.pop(0).lstrip())
    return [*above, f"{pad}- {lines[0].lstrip()}", *lines[1:]]


def _block(group: Group, indent: int, hanging: bool = False) -> list[str]:
    """The items of a group, each from a line of its own on."""
    pad = " " * indent
    lines: list[str] = []
    for number, item in enumerate(group.items):
        if item.key is None:
            head, key = "-", ""
        else:
            key = item.key.value
            head = f"{texts.one_line(key, item.key.tag)}:"
        lines += [pad + line for line in item.before if line]
        lines += _item(item, indent, head, key, hanging and number == 0)
    return lines + [pad + line for line in group.end if line]


def _item(item: Item, indent: int, head: str, key: str, hanging: bool = False) -> list[str]:
    """One item, without the comments above it."""
    pad = " " * indent
    value = item.value
    if isinstance(value, Text):
        lines = _text(value, indent, head, key, hanging)
    else:
        flow = "" if value.commented() else flow_text(value)
        lines = [f"{pad}{head} {flow}"]
        if not flow or len(lines[0]) > WIDTH:
            if item.key is None:
                return _dashed(value, indent, item.beside)
            lines = [pad + head, *_block(value, indent + _STEP)]
    if not item.beside:
        return lines
    with_comment = f"{lines[0]}  {item.beside[-1]}"
    fits = len(with_comment) <= WIDTH and not (hanging and len(lines) > 1)
    above = [*item.beside[:-1]] if fits else item.beside
    return [*(pad + line for line in above), with_comment if fits else lines[0], *lines[1:]]


def _text(text: Text, indent: int, head: str, key: str, hanging: bool) -> list[str]:
    pad = " " * indent
    lead = " " * (indent + _STEP)
    value = text.value
    if value and text.tag == STR and texts.in_block(value):
        if "\n" in value or key == "example":
            return [f"{pad}{head} |", *(lead + line if line else "" for line in value.split("\n"))]
        long = len(f"{pad}{head} {texts.one_line(value)}") > WIDTH
        if long and hanging and texts.is_plain(value, STR, False):
            # The name of an operator stays in the line of `op:`, where one looks for it.
            room = WIDTH - len(_HANGING)
            first, *more = texts.wrap("_" * len(head) + value, room)
            return [f"{pad}{head} {first[len(head) :]}", *(_HANGING + line for line in more)]
        if long:
            prose = key in _PROSE or value.startswith("none: ")
            wrapped = texts.wrap(value, WIDTH - len(lead), prose=prose)
            if len(wrapped) > 1 or len(lead + value) <= WIDTH:
                return [f"{pad}{head} >-", *(lead + line for line in wrapped)]
    return [f"{pad}{head} {texts.one_line(value, text.tag)}".rstrip()]


def flow_text(group: Group) -> str:
    """A group in one line, or "" for one that holds groups or lines."""
    values = [item.value for item in group.items]
    if not all(isinstance(value, Text) and "\n" not in value.value for value in values):
        return ""
    plain = [v for v in values if isinstance(v, Text)]
    # Texts of one group are quoted alike; words need no quotes.
    bare = (texts.is_plain(v.value, v.tag, True) for v in plain)
    quotes = not all(bare) or (not group.mapping and any(texts.is_sign(v.value) for v in plain))
    written = [
        texts.one_line(v.value, v.tag, flow=True, quotes=quotes and not texts.is_word(v.value))
        for v in plain
    ]
    if not group.mapping:
        return f"[{', '.join(written)}]"
    keys = [texts.one_line(i.key.value, i.key.tag, flow=True) for i in group.items if i.key]
    return "{" + ", ".join(f"{k}: {v}" for k, v in zip(keys, written, strict=True)) + "}"
