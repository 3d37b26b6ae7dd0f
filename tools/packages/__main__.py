"""How many of the tests of public packages that pass on torch pass on facula.

    python -m tools.packages prepare [--from TEMPLATE]   environments and sources, once
    python -m tools.packages run [NAME...]               the table
    python -m tools.packages scan                        names of torch they use that are missing
    python -m tools.packages programs [NAME...]          programs of pytorch/examples
    python -m tools.packages names LIST [--reasons 1]    which names of a list are there

Of each package a seeded sample of its own tests is run on torch, once, and those that pass are run
on facula through `python -m facula.as_torch`, in an environment without torch. Everything is kept
in `--work`; results on torch are taken from there unless `--again`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from . import names, report, runs, tutorials
from .prepare import link, prepare
from .table import PACKAGES, Package

ROOT = Path(__file__).resolve().parents[2]


def _kept(work: Path, side: str, package: Package) -> Path:
    return work / "results" / f"{package.name}.{side}.json"


def _on_torch(work: Path, package: Package, seed: int, again: bool, at_most: int) -> dict[str, Any]:
    kept = _kept(work, "torch", package)
    if kept.exists() and not again:
        found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return found
    count = min(package.sample, at_most or package.sample)
    names = runs.draw(runs.collect(work, "torch", package), count, seed)
    found = runs.run(work, "torch", package, names)
    kept.write_text(json.dumps(found, indent=0), encoding="utf-8")
    return found


def _run(options: argparse.Namespace) -> int:
    work: Path = options.work
    (work / "results").mkdir(parents=True, exist_ok=True)
    link(work, PACKAGES)
    rows = []
    for package in PACKAGES:
        if options.names and package.name not in options.names:
            continue
        print(f"{package.name} ...", file=sys.stderr, flush=True)
        try:
            torch = _on_torch(work, package, options.seed, options.again, options.at_most)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            continue
        passed = [name for name, found in torch.items() if found["outcome"] == "passed"]
        kept = _kept(work, "facula", package)
        if options.kept and kept.exists():
            facula = json.loads(kept.read_text(encoding="utf-8"))
        else:
            facula = runs.run(work, "facula", package, passed)
            kept.write_text(json.dumps(facula, indent=0), encoding="utf-8")
        print(f"  {len(passed)} pass on torch", file=sys.stderr, flush=True)
        rows.append(report.row(package.name, torch, facula))
    print(report.table(rows, options.reasons))
    return 0


def _scan(options: argparse.Namespace) -> int:
    from facula.as_torch.scan import scan

    users: dict[str, set[str]] = defaultdict(set)
    places: dict[str, str] = {}
    statuses: dict[str, str] = {}
    for package in PACKAGES:
        if options.names and package.name not in options.names:
            continue
        root = options.work / "src" / package.name
        paths = [str(root / path) for path in (*package.modules, *package.tests)]
        for name in scan([path for path in paths if Path(path).exists()]).names:
            if name.status in ("missing", "refused"):
                users[name.name].add(package.name)
                statuses[name.name] = name.status
                places.setdefault(name.name, name.places[0])
    for name in sorted(users, key=lambda n: (-len(users[n]), n)):
        where = places[name].removeprefix(str(options.work / "src") + "/")
        print(f"{len(users[name]):3} {statuses[name]:<8} torch.{name:<50} {where}")
    return 0


def _programs(options: argparse.Namespace) -> int:
    tutorials.make_data(options.work / "src" / "examples")
    failed = 0
    for program in tutorials.PROGRAMS:
        if options.names and program.folder not in options.names:
            continue
        for side in ("torch", "facula"):
            failures, seconds = tutorials.run(options.work, side, program)
            failed += bool(failures) and side == "facula"
            said = "; ".join(failures) or "ends well"
            print(f"{program.folder:<26}{side:<8}{seconds:7.1f} s  {said}", flush=True)
    return int(failed > 0)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.packages",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("verb", choices=["prepare", "run", "scan", "names", "programs"])
    parser.add_argument("names", nargs="*", help="packages; all of them by default")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "packages")
    parser.add_argument("--from", dest="template", default="https://github.com/{owner}/{name}")
    parser.add_argument("--torch", default="torch==2.13.0", help="what pip installs beside them")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--at-most", type=int, default=0, help="tests drawn of a package")
    parser.add_argument("--again", action="store_true", help="run on torch anew")
    parser.add_argument("--kept", action="store_true", help="show what was found last")
    parser.add_argument("--reasons", type=int, default=5, help="how many to show for a package")
    options = parser.parse_intermixed_args()
    options.work = options.work.resolve()
    if options.verb == "prepare":
        options.work.mkdir(parents=True, exist_ok=True)
        prepare(options.work, options.template, options.torch)
        return 0
    if options.verb == "programs":
        return _programs(options)
    if options.verb == "names":
        for name in options.names:
            print(names.table(Path(name), bool(options.reasons)))
        return 0
    return _run(options) if options.verb == "run" else _scan(options)


if __name__ == "__main__":
    sys.exit(main())
