"""Rows that are not timed in a loop: memory, imports, installed size."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import io
import re
import statistics
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.bench.processes import ROOT, Failed, environment
from tools.bench.result import Result, Second, paired_ratio, spread
from tools.bench.row import Row

MB = 1e6
IMPORT_TIME, IMPORT_RSS, WHEEL = 0.060, 40 * MB, 15 * MB
IMPORT = """
import time
start = time.perf_counter()
import {name}
took = time.perf_counter() - start
for line in open("/proc/self/status"):
    if line.startswith("VmRSS"):
        print(took, int(line.split()[1]) * 1024, {name}.__file__)
"""
FIRST = """
import {name}
x = {name}.ones(8, device="{device}")
(x + x).tolist()
"""


def compared(row: Row, threads: int, unit: str, found: dict[str, list[float]]) -> Result:
    result = Result(row.name, row.family, threads, row.goal, unit)
    for name, samples in found.items():
        result.medians[name] = statistics.median(samples)
        result.spreads[name] = round(spread(samples), 4)
        if name != "facula":
            result.ratios[name] = paired_ratio(found["facula"], samples)
    return result


def memory(runner: Any, row: Row, threads: int) -> Result:
    """Peak of a fresh process that sets a row up and runs it three times."""
    found: dict[str, list[float]] = {}
    for _ in range(min(3, runner.plan.rounds)):
        for name in ("facula", *runner.opponents):
            process = None
            try:
                process = runner.crew.fresh(name, threads)
                found.setdefault(name, []).append(process.memory(row.key))
            except Failed as failure:
                if name == "facula":
                    note = str(failure)
                    return Result(
                        row.name, row.family, threads, row.goal, "B", state=failure.kind, note=note
                    )
            finally:
                if process is not None:
                    process.close()
    return compared(row, threads, "B", found)


def device_memory(runner: Any, row: Row, threads: int) -> Result:
    """The most that a row holds on its device."""
    found: dict[str, list[float]] = {}
    for name in ("facula", *runner.opponents):
        process = None
        try:
            process = runner.crew.fresh(name, threads)
            found[name] = [process.device_memory(row.key)]
        except Failed as failure:
            if name == "facula":
                return Result(
                    row.name, row.family, threads, row.goal, "B",
                    state=failure.kind, note=str(failure),
                )  # fmt: skip
        finally:
            if process is not None:
                process.close()
    return compared(row, threads, "B", found)


def first_operation(runner: Any, row: Row, threads: int) -> Result:
    """Wall time of a fresh interpreter that adds two tensors on the device; the first turn fills
    caches of kernels and files."""
    times: dict[str, list[float]] = {}
    for turn in range(1 + max(2, min(5, runner.plan.rounds))):
        for name in ("facula", *runner.opponents):
            start = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-c", FIRST.format(name=name.split("@")[0], device=row.device)],
                env=environment(threads, runner.crew.paths.get(name, "")),
                cwd=ROOT,
                capture_output=True,
                text=True,
            )
            if done.returncode == 0 and turn > 0:
                times.setdefault(name, []).append(time.perf_counter() - start)
            elif done.returncode != 0 and name == "facula":
                note = done.stderr.strip().splitlines()[-1:]
                return Result(
                    row.name, row.family, threads, row.goal, state="error", note="".join(note)
                )
    return compared(row, threads, "s", times)


def import_time(runner: Any, row: Row, threads: int) -> Result:
    """Wall time of the import in a fresh interpreter, files in the page cache."""
    times: dict[str, list[float]] = {}
    resident: dict[str, float] = {}
    for turn in range(max(4, runner.plan.rounds)):
        for name in ("facula", *runner.opponents, "numpy"):
            module = name.split("@")[0]
            done = subprocess.run(
                [sys.executable, "-c", IMPORT.format(name=module)],
                env=environment(threads, runner.crew.paths.get(name, "")),
                cwd=ROOT,
                capture_output=True,
                text=True,
            )
            if done.returncode == 0 and turn > 0:  # the first round reads the files
                took, rss, _ = done.stdout.split(maxsplit=2)
                times.setdefault(name, []).append(float(took))
                resident[name] = float(rss)
    result = compared(row, threads, "s", times)
    result.also = [
        Second("ms", result.medians["facula"] * 1e3, IMPORT_TIME * 1e3),
        Second("RSS MB", resident["facula"] / MB, IMPORT_RSS / MB, torch=mb(resident.get("torch"))),
    ]
    return result


def mb(size: float | None) -> float | None:
    return None if size is None else size / MB


def size(runner: Any, row: Row, threads: int) -> Result:
    """Bytes on disk of each package and all that it requires; and of facula's wheel, which is
    its folder in a zip file."""
    done = subprocess.run(
        [sys.executable, "-c", "import facula; print(facula.__file__)"],
        env=environment(1, runner.crew.paths.get("facula", "")),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    folder = Path(done.stdout.strip()).parent
    found = {"facula": [float(folder_size(folder) + sum(map(distribution_size, requirements())))]}
    if "torch" in runner.opponents:
        needed = closure("torch")
        found["torch"] = [float(sum(map(distribution_size, needed)))]
    result = compared(row, threads, "B", found)
    result.also = [Second("wheel MB", zipped(folder) / MB, WHEEL / MB)]
    return result


def files_of(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts]


def folder_size(folder: Path) -> int:
    return sum(p.stat().st_size for p in files_of(folder))


def zipped(folder: Path) -> int:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files_of(folder):
            archive.write(path, path.relative_to(folder))
    return len(buffer.getvalue())


def requirements() -> set[str]:
    """All that facula requires, as pyproject.toml has it."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    match = re.search(r"^dependencies = \[(.*?)\]", text, re.M | re.S)
    assert match is not None
    needed: set[str] = set()
    for requirement in re.findall(r'"([^"]+)"', match[1]):
        needed |= closure(name_of(requirement))
    return needed


def closure(name: str) -> set[str]:
    """A distribution and what it requires, as far as that is installed."""
    needed, waiting = set(), [name]
    while waiting:
        found = waiting.pop()
        if found in needed:
            continue
        try:
            wanted = importlib.metadata.requires(found) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        needed.add(found)
        waiting += [name_of(r) for r in wanted if "extra ==" not in r]
    return needed


def name_of(requirement: str) -> str:
    match = re.match(r"[\w.-]+", requirement)
    assert match is not None
    return re.sub(r"[-_.]+", "-", match[0]).lower()


def distribution_size(name: str) -> int:
    total = 0
    for file in importlib.metadata.files(name) or []:
        path = Path(str(file.locate()))
        if path.suffix != ".pyc" and path.is_file():
            total += path.stat().st_size
    return total


PROBES: dict[str, Callable[[Any, Row, int], Result]] = {
    "memory": memory,
    "device memory": device_memory,
    "first operation": first_operation,
    "import": import_time,
    "size": size,
}
