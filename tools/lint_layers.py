#!/usr/bin/env python3
"""One way down: who may include, or import, whom.

A file uses its own layer and those that the layer's row names. A row names rows above itself only,
so that no way leads back. What a lower layer needs of a higher one is handed down to it: a function
pointer that the higher one sets, a registration, a declaration of a type that is only passed on.

C++ is read by `#include "..."`, in the generator too. Python is read by its imports, wherever they
stand, and by `facula.NAME` of a name that the front of the package loads on first use.
"""

from __future__ import annotations

import ast
import re
import runpy
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Layer(NamedTuple):
    name: str
    places: str  # a folder stands for all in it; the longest place that fits a file counts
    uses: str = ""


LAYERS = (
    # ---- C++ ----
    Layer("interface", "python/facula/include"),
    Layer("modules", "python/facula/include/facula/module.h"),
    Layer("core", "runtime/core"),
    Layer("iterate", "runtime/iterate", "core"),
    Layer("dispatch", "runtime/dispatch", "core iterate"),
    Layer("device", "runtime/device", "interface core iterate dispatch"),
    Layer("autograd", "runtime/autograd", "core dispatch"),
    Layer("bindings", "runtime/bindings", "core iterate dispatch device autograd"),
    Layer(
        "operators",
        "codegen/emit/templates/ops.h.j2 codegen/emit/templates/kernels.h.j2",
        "dispatch",
    ),
    Layer(
        "extension",
        "python/facula/include/facula/extension.h",
        "modules iterate autograd bindings operators",
    ),
    Layer("aten", "aten", "interface core iterate dispatch device autograd operators"),
    Layer("rules", "aten/shape", "interface core iterate operators aten"),
    Layer("cpu", "aten/cpu", "interface core iterate operators aten"),
    Layer("composite", "aten/composite", "core dispatch device operators aten"),
    Layer("cuda", "aten/cuda", "interface"),  # a vendor like others
    Layer(
        "generated",
        "codegen/emit/templates",
        "modules core dispatch autograd bindings operators aten",
    ),
    # ---- the package ----
    Layer("exports", "python/facula/_exports.py"),
    Layer("moving", "python/facula/_moving.py", "exports"),
    Layer("front", "python/facula/__init__.py", "exports moving"),
    Layer("base", "python/facula", "front"),
    Layer("gradients", "python/facula/autograd", "front"),
    Layer("backends", "python/facula/backends", "front exports moving"),
    Layer("sharing", "python/facula/multiprocessing", "front base"),
    Layer("vendors", "python/facula/cuda", "front base backends sharing"),
    Layer("amp", "python/facula/amp", "front gradients backends"),
    Layer("utils", "python/facula/utils", "front base backends sharing"),
    Layer("sparse", "python/facula/sparse", "front base gradients"),
    Layer("nn", "python/facula/nn", "front moving base gradients amp utils sparse"),
    Layer("fx", "python/facula/fx", "front base nn"),
    Layer("compiler", "python/facula/compiler", "front base utils nn"),
    Layer("library", "python/facula/library", "front base gradients amp utils"),
    Layer("func", "python/facula/func", "front base gradients utils nn"),
    Layer("attention", "python/facula/nn/attention", "front base gradients nn func"),
    Layer("optim", "python/facula/optim", "front base gradients utils sparse"),
    Layer("distributions", "python/facula/distributions", "front base gradients nn"),
    Layer("averages", "python/facula/optim/swa_utils.py", "front gradients nn optim"),
    Layer("checkpoint", "python/facula/utils/checkpoint", "front base gradients amp nn"),
    Layer("pinning", "python/facula/_pinning.py python/facula/accelerator.py", "front backends"),
    Layer("streams", "python/facula/_settings.py python/facula/_streams.py", "front base pinning"),
    Layer(
        "profiler",
        "python/facula/profiler python/facula/autograd/profiler.py python/facula/utils/_flops.py"
        " python/facula/utils/flop_counter.py python/facula/utils/benchmark",
        "front base nn utils pinning",
    ),
    Layer("files", "python/facula/serialization", "front base utils sparse nn"),
    Layer("jit", "python/facula/jit", "front base exports gradients utils nn files"),
    Layer("export", "python/facula/export", "front base gradients utils nn files jit"),
    Layer("hub", "python/facula/hub.py", "front files"),
    Layer(
        "training",
        "python/facula/utils/trainer python/facula/utils/tensorboard python/facula/legacy",
        "front base gradients amp nn optim files",
    ),
    Layer(
        "distributed",
        "python/facula/distributed",
        "front base gradients utils nn optim files checkpoint",
    ),
    Layer(
        "parallel",
        "python/facula/nn/parallel/distributed.py python/facula/nn/parallel/_reducer.py",
        "front gradients nn utils distributed",
    ),
    Layer("config", "python/facula/__config__.py", "front base backends"),
    Layer("testing", "python/facula/testing", "front base gradients backends"),
    Layer(
        "examples",
        "python/facula/examples",
        "front sharing utils nn func optim distributions distributed",
    ),
    Layer(
        "as_torch",
        "python/facula/as_torch",
        "front moving base gradients backends vendors amp utils library sparse nn fx compiler optim"
        " distributions pinning config hub jit export profiler testing distributed",
    ),
    # ---- the workshop ----
    Layer("schema", "codegen/schema"),
    Layer("scalar", "codegen/scalar", "schema"),
    Layer("tensor", "codegen/tensor", "schema scalar"),
    Layer("emit", "codegen/emit", "schema scalar tensor"),
    Layer("fmt", "codegen/fmt", "schema"),
    Layer("codegen", "codegen", "schema scalar tensor emit fmt"),
    Layer("scaffold", "tools/backend", "interface backends"),
    Layer("tools", "tools"),
    Layer("names", "tools/lint_names.py", "schema"),
    Layer("oracle", "tools/parity.py tools/parity_compare.py", "front nn"),
    Layer("packages", "tools/packages", "as_torch"),
    Layer("mutants", "tools/mutate", "schema scalar tensor emit"),
)
# Headers that do not lie where an #include looks for them, by the beginnings of their names.
ELSEWHERE = {
    "facula/ops.h": "codegen/emit/templates/ops.h.j2",
    "facula/kernels.h": "codegen/emit/templates/kernels.h.j2",
    "facula/shapes.h": "codegen/emit/templates/kernels.h.j2",
    "facula/cuda/": "aten/cuda/kernels/",
    "facula/": "python/facula/include/facula/",
}
ADVICE = "let the higher one set a function pointer or register itself, or move down what both need"
PACKAGES = {"codegen": "codegen", "tools": "tools", "facula": "python/facula"}
CPP = (".h", ".cpp", ".cu", ".c", ".j2", ".py")
INCLUDE = re.compile(r'#\s*include\s*\\?"([^"{}\\]+)')


class Use(NamedTuple):
    source: str  # paths from the root
    line: int
    target: str
    how: str = ""  # where an import stands, if not at the top


Line = tuple[int, list[str], str]  # where the file may lie that it takes, and how it takes it


def included(root: Path, path: Path) -> Iterator[Line]:
    beside = path.parent.relative_to(root).as_posix()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for name in INCLUDE.findall(line):
            moved = [to + name.removeprefix(s) for s, to in ELSEWHERE.items() if name.startswith(s)]
            yield number, [*moved[:1], f"{beside}/{name}", name], ""


def imported(root: Path, path: Path, lazy: Mapping[str, str]) -> Iterator[Line]:
    def names(node: ast.AST) -> list[str]:
        if isinstance(node, ast.Import):
            return [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            base = [node.module] if node.module else []
            if node.level:
                folder = path.parents[node.level - 1].relative_to(root).as_posix()
                base.insert(0, folder.removeprefix("python/").replace("/", "."))
            return [".".join([*base, alias.name]) for alias in node.names]
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return [lazy[node.attr]] if node.value.id == "facula" and node.attr in lazy else []
        return []

    def walk(node: ast.AST, how: str) -> Iterator[Line]:
        for child in ast.iter_child_nodes(node):
            within = how
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                within = " within a function"
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                within = " for types"
            for name in names(child):
                first, *rest = name.split(".")
                if first in PACKAGES and rest[:1] != ["_C"]:
                    steps = [PACKAGES[first], *rest]  # the last may be names within a module
                    stems = ["/".join(steps[:n]) for n in range(len(steps), 0, -1)]
                    files = [stem + end for stem in stems for end in (".py", "/__init__.py")]
                    yield getattr(child, "lineno", 0), files, within
            yield from walk(child, within)

    yield from walk(ast.parse(path.read_text(encoding="utf-8")), "")


def uses(root: Path, layers: Sequence[Layer] = LAYERS) -> list[Use]:
    """All that files of the layers take from one another."""
    exports = root / "python/facula/_exports.py"
    told = runpy.run_path(str(exports)) if exports.exists() else {}
    lazy = {n: f"facula.{n}" for n in told.get("SUBMODULES", ())}
    lazy |= {n: m for m, names in told.get("ATTRIBUTES", {}).items() for n in names.split()}
    found: set[Use] = set()
    tops = {place.split("/")[0] for layer in layers for place in layer.places.split()}
    for path in sorted(p for top in tops for p in (root / top).rglob("*") if p.is_file()):
        lines = list(imported(root, path, lazy)) if path.suffix == ".py" else []
        lines += included(root, path) if path.suffix in CPP else []
        for number, files, how in lines:
            for target in [f for f in files if (root / f).is_file()][:1]:
                found.add(Use(path.relative_to(root).as_posix(), number, target, how))
    return sorted(u for u in found if u.source != u.target)


def circles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """A shortest way round from each node that has one, but for the nodes of earlier ways."""
    found: list[list[str]] = []
    for start in sorted(edges):
        queue, seen = [[start]], {start}.union(*found)
        for way in queue:
            after = edges.get(way[-1], set())
            if start in after:
                found.append([*way, start])
                break
            queue += [[*way, n] for n in sorted(after - seen)]
            seen |= after
    return found


def row_of(rows: Mapping[str, Layer], path: str) -> Layer | None:
    places = [path, *(parent.as_posix() for parent in Path(path).parents)]
    return next((rows[place] for place in places if place in rows), None)


def faults(root: Path, layers: Sequence[Layer] = LAYERS) -> Iterator[str]:
    names = [layer.name for layer in layers]
    for i, layer in enumerate(layers):
        for name in sorted({*layer.uses.split()} - {*names[:i]}):
            yield f"the row of {layer.name} names {name}, which is no row above it"
    rows = {place: layer for layer in layers for place in layer.places.split()}
    files: dict[str, set[str]] = {}
    between: dict[str, set[str]] = {}
    for use in uses(root, layers):
        files.setdefault(use.source, set()).add(use.target)
        source, target = (row_of(rows, path) for path in (use.source, use.target))
        if source is None or target is None:
            yield f"{use.source}:{use.line}: no row has {use.target if source else 'this file'}"
        elif source is not target:
            between.setdefault(source.name, set()).add(target.name)
            if target.name not in source.uses.split():
                what = f"{target.name} ({use.target}{use.how})"
                yield f"{use.source}:{use.line}: {source.name} uses {what}, not below it: {ADVICE}"
    for layer in layers:
        for name in sorted({*layer.uses.split()} - between.get(layer.name, set())):
            yield f"the row of {layer.name} names {name}, of which it uses nothing"
    for way in circles(between) + circles(files):
        yield "a circle: " + " -> ".join(way)


if __name__ == "__main__":
    problems = list(faults(ROOT))
    print("\n".join(problems) or f"layers: {len(LAYERS)}, each uses those below it alone")
    sys.exit(bool(problems))
