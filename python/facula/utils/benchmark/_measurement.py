"""Times of a statement, and what can be said of them."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable
from typing import Any

__all__ = ["Measurement", "TaskSpec", "select_unit", "trim_sigfig", "unit_to_english"]

_UNITS = (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0))
_ENGLISH = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}
# Above these shares of the median, the spread deserves a warning.
_WARN, _WARN_LOUDLY = 0.1, 0.25
_MIN_CONFIDENCE = 0.1


def select_unit(t: float) -> tuple[str, float]:
    """(unit, its seconds) in which `t` seconds is at least 1, "s" at most."""
    unit = _UNITS[0]
    for candidate in _UNITS:
        if t >= candidate[1]:
            unit = candidate
    return unit


def unit_to_english(u: str) -> str:
    """The name of a unit."""
    return _ENGLISH[u]


def trim_sigfig(x: float, n: int) -> float:
    """`x` rounded to `n` significant figures."""
    if x != x or x == 0 or math.isinf(x):
        return x
    scale = 10 ** (n - math.ceil(math.log10(abs(x))))
    return round(x * scale) / scale


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """What was measured: statements, names for tables, threads."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label and sub-label, or the statement."""
        if self.label is None:
            return "stmt:\n  " + self.stmt.replace("\n", "\n  ") if "\n" in self.stmt else self.stmt
        return self.label + (f": {self.sub_label}" if self.sub_label else "")

    def setup_str(self) -> str:
        """How the setup is shown."""
        if self.setup in ("", "pass"):
            return ""
        return f"setup:\n  {self.setup}" if "\n" in self.setup else f"setup: {self.setup}"


class Measurement:
    """Times of one statement.

    Args:
        number_per_run: how often it ran for each time.
        raw_times: seconds of those runs.
        task_spec: what ran.

    Attributes:
        times: seconds of one execution, for each run. median, mean, iqr (the range between the
            quartiles): of these.
        significant_figures: how many of the median's figures the spread leaves.
    """

    def __init__(
        self,
        number_per_run: int,
        raw_times: list[float],
        task_spec: TaskSpec,
        metadata: dict[Any, Any] | None = None,
    ) -> None:
        self.number_per_run, self.raw_times = number_per_run, list(raw_times)
        self.task_spec, self.metadata = task_spec, metadata

    @property
    def times(self) -> list[float]:
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        return statistics.median(self._some())

    @property
    def mean(self) -> float:
        return statistics.fmean(self._some())

    @property
    def iqr(self) -> float:
        times = sorted(self._some())
        return _quantile(times, 0.75) - _quantile(times, 0.25)

    def _some(self) -> list[float]:
        if not self.raw_times:
            raise RuntimeError("the measurement has no times")
        return self.times

    @property
    def significant_figures(self) -> int:
        # Of a normal distribution the interval of the median that holds it with 95 %.
        n = len(self.raw_times)
        if n < 2 or self.iqr == 0:
            return 5
        half = (self.iqr / 1.349) * 1.96 * math.sqrt(math.pi / (2 * n))
        figures = math.floor(math.log10(self.median / half)) + 1 if half else 5
        return max(1, min(5, figures))

    @property
    def has_warnings(self) -> bool:
        """Is the spread wide?"""
        return len(self.raw_times) > 1 and self.iqr / self.median > _WARN

    def meets_confidence(self, threshold: float = _MIN_CONFIDENCE) -> bool:
        """Is the range between the quartiles below that share of the median?"""
        return self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        return self.task_spec.title

    @property
    def env(self) -> str:
        """Under what it ran, if that was said."""
        return self.task_spec.env or "Unspecified env"

    @property
    def as_row_name(self) -> str:
        """Its name in a table of several."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def __repr__(self) -> str:
        spec = self.task_spec
        lines = [f"<facula.utils.benchmark.Measurement of {spec.title}>"]
        lines += [text for text in (spec.description, spec.setup_str()) if text]
        n, threads = len(self.raw_times), spec.num_threads
        unit, seconds = select_unit(self.median)
        figures = self.significant_figures
        runs = f"{self.number_per_run} run{'s' if self.number_per_run > 1 else ''}"
        on = f"{threads} thread{'s' if threads > 1 else ''}"
        if n > 1:
            shown = trim_sigfig(self.median / seconds, figures)
            lines.append(f"  Median: {shown:.{max(figures, 3)}g} {unit}")
            if n > 3:
                iqr = trim_sigfig(self.iqr / seconds, 3)
                low, high = (_quantile(sorted(self.times), q) / seconds for q in (0.25, 0.75))
                lines.append(f"  IQR:    {iqr:.3g} {unit} ({low:.4g} to {high:.4g})")
            lines.append(f"  {n} measurements, {runs} per measurement, {on}")
        else:
            lines.append(f"  {self.median / seconds:.4g} {unit}")
            lines.append(f"  1 measurement, {runs}, {on}")
        if self.has_warnings:
            share = 100 * self.iqr / self.median
            loud = "could be unreliable" if share > 100 * _WARN_LOUDLY else "is wide"
            lines.append(
                f"  WARNING: the interquartile range is {share:.1f}% of the median: it {loud}"
            )
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One measurement for each task, with the times of all of them.

        Times of runs of other lengths are brought to one execution each.
        """
        groups: dict[TaskSpec, list[Measurement]] = {}
        for m in measurements:
            groups.setdefault(m.task_spec, []).append(m)
        merged = []
        for spec, group in groups.items():
            numbers = {m.number_per_run for m in group}
            number = numbers.pop() if len(numbers) == 1 else 1
            times = [t * number for m in group for t in m.times]
            merged.append(Measurement(number, times, spec, None))
        return merged


def _quantile(ordered: list[float], q: float) -> float:
    """By linear interpolation."""
    place = q * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
