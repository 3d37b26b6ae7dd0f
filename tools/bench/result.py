"""What a run found: rows with times, ratios and verdicts; to and from JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FORMAT = 1


@dataclass
class Second:
    """A second goal: what it is, what was found, what is allowed."""

    label: str
    value: float
    limit: float
    at_least: bool = False
    torch: float | None = None  # the same of torch, where it was measured

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


@dataclass
class Result:
    """One row with one number of threads. `medians` and `spreads` are by competitor, in `unit`;
    a ratio is the median over the rounds of facula's time to the other's in the same round."""

    name: str
    family: str
    threads: int
    goal: float
    unit: str = "s"
    medians: dict[str, float] = field(default_factory=dict)
    spreads: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    also: list[Second] = field(default_factory=list)
    state: str = "ok"  # "absent", "error": facula did not run it
    note: str = ""
    agree: bool = True

    @property
    def ratio(self) -> float | None:
        return self.ratios.get("torch")

    @property
    def key(self) -> tuple[str, str, int]:
        return self.family, self.name, self.threads

    @property
    def missed(self) -> bool:
        """Whether a goal is missed, the result wrong, or the row not run at all."""
        if self.state != "ok" or not self.agree:
            return True
        over = self.ratio is not None and self.ratio > self.goal
        return over or not all(second.met for second in self.also)

    @property
    def excess(self) -> float:
        """How many times worse than its worst goal; above 1 is a miss."""
        found = [self.ratio / self.goal] if self.ratio is not None else []
        for second in self.also:
            if second.value > 0 and second.limit > 0:
                part = second.value / second.limit
                found.append(1 / part if second.at_least else part)
            elif not second.met:
                found.append(float("inf"))
        return max(found, default=0.0)


@dataclass
class Run:
    about: dict[str, Any]
    results: list[Result]

    def save(self, path: str | Path) -> None:
        data = {"format": FORMAT, "about": self.about, "rows": [asdict(r) for r in self.results]}
        Path(path).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")

    @staticmethod
    def load(path: str | Path) -> Run:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError(f"{path}: not a result of tools/bench of format {FORMAT}")
        results = []
        for entry in data["rows"]:
            entry["also"] = [Second(**s) for s in entry["also"]]
            results.append(Result(**entry))
        return Run(data["about"], results)


def spread(samples: Sequence[float]) -> float:
    """Half the distance between the quartiles, as a part of the median."""
    if len(samples) < 3:
        return 0.0
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return (high - low) / 2 / middle if middle else 0.0


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the rounds' ratios: what slows a whole round does not show in it."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def geometric_mean(values: Iterable[float]) -> float:
    found = [v for v in values if v > 0]
    return statistics.geometric_mean(found) if found else float("nan")
