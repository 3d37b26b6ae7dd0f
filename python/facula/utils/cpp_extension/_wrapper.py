"""The module around C++ functions: which there are, what their parameters are called, its text."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
_BEFORE_NAME = re.compile(r"(?:[\w>\]&*]|\.\.\.)\s*$")
_OPEN, _CLOSE = "([{<", ")]}>"
_MARK = re.compile(r"\b(?:FACULA_EXTENSION|PYBIND11_MODULE)\s*\(\s*(\w+)|\bPyInit_(\w+)\s*\(")


class Parameter(NamedTuple):
    type: str
    name: str
    default: str  # "" for none


def modules(text: str) -> list[str]:
    """The names of the modules that a source defines."""
    return [m[1] or m[2] for m in _MARK.finditer(blanked(text))]


def blanked(text: str) -> str:
    """C++ with comments and literals as blanks, every character where it was."""
    return _NOISE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def parameters(text: str, name: str) -> list[Parameter] | None:
    """Those of the function `name` as the text defines it; None where it does not.

    Parameters that are not written `type name` or `type name = value` come without a name.
    """
    plain = blanked(text)
    for match in re.finditer(rf"\b{re.escape(name)}\s*\(", plain):
        end = _closing(plain, match.end() - 1)
        before = plain[: match.start()].rstrip()
        if end < 0 or not _BEFORE_NAME.search(before) or re.search(r"\b(return|throw)$", before):
            continue
        if re.match(r"\s*(?:noexcept\s*)?(?:->[^{;]+)?\{", plain[end + 1 :]):
            spans = _split(plain, match.end(), end)
            return [_parameter(plain[a:b], text[a:b]) for a, b in spans]
    return None


def _closing(text: str, start: int) -> int:
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    return -1


def _split(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Where the parts between commas lie that are in no bracket."""
    cuts, depth = [start - 1], 0
    for i in range(start, end):
        depth += (text[i] in _OPEN) - (text[i] in _CLOSE and text[i - 1] != "-")
        if text[i] == "," and depth == 0:
            cuts.append(i)
    cuts.append(end)
    spans = [(a + 1, b) for a, b in itertools.pairwise(cuts)]
    return [] if len(spans) == 1 and not text[slice(*spans[0])].strip() else spans


def _parameter(plain: str, written: str) -> Parameter:
    head, equals, _ = plain.partition("=")
    default = written[len(head) + 1 :].strip() if equals else ""
    match = re.fullmatch(r"\s*(.*[\s&*>])\s*([A-Za-z_]\w*)\s*", head, re.S)
    if match is None:
        return Parameter(head.strip(), "", default)
    return Parameter(" ".join(match[1].split()), match[2], default)


def bindings(functions: Mapping[str, str], found: Mapping[str, Sequence[Parameter]]) -> list[str]:
    """A line for each function: its name, its text and the names of its parameters."""
    lines = []
    for name, doc in functions.items():
        listed = found[name]
        arguments = []
        if all(p.name for p in listed):
            for p in listed:
                value = f"::std::remove_cvref_t<{p.type}>"
                value += p.default if p.default.startswith("{") else f"({p.default})"
                default = f" = {value}" if p.default else ""
                arguments.append(f'pybind11::arg("{p.name}"){default}')
        parts = [
            f'"{name.rpartition("::")[2]}"',
            f"&{name}",
            *([_quoted(doc)] if doc else []),
            *arguments,
        ]
        lines.append(f"  m.def({', '.join(parts)});")
    return lines


def _quoted(text: str) -> str:
    mark = "facula"
    while f"){mark}" in text:
        mark += "_"
    return f'R"{mark}({text}){mark}"'


def module_text(name: str, lines: Sequence[str]) -> str:
    return "\n".join([f"FACULA_EXTENSION({name}, m) {{", *lines, "}", ""])
