"""What a run of the conformance kit found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

WAYS = ("native", "by formula", "view", "decomposed", "in part", "fallback", "missing", "untested")


@dataclass(frozen=True)
class Failure:
    """A check that did not hold."""

    op: str
    check: str
    sample: str
    dtype: str
    message: str

    def __str__(self) -> str:
        return f"{self.op}({self.sample}) in {self.dtype}, {self.check}: {self.message}"


@dataclass
class Report:
    """What a run found."""

    device: str
    ways: dict[str, str] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    checks: int = 0
    fallbacks: Counter[str] = field(default_factory=Counter)
    in_part: dict[str, str] = field(default_factory=dict)
    """Kernels and formulas of the device's that the CPU stands in for too, and for what."""
    missing: set[str] = field(default_factory=set)
    """Kernels that were asked for in vain."""
    refusals: dict[str, str] = field(default_factory=dict)
    """Kernels and templates of the device's that did not take some arguments: the first reason."""
    no_dtype: Counter[str] = field(default_factory=Counter)
    """Dtypes that samples name and the device has not: checks that were not made for it."""
    seconds: float = 0.0

    def add(self, other: Report) -> None:
        """Take in what a run of other operators found."""
        self.ways.update(other.ways)
        self.failures += other.failures
        self.checks += other.checks
        self.fallbacks.update(other.fallbacks)
        self.in_part.update(other.in_part)
        self.missing |= other.missing
        self.refusals = {**other.refusals, **self.refusals}
        self.no_dtype.update(other.no_dtype)

    def table(self) -> str:
        counts = Counter(self.ways.values())
        failed = Counter(f.op for f in self.failures)
        lines = [f"{way:<12}{counts[way]:5}" for way in WAYS if counts[way] or way == "missing"]
        lines.append(
            f"{'checks':<12}{self.checks:5}, {len(self.failures)} failed in {len(failed)} operators"
        )
        if self.no_dtype:
            shown = ", ".join(f"{dtype} ({n})" for dtype, n in self.no_dtype.most_common())
            lines.append(f"not made, as samples name dtypes that the device has not: {shown}")
        if self.fallbacks:
            shown = ", ".join(f"{op} ({n})" for op, n in self.fallbacks.most_common())
            lines.append(f"kernels that ran on the CPU: {shown}")
        if self.in_part:
            shown = ", ".join(f"{op} ({what})" for op, what in self.in_part.items())
            lines.append(f"in part on the CPU: {shown}")
        if self.refusals:
            shown = ", ".join(f"{op} ({why})" for op, why in sorted(self.refusals.items()))
            lines.append(f"kernels and templates that refused arguments: {shown}")
        if self.missing:
            lines.append(f"kernels to write: {', '.join(sorted(self.missing))}")
        return "\n".join(
            [f"{self.device}: {len(self.ways)} operators, {self.seconds:.0f} s", *lines]
        )
