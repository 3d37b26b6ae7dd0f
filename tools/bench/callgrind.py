"""What one `a + b` costs, in instructions: `python tools/bench --callgrind`.

Counts do not depend on the load of the machine. A fixed script runs under valgrind twice, with
few and with many additions; the difference of a function's instructions is its part of one. The
module must have kept its functions' names: build with `-DFACULA_SYMBOLS=ON`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tools.bench.processes import ROOT, environment

SCRIPT = """
import itertools, sys
import facula
def run(times):
    a, b = facula.zeros(1), facula.ones(1)
    for _ in itertools.repeat(None, times):
        a + b
run(int(sys.argv[1]))
"""
FEW, MANY = 1_000, 11_000
MODULE = "/facula/_C."

# Where a function of the module belongs: the first pattern that its name, without arguments,
# matches. These are functions of runtime/ and kinds of generated ones; what is left is "other".
PARTS = (
    ("wrap", r"wrap|tensor_(new|dealloc|traverse)|python::allocate|give_to_tensor"),
    ("parse", r"^facula::python::"),
    ("allocate", r"make_empty|pool_|Storage|allocat|TensorImpl|count_small|numel_of|bytes_of"),
    ("kernel", r"pointwise|take_short|loop_|active_isa|result_type|broadcast|strided|parallel"),
    ("dispatch", r"^facula::(ops|dispatch|autograd|detail)::|dispatch|KeySet|Stub"),
)
ORDER = ("interpreter", "parse", "dispatch", "allocate", "kernel", "wrap", "other")

Costs = dict[tuple[str, str], int]  # instructions by (object file, function)


def parse(lines: Iterable[str]) -> Costs:
    """Instructions that each function spends itself, from a file in callgrind's format."""
    names: dict[tuple[str, str], str] = {}  # a name stands behind its number only once
    costs: Costs = {}
    current = {"ob": "", "fn": ""}
    inclusive = False
    for line in lines:
        if match := re.match(r"(c?)(ob|fn)=\((\d+)\)(?: (.*))?$", line):
            called, kind, number, name = match.groups()
            if name:
                names[kind, number] = name.strip()
            if not called:
                current[kind] = names.get((kind, number), "")
        elif line.startswith("calls="):
            inclusive = True  # the next line is what the called function cost
        elif match := re.match(r"(?:\+|-)?(?:\d+|\*) (\d+)\s*$", line):
            if not inclusive:
                key = current["ob"], current["fn"]
                costs[key] = costs.get(key, 0) + int(match[1])
            inclusive = False
    return costs


def part_of(obj: str, function: str) -> str:
    if MODULE not in obj:
        return "interpreter"
    name = function.replace("(anonymous namespace)::", "").split("(")[0]
    return next((part for part, pattern in PARTS if re.search(pattern, name)), "other")


def difference(few: Costs, many: Costs, calls: int) -> Costs:
    """Instructions of one call, by function; what starting costs is gone."""
    return {
        key: round((cost - few.get(key, 0)) / calls)
        for key, cost in many.items()
        if round((cost - few.get(key, 0)) / calls) > 0
    }


def breakdown(costs: Costs) -> str:
    """The parts and, below each, its functions."""
    parts: dict[str, list[tuple[int, str]]] = {name: [] for name in ORDER}
    for (obj, function), cost in costs.items():
        parts[part_of(obj, function)].append((cost, function))
    total = sum(costs.values())
    lines = [f"a + b, one element: {total} instructions"]
    for name, found in parts.items():
        cost = sum(c for c, _ in found)
        lines.append(f"  {name:<12} {cost:>6}  {cost / max(total, 1):>4.0%}")
        lines += [f"    {c:>6}  {short(f)}" for c, f in sorted(found, reverse=True)]
    return "\n".join(lines)


def short(function: str) -> str:
    """A function without its arguments."""
    name = function.replace("(anonymous namespace)::", "")
    return name.split("(")[0][:90]


def report() -> str:
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        return (
            "bench: --callgrind needs valgrind, which is not installed (apt-get install valgrind)"
        )
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "addition.py")
        script.write_text(SCRIPT, encoding="utf-8")
        counted = [count(valgrind, script, calls) for calls in (FEW, MANY)]
    costs = difference(*counted, MANY - FEW)
    if not any(MODULE in obj and function.startswith("facula::") for obj, function in costs):
        return (
            "bench: --callgrind: the module has no function names. Build it with them, e.g.\n"
            "  cmake -S . -B build/symbols -G Ninja -DFACULA_SYMBOLS=ON && ninja -C build/symbols"
        )
    return breakdown(costs)


def count(valgrind: str, script: Path, calls: int) -> Costs:
    out = script.with_suffix(f".{calls}")
    done = subprocess.run(
        [
            valgrind,
            "--tool=callgrind",
            f"--callgrind-out-file={out}",
            sys.executable,
            str(script),
            str(calls),
        ],
        env={**environment(1), "PYTHONHASHSEED": "0", "PWD": os.fspath(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"bench: --callgrind: valgrind failed:\n{done.stderr[-2000:]}")
    with out.open(encoding="utf-8", errors="replace") as lines:
        return parse(lines)
