"""Changes one operator, sign, bound, index or constant at a time, and counts what tests notice.

    python -m tools.mutate [--count 400] [--seed 1 2] [--part 0.15] [--jobs 2] [--show]

Each seed is a sample of its own, with a table of its own. One build holds all mutants, of the
schema's formulas and of C++, each behind a switch; the program without any is what it was. Each
mutant is then judged by the tests of tests/ops that reach it.
What was done already is kept in the tree and goes on from there; `--again` forgets verdicts.
`survivors.yaml` beside this file says why a mutant that no test notices changes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from . import runner, tree

ROOT = Path(__file__).resolve().parents[2]
REASONS = Path(__file__).parent / "survivors.yaml"
GOAL = 0.97


def workers(folder: Path, what: str, jobs: int, tests: list[str], only: str) -> None:
    """Runs pytest with the plugin in several processes, and shows how far they are."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join([str(folder / "python"), str(folder), *filter(None, given)])
    running = []
    for index in range(jobs):
        switch = folder / f"switch.{index}"
        env = {
            **os.environ,
            "PYTHONPATH": path,
            "FACULA_MUTANTS": str(switch),
            "FACULA_MUTATE": what,
            "FACULA_MUTATE_WORKER": f"{folder}:{index}:{jobs}",
            "FACULA_MUTATE_ONLY": only,
        }
        switch.write_bytes(b"\xff\xff\xff\xff" + bytes(runner.SIZE - 4))
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "tools.mutate.runner",
            "-p",
            "no:cacheprovider",
            *tests,
        ]
        log = (folder / f"log.{what}.{index}").open("w")
        running.append(subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log))
    while any(p.poll() is None for p in running):
        time.sleep(1)
        if sys.stderr.isatty():
            done = len(runner.results(folder) if what == "judge" else runner.reached(folder))
            unit = "mutants judged" if what == "judge" else "tests run"
            print(f"\r{done} {unit}   ", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr)


def _reasons() -> dict[str, str]:
    known = yaml.safe_load(REASONS.read_text(encoding="utf-8")) if REASONS.exists() else None
    return {shown: entry["reason"] for entry in known or [] for shown in entry["mutants"]}


def key(mutant: dict[str, Any]) -> str:
    """What a mutant is known by, wherever its line moves."""
    return f"{mutant['subject']}: {mutant['shown']}"


def report(folder: Path, show: bool, seed: int) -> int:
    mutants = json.loads((folder / "mutants.json").read_text())
    mutants = {n: m for n, m in mutants.items() if seed in m["seeds"]}
    verdicts = {str(r["mutant"]): r for r in runner.results(folder)}
    reasons = _reasons()
    table: dict[str, Counter[str]] = {}
    left = []
    for number, mutant in mutants.items():
        verdict = verdicts.get(number)
        if verdict is None:
            continue
        noticed = bool(verdict["by"])
        state = "noticed" if noticed else "no difference" if key(mutant) in reasons else "survived"
        for row in (f"{mutant['kind']}", f"{mutant['kind']}, {mutant['family']}", "all"):
            table.setdefault(row, Counter())[state] += 1
        if state == "survived":
            left.append((mutant, verdict))
    for mutant, verdict in sorted(left, key=lambda pair: pair[0]["place"]):
        print(
            f"{mutant['place']}: {key(mutant)} ({mutant['what']}; {verdict['how']} of "
            f"{verdict['tests']} tests)"
        )
    title = f"seed {seed}"
    print(f"{title:<58} mutants noticed  no difference  survived  share")
    for row in sorted(table):
        if "," in row and not show:
            continue
        c = table[row]
        judged = c["noticed"] + c["survived"]
        print(
            f"{row:<58} {c.total():7} {c['noticed']:7} {c['no difference']:14} {c['survived']:9} "
            f"{c['noticed'] / judged if judged else 1:7.1%}"
        )
    c = table.get("all", Counter())
    judged = c["noticed"] + c["survived"]
    return 0 if judged and c["noticed"] / judged >= GOAL else 1


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=400, help="how many mutants")
    parser.add_argument("--seed", type=int, nargs="+", default=[1])
    parser.add_argument(
        "--part",
        type=float,
        default=0.15,
        help="share of the files that get mutants: fewer compile",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--tree", type=Path, default=ROOT / "build" / "mutate")
    parser.add_argument("--again", help="numbers to judge anew, or `survivors`")
    parser.add_argument("--tests", nargs="*", default=["tests/ops"], help="what judges")
    parser.add_argument("--only", choices=["build", "reach", "judge", "report"])
    parser.add_argument("--show", action="store_true", help="a line for each family too")
    args = parser.parse_args()
    folder = args.tree.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if args.only in (None, "build") and not (folder / "mutants.json").exists():
        tree.make(ROOT, folder, args.count, args.seed, args.part, args.jobs)
    tree.copied(ROOT, folder, "tests")  # what judges is what is on disk now
    if args.only in (None, "reach"):
        workers(folder, "reach", args.jobs, args.tests, "")
    if args.only in (None, "judge"):
        again = args.again or ""
        if again == "survivors":
            again = ",".join(str(r["mutant"]) for r in runner.results(folder) if not r["by"])
        workers(folder, "judge", args.jobs, args.tests, again)
    return max(report(folder, args.show, seed) for seed in args.seed)


if __name__ == "__main__":
    sys.exit(main())
