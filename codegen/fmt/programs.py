"""Programs of several lines: steps of four spaces, long lines broken within brackets."""

from __future__ import annotations

import ast
import io
import itertools
import re
import tokenize

from .texts import IN_STRING, best_break, depths_of

_STEP = 4
_STRING = re.compile(
    r"""(?P<prefix>f?)(?P<quote>["'])(?P<body>(?:\\.|(?!(?P=quote))[^\\])*)(?P=quote)"""
)


def formatted(text: str, width: int) -> str:
    """A program in lines of at most `width`; what is no program, or cannot be broken, as it is."""
    for change in (_indented, lambda program: _wrapped(program, width)):
        changed = change(text)
        text = changed if _same(text, changed) else text
    return text


def _indented(text: str) -> str:
    """The program with each block in steps of four spaces."""
    lines = text.split("\n")
    shifts: dict[int, int] = {}  # by the number of a logical line's first line
    level, fresh = 0, True
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.INDENT:
                level += 1
            elif token.type == tokenize.DEDENT:
                level -= 1
            elif token.type == tokenize.NEWLINE:
                fresh = True
            elif fresh and token.type not in (tokenize.NL, tokenize.COMMENT):
                shifts[token.start[0] - 1] = _STEP * level - token.start[1]
                fresh = False
    except (tokenize.TokenError, IndentationError):
        return text
    # A comment goes with the line that follows, the rest of a statement with its first line.
    comments = [i for i, line in enumerate(lines) if line.lstrip().startswith("#")]
    for i in reversed(comments):
        shifts[i] = next((shifts[j] for j in sorted(shifts) if j > i), 0)
    shift = 0
    for i, line in enumerate(lines):
        shift = shifts.get(i, shift)
        body = line.lstrip(" ")
        lines[i] = body and " " * (len(line) - len(body) + shift) + body
    return "\n".join(lines)


def _wrapped(text: str, width: int) -> str:
    lines: list[str] = []
    for line in text.split("\n"):
        body = line.lstrip(" ")
        lead = " " * (len(line) - len(body))
        more = lead + " " * (_STEP * 2 if body.endswith(":") else _STEP)
        while len(lead + body) > width and (parts := _parts(body, width - len(lead))):
            lines.append(lead + parts[0])
            body, lead = parts[1], more
        lines.append(lead + body)
    return "\n".join(lines)


def _parts(text: str, width: int) -> tuple[str, str] | None:
    """A line in two: at a space within brackets, else within a string there."""
    depths = depths_of(text)
    # What is left of a statement closes the brackets that its first part opened.
    outside = min(itertools.chain(depths, [0]))
    spaces = [
        i
        for i, char in enumerate(text)
        if char == " " and outside < depths[i] < outside + IN_STRING
    ]
    at = best_break(text, depths, spaces, 0, width)
    return _string_parts(text, width) if at is None else (text[:at], text[at + 1 :])


def _string_parts(text: str, width: int) -> tuple[str, str] | None:
    """A line in two within the string that is too long for it: Python joins neighbours."""
    for match in _STRING.finditer(text):
        prefix, quote = match["prefix"], match["quote"]
        braces = itertools.accumulate((c == "{") - (c == "}") for c in match["body"])
        begin = match.start("body")
        spaces = [
            begin + i
            for i, (char, level) in enumerate(zip(match["body"], braces, strict=True))
            if char == " " and (level == 0 or not prefix) and begin + i + 2 <= width
        ]
        if match.end() >= width and spaces:
            return text[: spaces[-1] + 1] + quote, prefix + quote + text[spaces[-1] + 1 :]
    return None


def _same(one: str, other: str) -> bool:
    trees = []
    for text in (one, other):
        body = "\n".join(f" {line}" for line in text.split("\n"))  # `return` is of functions
        try:
            trees.append(ast.dump(ast.parse(f"def f():\n{body}")))
        except SyntaxError:
            return False
    return trees[0] == trees[1]
