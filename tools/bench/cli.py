"""The command line of `python tools/bench`."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.bench import callgrind, chart, compare, pages, table
from tools.bench.measure import BUSY, QUICK, Plan, Runner, run_all
from tools.bench.processes import ROOT, Busy, Crew, Failed
from tools.bench.result import Run
from tools.bench.row import Row, families


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python tools/bench",
        description="Compares facula with torch and NumPy: medians of interleaved rounds.",
    )
    p.add_argument("--filter", metavar="TEXT", help="only rows whose name has this text")
    p.add_argument("--family", metavar="NAMES", help="only these families, separated by commas")
    p.add_argument("--device", default="cpu", help='where the rows run: "cpu" or "cuda"')
    p.add_argument("--threads", default="1,2", help="numbers of threads, separated by commas")
    p.add_argument("--quick", action="store_true", help="three short rounds; for a first look")
    p.add_argument("--rounds", type=int, help="rounds of a row, instead of 7 to 11")
    p.add_argument("--busy", action="store_true", help="each row again beside a busy process")
    p.add_argument("--list", action="store_true", help="print the rows and their goals")
    p.add_argument("--json", metavar="FILE", help="write the results")
    p.add_argument("--svg", metavar="FILE", help="write the ratios as a picture")
    p.add_argument("--docs", action="store_true", help="put the results into docs/benchmarks.md")
    p.add_argument("--from", dest="source", metavar="FILE", help="show this run; measure nothing")
    p.add_argument(
        "--compare", metavar="REV|FILE", help="with a revision, a run's file, a built package"
    )
    p.add_argument("--callgrind", action="store_true", help="instructions of one a + b, by part")
    return p


def chosen(args: argparse.Namespace) -> list[Row]:
    known = families()
    names = args.family.split(",") if args.family else list(known)
    for name in names:
        if name not in known:
            sys.exit(f"bench: no family {name!r}; there are {', '.join(known)}")
    rows = [row for name in names for row in known[name].rows if row.device == args.device]
    if not rows:
        sys.exit(f"bench: {', '.join(names)}: no rows for the device {args.device!r}")
    if args.filter:
        rows = [row for row in rows if args.filter in row.name]
    if not rows:
        sys.exit(f"bench: no row has {args.filter!r} in its name")
    return rows


def about(crew: Crew, threads: list[int], device: str = "cpu") -> dict[str, Any]:
    """When, where and of what the figures are."""
    versions = {}
    for name in ("facula", "torch", "numpy"):
        try:
            versions[name] = crew.get(name, threads[0]).about["version"]
        except Failed as failure:
            if name == "facula":
                sys.exit(f"bench: facula does not load: {failure}")
            print(f"bench: {name} is left out: {failure}", file=sys.stderr)
    revision = ""
    if shutil.which("git"):
        git = ["git", "describe", "--always", "--dirty"]
        revision = subprocess.run(git, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    card = ""
    if device != "cpu":
        card = f", {crew.get('facula', threads[0]).device_name(device)}"
    return {
        "device": device,
        "date": datetime.datetime.now().strftime("%Y-%m-%d %H:%M"),
        "machine": f"{processor()}, {os.cpu_count()} cores, {platform.system()}{card}",
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
        "revision": revision,
        "versions": versions,
        "command": shlex.join(["python", "tools/bench", *sys.argv[1:]]),
    }


def processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = dict(x.split(":", 1) for x in file.read().split("\n\n")[0].splitlines())
        found = {k.strip(): v.strip() for k, v in lines.items()}
        return found.get("model name", platform.processor())
    except (OSError, ValueError):
        return platform.processor()


def measure(
    args: argparse.Namespace, rows: list[Row], threads: list[int], base: compare.Base | None
) -> Run:
    plan = QUICK if args.quick else Plan()
    if args.rounds:
        plan = Plan(args.rounds, plan.sample, plan.budget if args.quick else 1e9)
    cpus = sorted(os.sched_getaffinity(0))[:2] if args.busy else []
    crew = Crew({base.opponent: base.site} if base and base.site else {}, set(cpus))
    run = Run(about(crew, threads, args.device), [])
    opponents = tuple(n for n in ("torch", *crew.paths) if n not in crew.missing)
    print(head(run), flush=True)
    width = max(len(row.name) for row in rows) + (len(BUSY) if args.busy else 0)
    family = ""
    busy = Busy(cpus[0]) if args.busy else None
    try:
        for result in run_all(Runner(crew, plan, opponents, busy), rows, threads):
            if result.family != family:
                family = result.family
                print("\n" + table.heading(family, width))
            print(table.line(result, width), flush=True)
            run.results.append(result)
            if args.json:  # whatever ends the run, what has run is kept
                run.save(args.json)
    except KeyboardInterrupt:
        print("\nbench: stopped", file=sys.stderr)
    finally:
        crew.close()
        if busy:
            busy.close()
    return run


def head(run: Run) -> str:
    found = run.about
    versions = ", ".join(f"{k} {v}" for k, v in found["versions"].items())
    first = f"{found['date']}, {found['machine']}, load {found['load']}"
    return f"{first}\n{versions}; revision {found['revision']}"


def main() -> None:
    args = parser().parse_args()
    if args.callgrind:
        print(callgrind.report())
        return
    threads = [int(t) for t in args.threads.split(",")]
    rows = chosen(args)
    if args.list:
        for row in rows:
            print(f"{row.key}: at most {row.goal:g} of torch")
        return
    base = compare.resolve(args.compare) if args.compare else None
    if args.source:
        run = Run.load(args.source)
        if args.family or args.filter:
            keys = {(row.family, row.name) for row in rows}
            run.results = [r for r in run.results if (r.family, r.name.removesuffix(BUSY)) in keys]
        print(head(run) + "\n\n" + table.text(run))
    else:
        run = measure(args, rows, threads, base)
    print("\n" + table.summary(run) + "\n\n" + table.late(run))
    if base is not None:
        print("\n" + compare.report(base, run))
    if args.json:
        run.save(args.json)
    if args.svg:
        Path(args.svg).write_text(chart.chart(run), encoding="utf-8")
    if args.docs:
        print("wrote " + ", ".join(str(p.relative_to(ROOT)) for p in pages.publish(run)))
