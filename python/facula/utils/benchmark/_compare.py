"""Tables of measurements beside each other."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

from facula.utils.benchmark._measurement import (
    Measurement,
    select_unit,
    trim_sigfig,
    unit_to_english,
)

__all__ = ["Colorize", "Compare"]

_BEST, _GOOD, _POOR, _VERY_POOR = "\033[92m\033[1m", "\033[34m", "\033[33m", "\033[31m\033[1m"
_END = "\033[0m"


class Colorize(enum.Enum):
    """Whether a cell's colour compares it with its column or with its row."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """Tables of measurements: one for each label; sub-labels are rows, descriptions columns.

    Args:
        results: measurements; those of one task are merged.
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._trim = self._warn = False
        self._colorize = Colorize.NONE
        self.extend_results(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        results = list(results)
        for r in results:
            if not isinstance(r, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(r)} instead.")
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Show no figures that the spread does not leave."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colour what is fast and what is slow, by column or by row."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Mark what varied much, with its spread."""
        self._warn = True

    def print(self) -> None:
        """Print the tables."""
        print(self)

    def __str__(self) -> str:
        groups: dict[str, list[Measurement]] = {}
        for m in Measurement.merge(self._results):
            groups.setdefault(m.task_spec.label or m.title, []).append(m)
        return "\n".join(self._table(label, group) for label, group in groups.items())

    def _table(self, label: str, group: list[Measurement]) -> str:
        unit, seconds = select_unit(min(m.median for m in group))
        columns = list(dict.fromkeys(m.task_spec.description or "" for m in group))
        several = len({m.env for m in group}) > 1
        rows: dict[tuple[int, str], dict[str, Measurement]] = {}
        for m in group:
            name = f"({m.env}) {m.as_row_name}" if several else m.as_row_name
            rows.setdefault((m.task_spec.num_threads, name), {})[m.task_spec.description or ""] = m
        cells = {
            key: [self._cell(found.get(c), seconds) for c in columns] for key, found in rows.items()
        }
        first = max(len(name) for _, name in rows) + 6
        widths = [
            max(len(c), *(len(cells[key][i]) for key in cells)) for i, c in enumerate(columns)
        ]
        head = " " * first + "".join(f"  |  {c:^{w}}" for c, w in zip(columns, widths, strict=True))
        lines = [f"[{f' {label} ':-^{max(len(head) - 2, 0)}}]", head.rstrip()]
        for threads in sorted({t for t, _ in rows}):
            begin = f"{threads} thread{'s' if threads > 1 else ''}: "
            lines.append(begin + "-" * max(len(head) - len(begin), 0))
            for key in rows:
                if key[0] == threads:
                    lines.append(self._line(key, rows, cells, columns, widths, first))
        lines += ["", f"Times are in {unit_to_english(unit)}s ({unit})."]
        if self._warn and any(m.has_warnings for m in group):
            lines.append(
                "(! XX%) Measurement has high variance, where XX is the IQR / median * 100."
            )
        return "\n".join(lines) + "\n"

    def _cell(self, m: Measurement | None, seconds: float) -> str:
        if m is None:
            return ""
        value = m.median / seconds
        if self._trim:
            value = trim_sigfig(value, m.significant_figures)
        text = f"{value:.1f}" if value < 1000 else f"{value:.0f}"
        if self._warn and m.has_warnings:
            text = f"(! {100 * m.iqr / m.median:.0f}%) {text}"
        return text

    def _line(
        self,
        key: tuple[int, str],
        rows: dict[tuple[int, str], dict[str, Measurement]],
        cells: dict[Any, list[str]],
        columns: list[str],
        widths: list[int],
        first: int,
    ) -> str:
        text = f"{key[1]:>{first}}"
        for i, column in enumerate(columns):
            cell = f"{cells[key][i]:>{widths[i]}}"
            m = rows[key].get(column)
            if m is not None and self._colorize is not Colorize.NONE:
                others = (
                    rows[key].values()
                    if self._colorize is Colorize.ROWWISE
                    else [r[column] for k, r in rows.items() if column in r and k[0] == key[0]]
                )
                cell = _coloured(cell, m.median, min(o.median for o in others))
            text += f"  |  {cell}"
        return text.rstrip()


def _coloured(cell: str, value: float, best: float) -> str:
    for limit, colour in ((1.05, _BEST), (1.2, _GOOD), (2.0, ""), (5.0, _POOR)):
        if value <= best * limit:
            return f"{colour}{cell}{_END}" if colour else cell
    return f"{_VERY_POOR}{cell}{_END}"
