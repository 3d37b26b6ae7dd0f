"""What `facula.compile` makes of a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from facula import _C
from facula.utils.viz import Boxes, Drawing


@dataclass(frozen=True)
class Group:
    """Operators that run together, tile by tile."""

    operators: tuple[tuple[str, str], ...]  # name, "file.py:12"
    shape: tuple[int, ...]
    bytes_before: int  # read and written by the operators one by one
    bytes_after: int
    memory_saved: int  # bytes of results that are never written
    apart: str  # why it is not part of the group before
    uses: tuple[int, ...]  # groups of the same record whose results it reads


@dataclass(frozen=True)
class Record:
    """Operators that were taken down before a value was needed."""

    reason: str  # why they ran then
    groups: tuple[Group, ...]
    unused: int  # calls whose results nobody needs
    repeated: int  # calls that another one's result serves for


@dataclass(frozen=True)
class Explanation:
    """What `explain` found; printed, a report."""

    result: Any
    records: tuple[Record, ...]

    @property
    def groups(self) -> tuple[Group, ...]:
        """Those of all records, in order."""
        return tuple(g for r in self.records for g in r.groups)

    def __str__(self) -> str:
        groups = self.groups
        operators = sum(len(g.operators) for g in groups)
        lines = [
            f"{_counted(operators, 'pointwise operator')} in {_counted(len(groups), 'group')},"
            f" {_counted(len(self.records), 'record')};"
            f" {_bytes(sum(g.bytes_before for g in groups))} moved become"
            f" {_bytes(sum(g.bytes_after for g in groups))}"
        ]
        for record in self.records:
            for group in record.groups:
                lines += _lines_of(group)
            notes = ""
            if record.unused:
                notes += f"; {_counted(record.unused, 'call')} left out that nobody needs"
            if record.repeated:
                notes += f"; {_counted(record.repeated, 'call')} computed once with an equal one"
            lines.append(f"  ran because of: {record.reason}{notes}")
        return "\n".join(lines)

    __repr__ = __str__

    def svg(self) -> Drawing:
        """A picture of the groups, and of what made each record run, in the order of calls."""
        picture = Boxes()
        last: list[int] = []  # boxes that what comes next follows
        for record in self.records:
            first = len(picture.boxes)
            ends = set()
            for group in record.groups:
                lines = [
                    ", ".join(name for name, _ in group.operators[i : i + 4])
                    for i in range(0, len(group.operators), 4)
                ]
                places = "\n".join(f"{name} {place}" for name, place in group.operators)
                box = picture.add("operation", [*lines, str(group.shape)], places)
                above = [first + i for i in group.uses] or last
                picture.arrows += [(a, box) for a in above]
                ends = (ends - set(above)) | {box}
            cause = picture.add("output", [record.reason], "what made the record run")
            picture.arrows += [(box, cause) for box in sorted(ends)]
            last = [cause]
        return picture.drawing()


def explain(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Run `fn(*args, **kwargs)` captured, and tell which operators ran together and why.

    The result has groups with the line of Python that called each operator, the bytes that they
    read and write one by one and together, and why a group was not joined to one before it.
    """
    fn = getattr(fn, "__wrapped__", fn) if not hasattr(fn, "_plain_class") else fn._orig_mod
    if _C._is_capturing():
        raise RuntimeError("explain() cannot run within a compiled function; call it outside")
    capture = _C._Capture(False, False, True)
    with capture:
        result = fn(*args, **kwargs)
    records = tuple(
        Record(
            reason,
            tuple(
                Group(tuple(map(_operator, operators)), tuple(sizes), *numbers, why, tuple(uses))
                for operators, sizes, *numbers, why, uses in groups
            ),
            unused,
            repeated,
        )
        for reason, unused, repeated, groups in capture.reports()
    )
    return Explanation(result, records)


def _operator(text: str) -> tuple[str, str]:
    name, _, place = text.partition(" ")
    return name, place


def _lines_of(group: Group) -> list[str]:
    lines = [
        f"  group of {len(group.operators)} over {group.shape}: {_bytes(group.bytes_before)} ->"
        f" {_bytes(group.bytes_after)}, {_bytes(group.memory_saved)} never written"
    ]
    if group.apart:
        lines.append(f"    not joined to a group before: {group.apart}")
    return lines + [f"    {name:<16} {place}" for name, place in group.operators]


def _counted(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _bytes(n: int) -> str:
    for size, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n} bytes"
