"""The mutated tree: a copy of the repository whose build holds all mutants, each behind a switch.

What is on disk counts, committed or not. The switch is a file that processes map: the number of the
mutant that is on, and a byte for each that was reached.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from codegen.emit.plans import plan_of
from codegen.emit.pointwise import SHARDS, shard_of
from codegen.schema import expr
from codegen.schema.model import Schema
from codegen.schema.reader import read_schema
from codegen.tensor.derive import derive

from . import formulas, language, sources

SWITCH = """\
// The switch of mutants: which one is on, and which were reached.
#pragma once
#include <cstdint>
namespace facula {
struct MutantSwitch {
  volatile int32_t on;
  volatile uint8_t reached[65532];
};
extern MutantSwitch* mutant_switch;
inline bool mutant(int64_t number) {
  mutant_switch->reached[number] = 1;
  return mutant_switch->on == number;
}
}  // namespace facula
"""
STATE = """\
#include "runtime/core/mutant.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cstdlib>

namespace facula {
static MutantSwitch off{-1, {}};
static MutantSwitch* opened() {
  const char* path = std::getenv("FACULA_MUTANTS");
  const int file = path ? ::open(path, O_RDWR) : -1;
  void* found = MAP_FAILED;
  constexpr auto size = sizeof(MutantSwitch);
  if (file >= 0) found = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return found == MAP_FAILED ? &off : static_cast<MutantSwitch*>(found);
}
MutantSwitch* mutant_switch = &off;
// Before anything that is initialised asks.
__attribute__((constructor(101))) static void open_switch() { mutant_switch = opened(); }
}  // namespace facula
"""
SHARES = {"scalar": 0.2, "derivative": 0.2, "composite": 0.22, "shape": 0.16, "kernel": 0.22}
_SECTION = re.compile(r"^# ---- (.*) ----$")
_ERROR = re.compile(r"^(\S+?):(\d+):(?:\d+:)? (?:fatal )?error: ", re.M)
# Where an error in a function of a header comes from.
_INLINED = re.compile(r"inlined from .* at (\S+?):(\d+):")
_NUMBER = re.compile(r"\bmutant\((?:int64_t\{)?(\d+)")


@dataclasses.dataclass(frozen=True)
class Mutant:
    kind: str
    family: str
    subject: str  # an operator or a file
    place: str
    what: str
    shown: str
    spot: Any = dataclasses.field(repr=False, compare=False, default=None)  # (operator, key), or ()
    change: Any = dataclasses.field(repr=False, compare=False, default=None)
    seeds: tuple[int, ...] = dataclasses.field(compare=False, default=())


# ---- candidates ----


def _families(schema_file: Path) -> list[tuple[int, str]]:
    lines = schema_file.read_text(encoding="utf-8").split("\n")
    return [(i + 1, m[1]) for i, line in enumerate(lines) if (m := _SECTION.match(line))]


def candidates(root: Path, schema: Schema) -> Iterator[Mutant]:
    families = _families(root / "ops.yaml")
    for op in schema.callables:
        family = next((n for line, n in reversed(families) if line < op.location.line), "")
        for spot in formulas.spots(op):
            for change in formulas.changes(spot, op):
                place = f"{spot.formula.location.file}:{change.line}"
                yield Mutant(
                    spot.kind,
                    family,
                    op.name,
                    place,
                    change.what,
                    change.text,
                    (op.name, spot.key),
                    change,
                )
    for name, (kind, family) in sources.files(root).items():
        for site in sources.sites((root / name).read_text(encoding="utf-8")):
            yield Mutant(kind, family, name, f"{name}:{site.line}", site.what, site.shown, (), site)


def _place(seed: int, *what: object) -> bytes:
    """Where a thing stands in a seed's order, whatever else there is: edits leave samples alone."""
    return hashlib.sha256(repr((seed, *what)).encode()).digest()


def choose(
    schema: Schema, found: list[Mutant], count: int, seed: int, part: float = 1.0
) -> list[Mutant]:
    """So many of each kind, of its families in turn, in a part of the files that are compiled."""
    shards = {op.name: shard_of(op) for op in schema.callables}
    order = sorted(range(SHARDS), key=lambda shard: _place(seed, "shard", shard))
    open_shards = set(order[: max(1, round(SHARDS * part))])
    folders: dict[str, set[str]] = {}
    for name in {m.subject for m in found if not m.spot}:
        folders.setdefault(str(Path(name).parent), set()).add(name)
    files = set()
    for names in folders.values():
        names_in_order = sorted(names, key=lambda name: _place(seed, "file", name))
        files.update(names_in_order[: math.ceil(len(names) * part)])
    found = [
        m for m in found if (shards[m.subject] in open_shards if m.spot else m.subject in files)
    ]
    chosen = []
    for kind, share in SHARES.items():
        groups: dict[str, dict[bytes, Mutant]] = {}
        for m in found:
            if m.kind == kind:
                group = groups.setdefault(m.family, {})
                times = itertools.count()  # the same change may stand in several places
                place = next(
                    p for n in times if (p := _place(seed, m.subject, m.shown, n)) not in group
                )
                group[place] = m
        families = sorted(groups, key=lambda name: _place(seed, kind, name))
        in_order = ([m for _, m in sorted(groups[name].items())] for name in families)
        turns = itertools.zip_longest(*in_order)
        chosen += [m for turn in turns for m in turn if m][: round(count * share)]
    return chosen


# ---- what the copy's generator does ----


def generated(schema: Schema, folder: Path) -> Schema:
    """The schema with the texts that `write` left; the copy's generator calls this."""
    language.extend()
    texts = {(n, tuple(k)): t for n, k, t in json.loads((folder / "formulas.json").read_text())}
    ops = []
    for op in schema.callables:
        new = op
        for spot in formulas.spots(op):
            if (op.name, spot.key) in texts:
                text, at = texts[op.name, spot.key], spot.formula.location
                made = expr.parse(text, at, program=not spot.of_elements)
                new = formulas.replaced(new, spot.key, made)
        ops.append(new)
    return formulas.of_callables(schema, ops)


def translates(schema: Schema, mutant: Mutant) -> bool:
    """Whether the generator takes the changed formula."""
    language.extend()
    op = schema.operator(mutant.spot[0])
    spot = next(s for s in formulas.spots(op) if s.key == mutant.spot[1])
    try:
        made = formulas.with_mutants(spot, {1: mutant.change})
        plan_of(schema, formulas.replaced(op, spot.key, made))
    except Exception:
        return False
    return True


# ---- the copy ----


def copied(root: Path, tree: Path, under: str = ".") -> None:
    """Sources as they are on disk, whose times change only with their contents."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", under],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    for name in filter(None, listed):
        source, target = root / name, tree / name
        if source.is_file() and (not target.exists() or target.read_bytes() != source.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def _put(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def write(root: Path, tree: Path, schema: Schema, mutants: dict[int, Mutant]) -> None:
    """Puts mutants into the copy, by the numbers they have."""
    (tree / "runtime" / "core").mkdir(parents=True, exist_ok=True)
    _put(tree / "runtime/core/mutant.h", SWITCH)
    _put(tree / "runtime/core/mutant.cpp", STATE)
    main = (root / "codegen/__main__.py").read_text(encoding="utf-8")
    call = "return derive(read_schema(path))"
    assert call in main, "codegen/__main__.py has another way to load the schema"
    mutated = main.replace(
        call,
        "from tools.mutate.tree import generated\n\n    return "
        "generated(derive(read_schema(path)), ROOT)",
    )
    _put(tree / "codegen/__main__.py", mutated)
    texts = []
    for op in schema.callables:
        for spot in formulas.spots(op):
            some = {n: m.change for n, m in mutants.items() if m.spot == (op.name, spot.key)}
            if some:
                texts.append([op.name, spot.key, formulas.with_mutants(spot, some).text])
    _put(tree / "formulas.json", json.dumps(texts, indent=0))
    os.utime(tree / "ops.yaml")  # what the build knows to generate from
    for name in sources.files(root):
        text = (root / name).read_text(encoding="utf-8")
        sites = {n: m.change for n, m in mutants.items() if not m.spot and m.subject == name}
        _put(tree / name, sources.with_mutants(text, sites) if sites else text)


def build(tree: Path, mutants: dict[int, Mutant], jobs: int) -> set[int]:
    """Compiles the copy; the numbers of mutants in lines that did not compile."""
    folder = tree / "build" / "module"
    if not (folder / "build.ninja").exists():
        settings = [
            "-DFACULA_CUDA=OFF",
            "-DFACULA_QUICK=ON",
            f"-DPython_EXECUTABLE={sys.executable}",
        ]
        subprocess.run(["cmake", "-G", "Ninja", "-S", tree, "-B", folder, *settings], check=True)
    command = ["ninja", "-C", str(folder), "-k", "0", "-j", str(jobs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as ninja:
        said = []
        for line in ninja.stdout or ():
            said.append(line)
            if line.startswith("["):
                print(f"\r{line.split()[0]} ", end="", file=sys.stderr, flush=True)
    print("\r", end="", file=sys.stderr)
    text = "".join(said)
    if ninja.returncode == 0:
        for name in (*folder.glob("_C.*.so"), *(folder / "generated" / "facula").iterdir()):
            shutil.copy(name, tree / "python" / "facula")
        return set()
    bad: set[int] = set()
    for name, number in [*_ERROR.findall(text), *_INLINED.findall(text)]:
        if Path(name).is_absolute() and tree not in Path(name).parents:
            continue  # a header of the compiler's
        path = Path(name) if Path(name).is_absolute() else folder / name
        lines = path.read_text(encoding="utf-8").split("\n")
        at = int(number) - 1
        # What a mutant spoils may be used further down: the nearest one, those before first.
        order = sorted(range(len(lines)), key=lambda i: (abs(i - at), i))
        bad |= next(
            (s for s in ({*map(int, _NUMBER.findall(lines[i]))} for i in order) if s), set()
        )
    if not bad & set(mutants):
        raise SystemExit("the copy does not compile:\n" + text[-3000:])
    return bad & set(mutants)


def make(
    root: Path, tree: Path, count: int, seeds: list[int], part: float, jobs: int
) -> dict[int, Mutant]:
    """Chooses mutants, a sample for each seed, and builds the copy with those that compile."""
    schema = derive(read_schema(root / "ops.yaml"))
    all_ = list(candidates(root, schema))
    samples: dict[int, tuple[int, ...]] = {}
    for seed in seeds:
        for m in choose(schema, all_, count, seed, part):
            samples[id(m)] = (*samples.get(id(m), ()), seed)
    chosen = [dataclasses.replace(m, seeds=samples[id(m)]) for m in all_ if id(m) in samples]
    good = [m for m in chosen if not m.spot or translates(schema, m)]
    print(f"{len(good)} of {len(chosen)} changes are formulas of the language")
    mutants = dict(enumerate(good, 1))
    copied(root, tree)
    while True:
        write(root, tree, schema, mutants)
        bad = build(tree, mutants, jobs)
        if not bad:
            break
        print(f"{len(bad)} do not compile and are left out")
        mutants = {n: m for n, m in mutants.items() if n not in bad}
    plain = {
        n: dataclasses.asdict(dataclasses.replace(m, spot=None, change=None))
        for n, m in mutants.items()
    }
    (tree / "mutants.json").write_text(json.dumps(plain, indent=1))
    return mutants
