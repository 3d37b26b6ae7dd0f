"""Puts a run's figures into the page of its device: between markers, nothing by hand."""

from __future__ import annotations

import re
from pathlib import Path

from tools.bench import chart, table
from tools.bench.processes import ROOT
from tools.bench.result import Run

PAGE = ROOT / "docs/benchmarks.md"
FOLDER = "images"
MARKED = r"(<!-- bench: {name} -->\n).*?(<!-- bench: end -->)"


def page_of(run: Run) -> Path:
    """Where figures of the run's device stand."""
    device = run.about.get("device", "cpu")
    return PAGE if device == "cpu" else PAGE.with_stem(f"{PAGE.stem}_{device}")


def publish(run: Run, page: Path | None = None) -> list[Path]:
    """Writes the page and its pictures; returns what it wrote."""
    page = page or page_of(run)
    images = page.parent / FOLDER
    images.mkdir(exist_ok=True)
    written = [images / f"{page.stem}.svg"]
    written[0].write_text(chart.chart(run), encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    text = put(text, "run", described(run))
    text = put(text, "picture", f"![Ratios by family]({FOLDER}/{written[0].name})\n")
    text = put(text, "tables", tables(run))
    page.write_text(text, encoding="utf-8")
    return [*written, page]


def put(text: str, name: str, content: str) -> str:
    """The text with what stands between two markers replaced."""
    pattern = re.compile(MARKED.format(name=re.escape(name)), re.S)
    if not pattern.search(text):
        raise ValueError(f"the page has no marker <!-- bench: {name} -->")
    return pattern.sub(lambda m: m[1] + content + m[2], text, count=1)


def described(run: Run) -> str:
    about = run.about
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    return (
        f"{about['date']}, revision {about['revision']}, on {about['machine']}, Python"
        f" {about['python']}, load before the run {about['load']}; {versions}.\n\n"
        f"    {about['command']}\n"
    )


def tables(run: Run) -> str:
    parts = []
    for family, results in table.by_family(run.results).items():
        parts.append(f"### {family}\n\n{table.markdown(results)}\n")
    late = table.missed(run.results)
    parts.append(f"### What misses its goal\n\n{len(late)} of {len(run.results)} rows.\n")
    if late:
        parts.append(table.markdown(late) + "\n")
    return "\n".join(parts)
