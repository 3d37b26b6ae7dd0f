"""Errors of the schema: place, operator, what is wrong and what would be right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .model import Location


@dataclass(frozen=True)
class SchemaError:
    """One mistake in the schema file."""

    location: Location
    subject: str  # the operator or record, "" when there is none yet
    message: str

    def __str__(self) -> str:
        subject = f"{self.subject}: " if self.subject else ""
        return f"{self.location}: {subject}{self.message}"


class SchemaErrors(Exception):
    """Every mistake that was found in one run, in file order."""

    def __init__(self, errors: Iterable[SchemaError]) -> None:
        unique = dict.fromkeys(errors)
        self.errors = sorted(unique, key=lambda e: (e.location.line, e.location.column))
        super().__init__("\n".join(str(error) for error in self.errors))


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` when a known word is close to `word`, else the empty string."""
    candidates = sorted(set(known))
    folded = {candidate.lower(): candidate for candidate in reversed(candidates)}
    close = difflib.get_close_matches(word.lower(), list(folded), n=1, cutoff=0.6)
    return f"; did you mean '{folded[close[0]]}'?" if close else ""


def suggestion(word: str, known: Sequence[str], what: str = "known are") -> str:
    """What would be right in the place of `word`: the nearest known word, or all of them."""
    return nearest(word, known) or (f"; {what} {', '.join(known)}" if known else "")


class Errors(list[SchemaError]):
    """A list that mistakes are added to while reading goes on."""

    def add(self, location: Location, subject: str, message: str) -> None:
        self.append(SchemaError(location, subject, message))

    def raise_if_any(self) -> None:
        if self:
            raise SchemaErrors(self)
