"""Runs rows: competitors take turns, round after round, and the medians count."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tools.bench.processes import Crew, Failed, Process
from tools.bench.result import Result, Second, paired_ratio, spread
from tools.bench.row import Check, Row, Versus

PAUSE = 0.005  # seconds before a sample: worker threads of the one before have gone to sleep


@dataclass(frozen=True)
class Plan:
    rounds: int = 11  # fewer, but never less than 7, where a call is slow
    sample: float = 0.004  # seconds, at least
    budget: float = 12.0  # seconds that the rounds of a row may take, within those limits

    def rounds_for(self, seconds: float) -> int:
        """Rounds, where one round takes so long."""
        least = min(7, self.rounds)
        return max(least, min(self.rounds, int(self.budget / max(seconds, 1e-9))))


QUICK = Plan(rounds=3, sample=0.001, budget=2.0)


class Runner:
    def __init__(self, crew: Crew, plan: Plan, opponents: tuple[str, ...]) -> None:
        self.crew, self.plan = crew, plan
        self.opponents = opponents  # beside facula: torch, other revisions

    def run(self, row: Row, threads: int) -> Result:
        result = Result(row.name, row.family, threads, row.goal)
        names = ["facula", *self.opponents, *dict.fromkeys(row.rivals())]
        ready: dict[str, Process] = {}
        for name in names:
            try:
                process = self.crew.get(name, threads)
                process.setup(row.key)
                ready[name] = process
            except Failed as failure:
                if name == "facula":
                    result.state, result.note = failure.kind, str(failure)
                    self.drop(ready)
                    return result
                result.note = add_note(result.note, f"{name}: {failure}")
        try:
            self.verify(row, result, ready)
            samples = self.rounds(ready)
            self.judge(row, result, ready, samples)
        except Failed as failure:
            result.state, result.note = failure.kind, add_note(result.note, str(failure))
        self.drop(ready)
        return result

    def drop(self, ready: dict[str, Process]) -> None:
        for process in ready.values():
            if process.child.poll() is None:
                process.drop()

    def verify(self, row: Row, result: Result, ready: dict[str, Process]) -> None:
        """facula's result is torch's, or NumPy's where torch has none."""
        other = next((ready[n] for n in ("torch", "numpy") if n in ready), None)
        if row.tolerance is None or other is None:
            return
        difference = disagreement(ready["facula"].arrays(), other.arrays())
        if isinstance(difference, str) or not difference <= row.tolerance:
            result.agree = False
            result.note = add_note(result.note, f"differs from {other.name}: {difference}")

    def rounds(self, ready: dict[str, Process]) -> dict[str, list[float]]:
        times: dict[str, int] = {}
        warm: dict[str, int] = {}
        a_round = 0.0
        for name, process in ready.items():
            times[name], seconds = process.calibrate(self.plan.sample)
            warm[name] = 0 if seconds > 0.2 else max(1, times[name] // 20)
            a_round += seconds * (times[name] + warm[name])
        samples: dict[str, list[float]] = {name: [] for name in ready}
        for turn in range(self.plan.rounds_for(a_round)):
            order = list(ready) if turn % 2 == 0 else list(reversed(ready))
            for name in order:
                time.sleep(PAUSE)
                samples[name].append(ready[name].sample(times[name], warm[name]))
        return samples

    def judge(
        self,
        row: Row,
        result: Result,
        ready: dict[str, Process],
        samples: dict[str, list[float]],
    ) -> None:
        ours = samples["facula"]
        for name, found in samples.items():
            result.medians[name] = statistics.median(found)
            result.spreads[name] = round(spread(found), 4)
            if name not in ("facula", "machine"):
                result.ratios[name] = paired_ratio(ours, found)
        for goal in row.also:
            if isinstance(goal, Versus) and goal.rival in samples:
                value = paired_ratio(ours, samples[goal.rival])
                if goal.at_least:  # rates: ours to the machine's
                    value = goal.work / ready[goal.rival].work() / value
                result.also.append(Second(goal.label, value, goal.limit, goal.at_least))
        checks = [goal for goal in row.also if isinstance(goal, Check)]
        found = ready["facula"].checks() if checks else []
        beside = ready["torch"].checks() if checks and "torch" in ready else [None] * len(checks)
        for goal, value, other in zip(checks, found, beside, strict=True):
            result.also.append(Second(goal.label, value, goal.limit, goal.at_least, other))


def add_note(note: str, more: str) -> str:
    return f"{note}; {more}" if note else more


def disagreement(ours: list[Any], theirs: list[Any]) -> float | str:
    """The largest difference, as a part of the largest value; or in words, what cannot be."""
    import numpy as np

    if len(ours) != len(theirs):
        return f"{len(ours)} results, not {len(theirs)}"
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        if a.shape != b.shape:
            return f"{a.size} elements, not {b.size}"
        if a.dtype.kind != b.dtype.kind:
            return f"results of type {a.dtype}, not {b.dtype}"
        if a.size == 0 or np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"):
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        odd = ~(np.isfinite(a) & np.isfinite(b))
        if not np.array_equal(a[odd], b[odd], equal_nan=True):
            return "other infinities or NaN"
        a, b = a[~odd], b[~odd]
        if a.size:
            worst = max(worst, float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)))
    return worst


def run_all(runner: Runner, rows: list[Row], threads: list[int]) -> Iterator[Result]:
    from tools.bench.probes import PROBES

    for row in rows:
        for count in threads:
            if row.threads and count not in row.threads:
                continue
            if row.measure == "time":
                yield runner.run(row, count)
            else:
                yield PROBES[row.measure](runner, row, count)
