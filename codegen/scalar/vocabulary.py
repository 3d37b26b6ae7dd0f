"""What facula/math.h has of the vocabulary: each word with the classes of numbers that it takes.

The headers are read as text, as no compiler need be there when a schema is checked: definitions,
under `template <Float T>` and its like or with C++ types in their parameters, and the macros that
make several of them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..schema.model import Operator
from . import cpp
from .tree import from_formula

# In the repository, and beside the generator that an installed facula has.
_ROOT = Path(__file__).resolve().parents[2]
_FOLDERS = (_ROOT / "python" / "facula" / "include" / "facula", _ROOT / "include" / "facula")
_FOLDER = next((f for f in _FOLDERS if f.exists()), _FOLDERS[0])
HEADERS = tuple(
    f"math{part}.h"
    for part in ("", "_special", "_gamma", "_slopes", "_normal", "_bessel", "_polynomials")
)
# The concepts of math.h and the types of parameters, by the classes that they stand for.
_CLASSES = {
    "Int": {"bool", "int"},
    "Float": {"float"},
    "Real": {"bool", "int", "float"},
    "Complex": {"complex"},
    "typename": {"bool", "int", "float", "complex"},
    "float": {"float"},
    "double": {"float"},
}
_COMMENT = re.compile(r"//[^\n]*")
_DIRECTIVE = re.compile(r"#[ ]*(\w+)((?:[^\n]*\\\n)*[^\n]*)")
_MACRO = re.compile(r"\s*(\w+)\(([\w, ]*)\)(.*)", re.S)
_TOKEN = re.compile(r"\b(FACULA_\w+)\(([^()]*)\)")
_DEFINITION = re.compile(
    r"(?:template <(\w+) \w+>\s*)?(?:FACULA_MATH|FACULA_MATH_LARGE|inline) "
    r"(?:[\w:<>]+) (\w+)\((\w[\w:<>]*)"
)
_NAMESPACE = re.compile(r"namespace detail \{.*?\}  // namespace detail", re.S)


def _expanded(text: str, macros: Mapping[str, tuple[list[str], str]]) -> str:
    """Calls of macros that make functions, replaced by what they make."""

    def replaced(match: re.Match[str]) -> str:
        if match[1] not in macros:
            return match[0]
        names, body = macros[match[1]]
        given = dict(zip(names, (v.strip() for v in match[2].split(",")), strict=False))
        words = "|".join(given)
        body = re.sub(rf"(?:##)?\b({words})\b(?:##)?", lambda found: given[found[1]], body)
        return _expanded(body, macros)

    return _TOKEN.sub(replaced, text)


def _definitions(text: str) -> Iterator[tuple[str, set[str]]]:
    macros: dict[str, tuple[list[str], str]] = {}
    text = _COMMENT.sub("", _NAMESPACE.sub("", text))
    at = 0
    for match in (*_DIRECTIVE.finditer(text), None):
        piece = _expanded(text[at : match.start() if match else None], macros)
        for found in _DEFINITION.finditer(piece):
            yield found[2], _CLASSES.get(found[1] or found[3], set())
        if match is None:
            return
        at = match.end()
        macro = _MACRO.fullmatch(match[2].replace("\\\n", "\n"))
        if match[1] == "define" and macro:
            macros[macro[1]] = ([n.strip() for n in macro[2].split(",")], macro[3])
        elif match[1] == "undef":
            macros.pop(match[2].strip(), None)


@functools.cache
def classes() -> Mapping[str, frozenset[str]]:
    """Each function of the headers, and each sign that orders, with the classes it takes."""
    found = dict.fromkeys(cpp.ORDERS, frozenset(("bool", "int", "float")))
    for header in HEADERS:
        for name, some in _definitions((_FOLDER / header).read_text(encoding="utf-8")):
            found[name] = found.get(name, frozenset()) | some
    return found


def refused(op: Operator) -> Iterator[tuple[str, str]]:
    """(word, class) where a formula of an operator calls a word with what it does not take."""
    numbers = [a for a in op.signature.arguments if a.type.base != "str" and not a.type.is_list]
    types = {a.name: "bool" if a.name in op.masks else "T" for a in numbers}
    known = classes()
    for class_ in op.dtypes:
        called = set()
        for _, formula in op.scalar:
            called |= cpp.emit(from_formula(formula), class_, types).functions
        for word, of in sorted(called):
            if of not in known.get(word, {of}):
                yield word, of
