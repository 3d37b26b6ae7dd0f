"""How a text is written: plain where YAML allows it, else in double quotes; long ones folded."""

from __future__ import annotations

import functools
import io
import itertools
import re

from yaml.emitter import Emitter
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

WIDTH = 110  # characters of a line, at most
STR = "tag:yaml.org,2002:str"
NULL = "tag:yaml.org,2002:null"

IN_STRING = 5  # brackets that being in a string is worth

_EMITTER = Emitter(io.StringIO(), allow_unicode=True)
_RESOLVER = Resolver()
_WORD = re.compile(r"[\w.+-]*\w")  # or a number
_SIGN = re.compile(r"[^\w(\[{].*|.*[^\w)\]}.]", re.S)
_ESCAPED = re.compile(r'[\\"]|[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]')
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_CLAUSE = re.compile(r"(?:if|else|and|or|for)\b")
_DANGLING = re.compile(r"\b(?:is|not|in|if|else|and|or|for|lambda)$")
_QUOTED = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`")
_TICKED = re.compile(r"`[^`]*`")


@functools.cache
def is_plain(text: str, tag: str, flow: bool) -> bool:
    """Whether a text may stand without quotes and is then read as what it is."""
    if tag != STR:
        return True  # a number or the like, which quotes would make a text
    if _RESOLVER.resolve(ScalarNode, text, (True, False)) != STR:  # type: ignore[no-untyped-call]
        return False
    analysis = _EMITTER.analyze_scalar(text)
    return bool(analysis.allow_flow_plain if flow else analysis.allow_block_plain)


def is_sign(text: str) -> bool:
    """Whether a text begins or ends with a sign, as Python's operators: in lists it has quotes."""
    return _SIGN.fullmatch(text) is not None


def is_word(text: str) -> bool:
    return _WORD.fullmatch(text) is not None


def one_line(text: str, tag: str = STR, *, flow: bool = False, quotes: bool = False) -> str:
    """A text in one line; with `quotes` in quotes though it may do without."""
    if tag != STR:
        return "null" if flow and not text else text
    if not quotes and is_plain(text, tag, flow):
        return text
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    if code > 0xFFFF:
        return char if char.isprintable() else f"\\U{code:08x}"
    return _ESCAPES.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def in_block(text: str) -> bool:
    """Whether a text may stand below `|` or `>-` as it is."""
    starts = text[:1] not in ("", " ", "\t", "\n")
    return starts and bool(_EMITTER.analyze_scalar(text).allow_block)


def wrap(text: str, width: int, *, prose: bool = False) -> list[str]:
    """Lines of at most `width` characters (if there is a space to break at) that fold into `text`.

    Formulas break where their brackets are shallow, after commas and before clauses, but seldom in
    strings; prose where the line is full, but seldom in `code`.
    """
    depths = depths_of(text, prose)
    lines, start = [], 0
    while len(text) - start > width:
        at = _break(text, depths, start, width, prose)
        if at is None:
            break
        lines.append(text[start:at])
        start = at + 1
    return [*lines, text[start:]]


def _break(text: str, depths: list[int], start: int, width: int, prose: bool) -> int | None:
    """Where the line that begins at `start` ends best; later than `width` if it has to."""
    spaces = [
        i
        for i in range(start + 1, len(text) - 1)
        if text[i] == " " and not text[i - 1].isspace() and not text[i + 1].isspace()
    ]
    return best_break(text, depths, spaces, start, width, prose) or next(iter(spaces), None)


def best_break(
    text: str, depths: list[int], spaces: list[int], start: int, width: int, prose: bool = False
) -> int | None:
    """The best of these spaces that leaves at most `width` characters before it."""
    near = [i for i in spaces if i - start <= width]

    def value(i: int) -> int:
        if prose:
            return i - 16 * depths[i]
        clause = text[i - 1] == "," or _CLAUSE.match(text, i + 1) is not None
        dangling = _DANGLING.search(text, max(start, i - 8), i) is not None
        return i + 12 * clause - 12 * dangling - 16 * depths[i]

    return max(near, key=value, default=None)


def depths_of(text: str, prose: bool = False) -> list[int]:
    """How many brackets each character is in; being in a string counts as many."""
    depths = [0] * len(text)
    for match in (_TICKED if prose else _QUOTED).finditer(text):
        for i in range(match.start() + 1, match.end()):
            depths[i] = IN_STRING
    if not prose:
        steps = [
            0 if inside else (char in "([{") - (char in ")]}")
            for char, inside in zip(text, depths, strict=True)
        ]
        open_ = itertools.accumulate(steps)
        depths = [inside + level for inside, level in zip(depths, open_, strict=True)]
    return depths
