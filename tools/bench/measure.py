"""Runs rows: competitors take turns, round after round, and the medians count."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from tools.bench.processes import Busy, Crew, Failed, Process
from tools.bench.result import Result, Second, paired_ratio, spread
from tools.bench.row import KERNELS, Beyond, Check, Row

PAUSE = 0.005  # seconds before a sample: worker threads of the one before have gone to sleep
BUSY = ", busy"  # ends the name of a row beside a busy process
BUSY_GOAL = 1.0  # of torch's time, beside the same busy process
BUSY_LIMIT = 3.0  # of the row's own time without it


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


@dataclass
class Turns:
    """How often each competitor runs its row in a sample, and what the samples were."""

    ready: dict[str, Process]
    plan: Plan

    def __post_init__(self) -> None:
        self.times: dict[str, int] = {}
        self.warm: dict[str, int] = {}
        self.length = 0.0
        for name, process in self.ready.items():
            times, seconds = process.calibrate(self.plan.sample)
            self.times[name] = times
            self.warm[name] = 0 if seconds > 0.2 else max(1, times // 20)
            self.length += seconds * (times + self.warm[name])

    def take(self) -> dict[str, list[float]]:
        """Seconds a call, by competitor and round; the order turns round each time."""
        samples: dict[str, list[float]] = {name: [] for name in self.ready}
        for turn in range(self.plan.rounds_for(self.length)):
            for name in list(samples) if turn % 2 == 0 else reversed(samples):
                time.sleep(PAUSE)
                one = self.ready[name].sample(self.times[name], self.warm[name])
                samples[name].append(one)
        return samples


class Runner:
    def __init__(
        self,
        crew: Crew,
        plan: Plan,
        opponents: tuple[str, ...] = (),
        busy: Busy | None = None,
    ) -> None:
        self.crew, self.plan, self.busy = crew, plan, busy
        self.opponents = opponents  # beside facula: torch, other revisions

    def run(self, row: Row, threads: int) -> Iterator[Result]:
        """The row's result; then, if that is asked for, the one beside a busy process."""
        result = Result(row.name, row.family, threads, row.goal)
        try:
            ready = self.prepare(row, threads, result)
        except Failed as failure:
            result.state, result.note = failure.kind, str(failure)
            yield result
            return
        try:
            self.verify(row, result, ready)
            turns = Turns(ready, self.plan)
            samples = turns.take()
            record(result, samples)
            self.second_goals(row, result, ready, samples)
            yield result
            if self.busy is not None and threads > 1:
                yield self.beside_busy(row, threads, turns, result)
        except Failed as failure:
            result.state, result.note = failure.kind, add_note(result.note, str(failure))
            yield result
        finally:
            for process in ready.values():
                if process.child.poll() is None:
                    process.drop()

    def prepare(self, row: Row, threads: int, result: Result) -> dict[str, Process]:
        """The competitors that have set the row up. facula must; of others a note is kept."""
        ready: dict[str, Process] = {}
        for name in ["facula", *self.opponents, *dict.fromkeys(row.rivals())]:
            try:
                process = self.crew.get(name, threads)
                process.setup(row.key)
                ready[name] = process
            except Failed as failure:
                if name == "facula":
                    raise
                if (name, failure.kind) != ("numpy", "absent"):
                    result.note = add_note(result.note, f"{name}: {failure}")
        return ready

    def verify(self, row: Row, result: Result, ready: dict[str, Process]) -> None:
        """facula's result is torch's, or NumPy's where torch has none."""
        other = next((ready[n] for n in ("torch", "numpy") if n in ready), None)
        if row.tolerance is None or other is None:
            return
        difference = disagreement(ready["facula"].arrays(), other.arrays())
        if isinstance(difference, str) or not difference <= row.tolerance:
            result.agree = False
            result.note = add_note(result.note, f"differs from {other.name}: {difference}")

    def second_goals(
        self,
        row: Row,
        result: Result,
        ready: dict[str, Process],
        samples: dict[str, list[float]],
    ) -> None:
        checked = {name: self.checks(row, name, ready) for name in ("facula", "torch")}
        for goal in row.also:
            if isinstance(goal, Check):
                value, beside = checked["facula"][goal.label], checked["torch"].get(goal.label)
                result.also.append(Second(goal.label, value, goal.limit, goal.at_least, beside))
            elif isinstance(goal, Beyond):
                result.also += beyond(goal, samples)
            elif goal.rival in samples:
                value = paired_ratio(samples["facula"], samples[goal.rival])
                if goal.at_least:  # rates: ours to the machine's
                    value = goal.work / ready[goal.rival].work() / value
                result.also.append(Second(goal.label, value, goal.limit, goal.at_least))

    def checks(self, row: Row, name: str, ready: dict[str, Process]) -> dict[str, float]:
        if name not in ready or not any(isinstance(goal, Check) for goal in row.also):
            return {}
        here = [g for g in row.also if isinstance(g, Check) and not g.fresh]
        found = dict(zip([g.label for g in here], ready[name].checks(), strict=True))
        for goal in row.also:
            if isinstance(goal, Check) and goal.fresh:
                process = self.crew.fresh(name, ready[name].threads)
                try:
                    found[goal.label] = process.fresh_check(row.key, goal.label)
                finally:
                    process.close()
        return found

    def beside_busy(self, row: Row, threads: int, turns: Turns, quiet: Result) -> Result:
        result = Result(row.name + BUSY, row.family, threads, BUSY_GOAL)
        with self.busy or nullcontext():
            record(result, turns.take())
        slower = result.medians["facula"] / quiet.medians["facula"]
        beside = None
        if "torch" in result.medians:
            beside = result.medians["torch"] / quiet.medians["torch"]
        result.also.append(Second("of quiet", slower, BUSY_LIMIT, torch=beside))
        return result


def record(result: Result, samples: dict[str, list[float]]) -> None:
    for name, found in samples.items():
        result.medians[name] = statistics.median(found)
        result.spreads[name] = round(spread(found), 4)
        if name != "facula" and name not in KERNELS:
            result.ratios[name] = paired_ratio(samples["facula"], found)


def beyond(goal: Beyond, samples: dict[str, list[float]]) -> list[Second]:
    """Microseconds beyond the kernel, and what part of torch's they are."""
    rest = {
        name: [a - b for a, b in zip(samples[name], samples[goal.rival], strict=True)]
        for name in ("facula", "torch")
        if name in samples and goal.rival in samples
    }
    middle = {name: statistics.median(found) * 1e6 for name, found in rest.items()}
    if "facula" not in middle:
        return []
    label = f"us beyond {goal.kernel}"
    found = [Second(label, middle["facula"], goal.limit * 1e6, torch=middle.get("torch"))]
    if min(rest["facula"]) > 0 and min(rest.get("torch", [0.0])) > 0:
        part = paired_ratio(rest["facula"], rest["torch"])
        found.append(Second(f"part of torch's beyond {goal.kernel}", part, goal.part))
    return found


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
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        a, b = a.astype(wide), b.astype(wide)
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
                yield from runner.run(row, count)
            else:
                yield PROBES[row.measure](runner, row, count)
