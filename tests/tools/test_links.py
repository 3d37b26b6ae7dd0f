"""One way down for the linker too: what objects of a build take from those of other layers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tools.lint_layers import LAYERS, ROOT, row_of

# What generated headers declare, kernels above all: they are bound by name, wherever they are.
BOUND = ("ops", "entries", "any", "cpu", "composite", "device", "shape")
# Where the module begins, in generated code.
ENTRIES = ("facula::register_generated()", "facula::python::generated_bindings()")


def objects() -> list[Path]:
    newest = max(ROOT.glob("build/*/native"), key=lambda p: p.stat().st_mtime, default=None)
    return [] if newest is None else sorted(newest.rglob("*.o"))


def below() -> dict[str, set[str]]:
    """Each row's name and those of all that it uses, itself or by others."""
    found: dict[str, set[str]] = {}
    for row in LAYERS:
        found[row.name] = {row.name}.union(*(found[name] for name in row.uses.split()))
    return found


def layer_of(path: Path) -> str:
    where = path.as_posix().partition("/__/")[2]
    row = row_of({r: layer for layer in LAYERS for r in layer.places.split()}, where)
    return "generated" if where.startswith("generated/") else row.name if row else ""


def symbols(paths: list[Path]) -> tuple[dict[str, str], set[tuple[str, str, str]]]:
    """Layers by what they define, and (layer, file, name) of what is not defined there."""
    text = subprocess.run(
        ["nm", "-A", "-C", *map(str, paths)], capture_output=True, text=True, check=True
    ).stdout
    defined: dict[str, str] = {}
    wanted = set()
    layers = {str(path): layer_of(path) for path in paths}
    for line in text.splitlines():
        path, _, rest = line.partition(".o:")
        kind, name = rest[17:18], rest[19:]
        if kind in "TDBR":
            defined[name] = layers[path + ".o"]
        elif kind == "U" and name.startswith("facula::"):
            wanted.add((layers[path + ".o"], Path(path).name, name))
    return defined, wanted


@pytest.mark.skipif(not objects() or shutil.which("nm") is None, reason="needs a build and nm")
def test_objects_take_from_below() -> None:
    defined, wanted = symbols(objects())
    assert len(wanted) > 100
    lower = below()
    bound = tuple(f"facula::{space}::" for space in BOUND)
    up = [
        f"{file} of {layer} takes {name} of {defined[name]}"
        for layer, file, name in sorted(wanted)
        if name in defined and defined[name] not in lower[layer]
        and not name.startswith(bound) and name not in ENTRIES
    ]  # fmt: skip
    assert not up, "\n".join(up)
