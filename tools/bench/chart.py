"""The ratios as a picture: a logarithmic scale, a dot a row, written as SVG.

One line a row; with more rows than MOST, one line a family and its mean as a bar.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

from tools.bench.result import Result, Run, geometric_mean
from tools.bench.table import by_family, digits

MOST = 48
LETTERS = 44  # of a name
LEFT, PLOT, RIGHT, TOP, LINE = 300, 460, 90, 46, 20
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
# Readable on a light and on a dark page.
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #57606a }
.grid { stroke: #8c959f; stroke-opacity: .3 } .even { stroke: #8c959f; stroke-width: 1.5 }
.met { fill: #2da44e; fill-opacity: .75 } .missed { fill: #cf222e; fill-opacity: .75 }
.goal { stroke: #57606a; stroke-width: 2 } .mean { stroke: #0969da; stroke-width: 3 }
@media (prefers-color-scheme: dark) { text { fill: #9198a1 } .goal { stroke: #9198a1 } }
"""


class Scale:
    def __init__(self, values: list[float]) -> None:
        low, high = min([*values, 0.5]), max([*values, 2.0])
        self.low = max((t for t in TICKS if t <= low), default=TICKS[0])
        self.high = min((t for t in TICKS if t >= high), default=TICKS[-1])

    def x(self, value: float) -> float:
        part = math.log(value / self.low) / math.log(self.high / self.low)
        return LEFT + PLOT * min(max(part, 0.0), 1.0)

    def ticks(self) -> list[float]:
        return [t for t in TICKS if self.low <= t <= self.high]


def chart(run: Run, families: Iterable[str] | None = None) -> str:
    """The picture of a run, or of some of its families."""
    chosen = set(families) if families is not None else None
    results = [
        r for r in run.results if r.ratio is not None and (chosen is None or r.family in chosen)
    ]
    lines = lines_of(results)
    scale = Scale([r.ratio for r in results if r.ratio is not None])
    height = TOP + LINE * len(lines) + 12
    width = LEFT + PLOT + RIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">',
        f"<title>facula's time as a part of torch's, {escape(run.about.get('date', ''))}</title>",
        f"<style>{STYLE}</style>",
        f'<text x="{LEFT}" y="16">time of facula / time of torch: left of 1 is faster</text>',
    ]
    for tick in scale.ticks():
        x = scale.x(tick)
        parts.append(vertical("even" if tick == 1 else "grid", x, TOP - 8, height - 8))
        parts.append(f'<text x="{x:.1f}" y="{TOP - 13}" text-anchor="middle">{tick:g}</text>')
    draw = row_line if lines_are_rows(results) else family_line
    for index, (name, found) in enumerate(lines):
        y = TOP + LINE * index + LINE // 2
        label = escape(name[:LETTERS])
        parts.append(f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{label}</text>')
        parts += draw(found, y, scale)
    return "\n".join([*parts, "</svg>", ""])


def lines_are_rows(results: list[Result]) -> bool:
    return len({(r.family, r.name) for r in results}) <= MOST


def lines_of(results: list[Result]) -> list[tuple[str, list[Result]]]:
    if not lines_are_rows(results):
        return list(by_family(results).items())
    named: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        named.setdefault((result.family, result.name), []).append(result)
    return [(name, found) for (_, name), found in named.items()]


def row_line(results: list[Result], y: float, scale: Scale) -> list[str]:
    """A dot for each number of threads, and the goal."""
    goal = vertical("goal", scale.x(results[0].goal), y - 7, y + 7)
    return [*(dot(r, y, scale) for r in results), goal, mean_text(results, y)]


def family_line(results: list[Result], y: float, scale: Scale) -> list[str]:
    """A dot for each result, each red where its own goal is missed, and the geometric mean."""
    mean = vertical("mean", scale.x(mean_of(results)), y - 8, y + 8)
    return [*(dot(r, y, scale) for r in results), mean, mean_text(results, y)]


def mean_of(results: list[Result]) -> float:
    return geometric_mean(r.ratio for r in results if r.ratio is not None)


def mean_text(results: list[Result], y: float) -> str:
    return f'<text x="{LEFT + PLOT + 10}" y="{y + 4}">{digits(mean_of(results))}</text>'


def dot(result: Result, y: float, scale: Scale) -> str:
    ratio = result.ratio or scale.low
    kind = "missed" if ratio > result.goal else "met"
    told = f"{result.name}, {result.threads} threads: {digits(ratio)}, goal {result.goal:g}"
    return (
        f'<circle class="{kind}" cx="{scale.x(ratio):.1f}" cy="{y}" r="4">'
        f"<title>{escape(told)}</title></circle>"
    )


def vertical(kind: str, x: float, top: float, bottom: float) -> str:
    return f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>'
