"""Mutants of C++: of kernels, shape rules and functions over operators.

Files are read as tokens in the form that clang-format gives them: a sign between blanks is binary.
`a < b` becomes `(mutant(17) ? a <= b : a < b)`. What does not compile then is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TOKEN = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/|\#(?:[^\n]*\\\n)*[^\n]*|\s+)
    |(?P<text>R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])+')
    |(?P<number>(?:0x[\da-fA-F]+|\d+\.?\d*(?:e[-+]?\d+)?)[a-zA-Z]*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<sign><<=|>>=|->|::|\+\+|--|<=|>=|==|!=|&&|\|\||<<|>>|[-+*/%&|^]=|\.\.\.|.)""",
    re.X | re.S,
)
_PRECEDENCE = {
    **dict.fromkeys("* / %".split(), 5), **dict.fromkeys("+ -".split(), 6),
    **dict.fromkeys("<< >>".split(), 7), **dict.fromkeys("< <= > >=".split(), 9),
    **dict.fromkeys("== !=".split(), 10), "&": 11, "^": 12, "|": 13, "&&": 14, "||": 15,
}  # fmt: skip
_SIGNS = {
    "+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "<": "<=", "<=": "<", ">": ">=", ">=": ">",
    "==": "!=", "!=": "==", "&&": "||", "||": "&&", "&": "|", "|": "&", "<<": ">>", ">>": "<<",
}  # fmt: skip
_STOPS = frozenset(", ; { } ? : = += -= *= /= |= &= return case".split())
_OPEN, _CLOSE = "([{", ")]}"
# Lines whose numbers are no values of a run, or only share out work.
_FIXED = re.compile(
    r"\b(constexpr|static_assert|template|case|alignas|using|enum|operator|raise|check\w*|require"
    r"|parallel\w*|grain|reserve|kGrain|threads?|unlikely|likely|assume|extern|_MM_SHUFFLE)\b|\bk[A-Z]"
)

# Calls whose arguments share out work among threads, or count it until a signal is looked for:
# what is computed does not depend on them (tests of places and threads compare bit for bit).
_SHARES = frozenset("grain_for count_step steps_of".split())
_KEYWORDS = frozenset("return else case throw delete new".split())


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Site:
    """A stretch of a file, the text before and behind a call of `mutant`, and what it shows."""

    start: int
    end: int
    changed: str
    what: str
    line: int
    shown: str


def tokens(text: str) -> list[Token]:
    found = []
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "skip":
            found.append(Token(match.lastgroup or "", match[0], match.start(), match.end()))
    return found


def _binary(text: str, t: Token) -> bool:
    return t.text in _PRECEDENCE and text[t.start - 1] == " " and text[t.end : t.end + 1] in " \n"


def _left(text: str, all_: list[Token], at: int, level: int) -> int:
    """The first token of a binary sign's left side."""
    depth, i = 0, at - 1
    while i >= 0:
        t = all_[i]
        if t.text in _CLOSE:
            depth += 1
        elif t.text in _OPEN:
            if depth == 0:
                break
            depth -= 1
        elif depth == 0 and (
            t.text in _STOPS or (_binary(text, t) and _PRECEDENCE[t.text] > level)
        ):
            break
        i -= 1
    return i + 1


def _right(text: str, all_: list[Token], at: int, level: int) -> int:
    """The last token of a binary sign's right side; `level` 0 is a unary sign's operand."""
    depth, i = 0, at + 1
    while i < len(all_):
        t = all_[i]
        if t.text in _OPEN:
            depth += 1
        elif t.text in _CLOSE:
            if depth == 0:
                break
            depth -= 1
        elif depth == 0 and (
            t.text in _STOPS or (_binary(text, t) and _PRECEDENCE[t.text] >= level)
        ):
            break
        i += 1
    return i - 1


def _uncompiled(lines: list[str]) -> set[int]:
    """Lines for instruction sets above the baseline, which is all that a quick build compiles."""
    found, within, depth = set(), 0, 0
    for number, line in enumerate(lines):
        if line.startswith("#if"):
            depth += 1
            if not within and re.search(r"(ifdef |defined\()__(AVX|AMX|F16C|FMA)", line):
                within = depth
        elif line.startswith(("#else", "#elif")) and within in (0, depth):
            within = depth if re.search(r"defined\(__(AVX|AMX|F16C|FMA)", line) else 0
        elif line.startswith("#endif"):
            within = 0 if within == depth else within
            depth -= 1
        if within:
            found.add(number)
    return found


def _closing(all_: list[Token], at: int) -> int:
    """The token that closes what the one at `at` opens."""
    depth = 0
    for i in range(at, len(all_)):
        depth += (all_[i].text in _OPEN) - (all_[i].text in _CLOSE)
        if depth == 0:
            return i
    return len(all_) - 1


def _prefetches(all_: list[Token], at: int) -> int | None:
    """The last token of a statement that does nothing but fetch ahead, else None."""
    if all_[at].text in ("if", "for"):
        return _prefetches(all_, _closing(all_, at + 1) + 1) if all_[at + 1].text == "(" else None
    if all_[at].text == "{":
        end, at = _closing(all_, at), at + 1
        while at < end:
            last = _prefetches(all_, at)
            if last is None:
                return None
            at = last + 1
        return end
    return _closing(all_, at + 1) + 1 if all_[at].text == "__builtin_prefetch" else None


def _declares(all_: list[Token], at: int) -> bool:
    """Whether a name is declared, first behind its type or behind another name and a comma."""
    before = all_[at - 1]
    if before.text == ">":
        return all_[at - 2].end == before.start
    if before.text in ("*", "&"):
        return before.end == all_[at].start and _declares(all_, at - 1)
    if before.text != ",":
        return before.kind == "name" and before.text not in _KEYWORDS
    depth, i = 0, at - 1
    while i > 0 and (depth or all_[i].text not in (";", "{", "}")):
        depth += (all_[i].text in _CLOSE) - (all_[i].text in _OPEN)
        if depth < 0:
            return False  # arguments of a call
        i -= 1
    type_, first = all_[i + 1], all_[i + 2]
    return type_.kind == first.kind == "name" and type_.text not in _KEYWORDS


def _makes_room(all_: list[Token], at: int) -> bool:
    """Whether a number is a size of an array that is declared: more room is room too."""
    while at > 1 and all_[at - 1].text == "[":
        if all_[at - 2].text != "]":
            return all_[at - 2].kind == "name" and _declares(all_, at - 2)
        at -= 3  # of several
    return False


def _buffers(all_: list[Token], at: int) -> set[int]:
    """Numbers that make a `TypedBuffer<T> name(...)` larger when they are larger."""
    if all_[at + 1].text != "<":
        return set()
    opens = next((i for i in range(at, len(all_)) if all_[i].text in ("(", ";")), at)
    inside = range(opens + 1, _closing(all_, opens))
    if any(all_[i].text in "-/%?" for i in inside) or all_[opens].text == ";":
        return set()
    return {i for i in inside if all_[i].kind == "number"}


def _shows_nothing(all_: list[Token]) -> set[int]:
    """Tokens that no result depends on: texts, fetches ahead, shares of work, sizes of arrays."""
    out: set[int] = set()
    for i, t in enumerate(all_[:-1]):
        calls = all_[i + 1].text == "("
        if t.text == "FACULA_CHECK" and calls:
            end, at = _closing(all_, i + 1), i + 2
            while at < end and all_[at].text != ",":
                at = _closing(all_, at) + 1 if all_[at].text in _OPEN else at + 1
            out.update(range(at, end))
        elif re.match(r"(fail|raise)", t.text) and calls:
            out.update(range(i, _closing(all_, i + 1)))
        elif t.text in ("if", "for", "__builtin_prefetch"):
            out.update(range(i, _prefetches(all_, i) or i))
        elif t.text in _SHARES and calls:
            out.update(range(i, _closing(all_, i + 1)))
        elif t.text == "amx" and all_[i + 1].text == "::":  # where the machine has it
            out.update(range(i, _closing(all_, i + 3)))
        elif t.text == "TypedBuffer":
            out |= _buffers(all_, i)
        elif t.kind == "number" and _makes_room(all_, i):
            out.add(i)
    return out


def sites(text: str) -> Iterator[Site]:
    all_ = tokens(text)
    silent = _shows_nothing(all_)
    lines = text.split("\n")
    uncompiled = _uncompiled(lines)
    for i, t in enumerate(all_):
        number = text.count("\n", 0, t.start)
        if i in silent or number in uncompiled or lines[number][:1] not in (" ", "\t"):
            continue
        if _FIXED.search(lines[number]):
            continue
        line = number + 1
        if t.text in _SIGNS and _binary(text, t):
            level = _PRECEDENCE[t.text]
            first, last = _left(text, all_, i, level), _right(text, all_, i, level)
            if not first < i < last + 1:
                continue
            start, end = all_[first].start, all_[last].end
            whole = text[start:end]
            if any(c in whole for c in '{;"') or len(whole) > 200 or "mutant" in whole:
                continue
            left, right = text[start : t.start].rstrip(), text[t.end : end].lstrip()
            other = f"{left} {_SIGNS[t.text]} {right}"
            if t.text == "*" and level == 5:
                other = f"({left}) + ({right})"
            what = "bound" if level in (9, 10) else "operator"
            yield Site(start, end, other, what, line, f"`{whole}` as `{other}`")
        elif t.kind == "number" and re.fullmatch(r"\d+(\.\d+)?", t.text):
            before, after = all_[i - 1].text, all_[i + 1].text if i + 1 < len(all_) else ""
            if before in ("<", "::") and after in (">", ",", "]"):
                continue
            value = float(t.text) * 1.25 or 1.25 if "." in t.text else int(t.text) + 1
            what = "index" if before == "[" else "constant"
            shown = f"`{lines[number].strip()[:90]}`: {t.text} as {value}"
            yield Site(t.start, t.end, str(value), what, line, shown)
        elif t.text in "-!" and not _binary(text, t) and all_[i - 1].kind != "number":
            if text[t.end : t.end + 1] == " " or all_[i - 1].text in _CLOSE:
                continue
            last = _right(text, all_, i, 0)
            whole = text[t.start : all_[last].end]
            if any(c in whole for c in '{;"') or last <= i or all_[i + 1].kind == "number":
                continue
            other = text[t.end : all_[last].end]
            if t.text == "!":
                other = f"bool({other})"
            yield Site(t.start, all_[last].end, other, "sign", line, f"`{whole}` as `{other}`")


def with_mutants(text: str, chosen: dict[int, Site]) -> str:
    """The file's text with some of its sites; a nested one chooses inside of the outer original."""
    opened: dict[int, list[str]] = {}
    closed: dict[int, list[str]] = {}
    for number, site in sorted(chosen.items(), key=lambda kv: kv[1].start - kv[1].end):
        opened.setdefault(site.start, []).append(
            f"(::facula::mutant({number}) ? ({site.changed}) : ("
        )
        closed.setdefault(site.end, []).insert(0, "))")
    out, at = ['#include "runtime/core/mutant.h"\n'], 0
    first_line_end = text.index("\n") + 1 if text.startswith("// build:") else 0
    out, at = [text[:first_line_end], *out], first_line_end
    for place in sorted({*opened, *closed}):
        out += [text[at:place], *closed.get(place, ()), *opened.get(place, ())]
        at = place
    return "".join([*out, text[at:]])


# What the machine decides: its instructions, the libraries that are found; and tables of pointers.
_ELSEWHERE = ("amx", "blas", "openblas", "core_operators", "device")


def files(root: Path) -> dict[str, tuple[str, str]]:
    """Sources that mutants may be in, with their kind and family."""
    found = {}
    for path in sorted((root / "aten").rglob("*.cpp")):
        name = path.relative_to(root).as_posix()
        if "/cuda/" in name or path.stem in _ELSEWHERE:
            continue
        kind = "shape" if "/shape/" in name else "kernel" if "/cpu/" in name else "composite"
        if path.parent.name == "aten":
            kind = "kernel"
        found[name] = (kind, path.parent.name if kind == "kernel" else path.stem)
    return found
