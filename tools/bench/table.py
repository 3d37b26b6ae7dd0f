"""The table, as text and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tools.bench.result import Result, Run, Second, geometric_mean

MISS = "✗"
HEADINGS = ("threads", "facula", "torch", "±", "ratio", "goal", "")


def amount(value: float | None, unit: str) -> str:
    """Three digits and a unit: `1.23 ms`, `4.5 MB`."""
    if value is None:
        return "-"
    steps = {
        "s": ((1, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
        "B": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")),
    }[unit]
    size, name = next((s for s in steps if abs(value) >= s[0]), steps[-1])
    return f"{digits(value / size)} {name}"


def digits(value: float) -> str:
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(value)) + 1e-9))
    return f"{value:.{min(places, 3)}f}"


def second_text(second: Second) -> str:
    sign = "≥" if second.at_least else "≤"
    mark = "" if second.met else f" {MISS}"
    beside = "" if second.torch is None else f" (torch {digits(second.torch)})"
    return f"{second.label} {digits(second.value)} {sign} {second.limit:g}{mark}{beside}"


def cells(result: Result) -> list[str]:
    noise = max((result.spreads.get(n, 0) for n in ("facula", "torch")), default=0)
    over = result.ratio is not None and result.ratio > result.goal
    words = [second_text(s) for s in result.also]
    words += [
        f"{digits(r)} of {n}" for n, r in result.ratios.items() if n not in ("torch", "numpy")
    ]
    if "numpy" in result.ratios and not any(s.label == "numpy" for s in result.also):
        words.append(f"numpy {digits(result.ratios['numpy'])}")
    if result.state != "ok":
        words.append(result.state)
    if not result.agree:
        words.append(f"WRONG {MISS}")
    if result.note:
        words.append(result.note.splitlines()[0][:100])
    return [
        str(result.threads),
        amount(result.medians.get("facula"), result.unit),
        amount(result.medians.get("torch"), result.unit),
        f"{noise:.0%}",
        "-" if result.ratio is None else digits(result.ratio),
        f"{result.goal:g}{' ' + MISS if over else ''}",
        ", ".join(words),
    ]


def line(result: Result, width: int) -> str:
    """A row as it is printed while the run goes on."""
    threads, ours, torch, noise, ratio, goal, words = cells(result)
    text = f"  {result.name:<{width}} {threads:>2} {ours:>9} {torch:>9} {noise:>4} {ratio:>6} "
    return (text + f"{goal:<7} {words}").rstrip()


def heading(family: str, width: int) -> str:
    return f"{family:<{width + 2}} th    facula     torch    ±  ratio goal"


def by_family(results: Iterable[Result]) -> dict[str, list[Result]]:
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(result.family, []).append(result)
    return found


def missed(results: Iterable[Result]) -> list[Result]:
    """The rows that miss a goal, worst first; those that did not run at the end."""
    found = [r for r in results if r.missed]
    return sorted(found, key=lambda r: (r.state != "ok", -r.excess))


def summary(run: Run) -> str:
    """A line a family: the mean ratio and how many rows miss a goal."""
    lines = []
    for family, results in by_family(run.results).items():
        mean = geometric_mean(r.ratio for r in results if r.ratio is not None)
        count = sum(r.missed for r in results)
        lines.append(f"  {family:<14} {digits(mean):>6} of torch, {count} of {len(results)} missed")
    return "\n".join(lines)


def late(run: Run) -> str:
    """What misses a goal, worst first."""
    found = missed(run.results)
    lines = [
        f"{len(found)} of {len(run.results)} rows miss a goal" + (", worst first:" if found else "")
    ]
    width = max((len(r.family) + len(r.name) + 2 for r in found), default=0)
    for result in found:
        threads, _, _, _, ratio, goal, words = cells(result)
        name = f"{result.family}: {result.name}"
        lines.append(f"  {name:<{width}} {threads:>2} {ratio:>6} {goal:<7} {words}".rstrip())
    return "\n".join(lines)


def text(run: Run) -> str:
    width = max((len(r.name) for r in run.results), default=20)
    blocks = []
    for family, results in by_family(run.results).items():
        blocks.append("\n".join([heading(family, width), *(line(r, width) for r in results)]))
    return "\n\n".join(blocks)


def markdown(results: Iterable[Result]) -> str:
    rows = ["| row | " + " | ".join(HEADINGS) + " |", "|---|" + "---:|" * 6 + "---|"]
    for result in results:
        entries = [f"`{result.name}`", *cells(result)]
        rows.append("| " + " | ".join(e.replace("|", "\\|") for e in entries) + " |")
    return "\n".join(rows)
