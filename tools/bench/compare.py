"""Against another revision of facula: a git revision, an earlier run's file, or a folder.

A revision is built beside the working tree, in build/bench/, and takes part in every round under
the name facula@REV; so does a folder that has a built package `facula`. A file holds the results
of an earlier run; its times are of another hour, so ratios to torch are compared where both runs
have them.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tools.bench.processes import ROOT
from tools.bench.result import Result, Run
from tools.bench.table import digits

CHANGE = 0.05  # less than that is not told apart from noise


@dataclass
class Base:
    """What is compared with: results of an earlier run, or a site to import from."""

    name: str
    run: Run | None = None
    site: str = ""

    @property
    def opponent(self) -> str:
        return f"facula@{self.name}"


def resolve(argument: str) -> Base:
    path = Path(argument)
    if path.is_file():
        return Base(path.name, run=Run.load(path))
    if (path / "facula/__init__.py").is_file():
        return Base(path.resolve().name, site=str(path.resolve()))
    if shutil.which("git") is None:
        sys.exit(f"bench: --compare {argument}: no file, no package, and no git to find a revision")
    done = subprocess.run(
        ["git", "rev-parse", "--short", "--verify", f"{argument}^{{commit}}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(
            f"bench: --compare {argument}: no file, no folder with a package facula, no revision"
        )
    return Base(argument, site=build(done.stdout.strip()))


def build(revision: str) -> str:
    """The folder that a revision's package is installed in; built when it is not there yet."""
    folder = ROOT / "build/bench" / revision
    site, tree = folder / "site", folder / "tree"
    if (site / "facula/__init__.py").is_file():
        return str(site)
    print(f"bench: building {revision} in {folder}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)  # of a build that failed
    tree.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "archive", revision], cwd=ROOT, check=True, capture_output=True
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(tree)
    made = folder / "made"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(made), str(tree)], check=True)
    made.rename(site)
    return str(site)


@dataclass(frozen=True)
class Change:
    """A row now and then; `factor` above 1 is slower now."""

    name: str
    threads: int
    then: float
    now: float
    noise: float
    unit: str  # "of torch", or "s"

    @property
    def factor(self) -> float:
        return self.now / self.then

    @property
    def verdict(self) -> str:
        if abs(self.factor - 1) <= max(CHANGE, self.noise):
            return "same"
        return "slower" if self.factor > 1 else "faster"


def changes(base: Base, now: Run) -> list[Change]:
    """Every row that both have, the most slowed first."""
    found = []
    then = {r.key: r for r in base.run.results} if base.run else {}
    for result in now.results:
        if base.run is None:
            ratio = result.ratios.get(base.opponent)
            if ratio is not None:
                noise = noise_of(result, "facula", base.opponent)
                found.append(Change(label(result), result.threads, 1.0, ratio, noise, "of then"))
        elif (earlier := then.get(result.key)) is not None:
            change = against_file(earlier, result)
            if change is not None:
                found.append(change)
    return sorted(found, key=lambda c: -c.factor)


def against_file(then: Result, now: Result) -> Change | None:
    if then.ratio is not None and now.ratio is not None:
        noise = noise_of(now, "facula", "torch") + noise_of(then, "facula", "torch")
        return Change(label(now), now.threads, then.ratio, now.ratio, noise, "of torch")
    old, new = then.medians.get("facula"), now.medians.get("facula")
    if not old or not new:
        return None
    noise = noise_of(now, "facula") + noise_of(then, "facula")
    return Change(label(now), now.threads, old, new, noise, now.unit)


def noise_of(result: Result, *names: str) -> float:
    return sum(result.spreads.get(name, 0.0) for name in names)


def label(result: Result) -> str:
    return f"{result.family}: {result.name}"


def report(base: Base, now: Run) -> str:
    found = changes(base, now)
    if not found:
        return f"{base.name}: no row in common"
    lines = []
    for change in found:
        if change.verdict != "same":
            lines.append(
                f"  {change.verdict} {digits(change.factor)}x  {change.name}, {change.threads}"
                f" threads: {digits(change.then)} -> {digits(change.now)} {change.unit}"
            )
    same = sum(c.verdict == "same" for c in found)
    head = f"Against {base.name}: {len(found)} rows, {same} the same within noise"
    return "\n".join([head, *lines])
