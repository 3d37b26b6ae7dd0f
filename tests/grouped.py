"""Many small cases in one test: each made and named as a test of its own, at a tenth of the cost.

    @grouped(("op", "index", "dtype"), CASES)
    def test_value(op, index, dtype): ...

is one test for each first value, here each operator. A case that fails keeps no other from being
made, and the test tells of every one that failed; it skips if all its cases skip. `--case TEXT`
makes only those whose id holds TEXT.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import facula
import pytest

SHOWN = 20  # failures told with the lines that led there; of others, the first words
WANTED: list[str] = []  # what --case says


class Tally:
    """What came of the cases of one test."""

    def __init__(self) -> None:
        self.made = 0
        self.failures: list[tuple[str, str, str]] = []
        self.skipped: list[str] = []

    def case(self, name: str, check: Callable[[], object]) -> None:
        """Make one case, seeded: alone it does what it does among others."""
        if any(text not in name for text in WANTED):
            return
        facula.manual_seed(0)
        try:
            check()
        except pytest.skip.Exception as reason:
            self.skipped.append(str(reason))
            return
        except (Exception, pytest.fail.Exception) as error:
            first = f"{type(error).__name__}: {error}".splitlines()[0]
            # The frame of this function says nothing.
            behind = error.__traceback__ and error.__traceback__.tb_next
            text = "".join(traceback.format_exception(type(error), error, behind))
            self.failures.append((name, first, text))
        self.made += 1

    def finish(self) -> None:
        """Fail with all that failed; skip if no case said anything."""
        if self.failures:
            told = [f"{len(self.failures)} of {self.made} cases failed:"]
            told += [f"  {name}: {first}" for name, first, _ in self.failures]
            told += [f"\n---- {name}\n{text}" for name, _, text in self.failures[:SHOWN]]
            pytest.fail("\n".join(told), pytrace=False)
        if not self.made:
            pytest.skip("; ".join(dict.fromkeys(self.skipped)) or "no case of that name")


def _label(value: Any) -> str:
    return str(getattr(value, "name", value))


def grouped(names: Sequence[str], cases: Iterable[Any]) -> Callable[..., Any]:
    """In the place of `pytest.mark.parametrize`, of `pytest.param`s with an id, or plain tuples."""
    groups: dict[str, tuple[Any, dict[str, tuple[Any, ...]]]] = {}
    for case in cases:
        values = tuple(getattr(case, "values", case))
        name = getattr(case, "id", None) or "-".join(map(_label, values))
        _, members = groups.setdefault(_label(values[0]), (values[0], {}))
        if name in members:
            raise ValueError(f"two cases of the id {name}")
        members[name] = values

    def decorate(check: Callable[..., object]) -> Callable[..., None]:
        def test(
            cases: dict[str, tuple[Any, ...]], request: pytest.FixtureRequest, **rest: Any
        ) -> None:
            rest.pop(names[0])
            tally = Tally()
            for name, values in cases.items():
                given = dict(zip(names, values, strict=True))
                tally.case(name, lambda given=given: check(**given, **rest))
            request.node.user_properties.append(("cases", tally.made))
            tally.finish()

        fixtures = [p for n, p in inspect.signature(check).parameters.items() if n not in names[1:]]
        own = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in ("cases", "request")]
        own = [p for p in own if p.name not in [f.name for f in fixtures]]
        keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in fixtures]
        test.__signature__ = inspect.Signature([*keyword, *own])  # type: ignore[attr-defined]
        for key in ("__name__", "__qualname__", "__doc__", "__module__"):
            setattr(test, key, getattr(check, key))
        marks = getattr(check, "pytestmark", [])
        test.pytestmark = list(marks)  # type: ignore[attr-defined]
        params = [
            pytest.param(first, members, id=label) for label, (first, members) in groups.items()
        ]
        return pytest.mark.parametrize((names[0], "cases"), params)(test)

    return decorate
