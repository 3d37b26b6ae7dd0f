"""`FileCheck`: does a text have certain parts, in order?"""

from __future__ import annotations

from typing import Any

__all__ = ["FileCheck"]


class FileCheck:
    """Parts that a text must have, one after the other, as LLVM's tool of that name looks for them.

    >>> from facula.testing import FileCheck
    >>> FileCheck().check("add").check_not("sub").check_next("mul").run("an add\\nthen mul")
    """

    def __init__(self) -> None:
        self._checks: list[tuple[str, str, int]] = []

    def check(self, text: str) -> FileCheck:
        """The text comes, after what came before."""
        return self._with("check", text)

    def check_not(self, text: str) -> FileCheck:
        """The text does not come before what comes next, nor before the end."""
        return self._with("not", text)

    def check_same(self, text: str) -> FileCheck:
        """The text comes on the same line."""
        return self._with("same", text)

    def check_next(self, text: str) -> FileCheck:
        """The text comes on the next line."""
        return self._with("next", text)

    def check_count(self, text: str, count: int, exactly: bool = False) -> FileCheck:
        """The text comes so often; with `exactly` no more often after that."""
        self._with("count", text, count)
        return self._with("not", text) if exactly else self

    def check_dag(self, text: str) -> FileCheck:
        """The text comes; several of these in a row may come in any order."""
        return self._with("dag", text)

    def check_regex(self, pattern: str) -> FileCheck:
        """What matches the regular expression comes, after what came before."""
        return self._with("regex", pattern)

    def _with(self, kind: str, text: str, count: int = 1) -> FileCheck:
        self._checks.append((kind, text, count))
        return self

    def __repr__(self) -> str:
        return f"FileCheck({self._checks})"

    def run(self, text: Any) -> None:
        """Look for the parts.

        Raises:
            RuntimeError: one is missing, or there that must not be; the message has the text.
        """
        if not self._checks:
            raise RuntimeError("FileCheck: there is nothing to look for; begin with check(text)")
        text = str(text)
        at, number = 0, 0
        unwanted: list[str] = []
        while number < len(self._checks):
            kind, wanted, count = self._checks[number]
            if kind == "not":
                unwanted.append(wanted)
                number += 1
                continue
            if kind == "dag":
                group = []
                while number < len(self._checks) and self._checks[number][0] == "dag":
                    group.append(self._checks[number][1])
                    number += 1
                places = [_find(text, g, at, len(text), "dag") for g in group]
                self._none(text, unwanted, at, min(p for p, _ in places))
                at = max(end for _, end in places)
            else:
                for _ in range(count):
                    start, end = self._place(text, kind, wanted, at)
                    self._none(text, unwanted, at, start)
                    unwanted, at = [], end
                number += 1
            unwanted = []
        self._none(text, unwanted, at, len(text))

    def _place(self, text: str, kind: str, wanted: str, at: int) -> tuple[int, int]:
        stop = len(text)
        line = text.find("\n", at)
        if kind == "same":
            stop = len(text) if line < 0 else line
        elif kind == "next":
            if line < 0:
                _fail(text, kind, wanted, "there is no next line")
            at = line + 1
            end = text.find("\n", at)
            stop = len(text) if end < 0 else end
        return _find(text, wanted, at, stop, kind)

    def _none(self, text: str, unwanted: list[str], start: int, stop: int) -> None:
        for word in unwanted:
            if word in text[start:stop]:
                _fail(text, "not", word, f"it is at place {text.index(word, start)}")


def _find(text: str, wanted: str, start: int, stop: int, kind: str) -> tuple[int, int]:
    if kind == "regex":
        import re

        found = re.compile(wanted).search(text, start, stop)
        if found is not None:
            return found.span()
    else:
        place = text.find(wanted, start, stop)
        if place >= 0:
            return place, place + len(wanted)
    return _fail(text, kind, wanted, f"it does not come after place {start}")


def _fail(text: str, kind: str, wanted: str, why: str) -> Any:
    raise RuntimeError(f"FileCheck: expected ({kind}) {wanted!r}: {why}, in:\n{text}")
