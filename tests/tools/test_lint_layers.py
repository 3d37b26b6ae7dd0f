"""tools/lint_layers.py over small planted trees."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("lint_layers", ROOT / "tools/lint_layers.py")
assert _spec is not None and _spec.loader is not None
lint = importlib.util.module_from_spec(_spec)
sys.modules["lint_layers"] = lint
_spec.loader.exec_module(lint)

Layer = lint.Layer
CORE, LOOPS = Layer("core", "runtime/core"), Layer("loops", "runtime/loops", "core")
GENERATED = Layer("generated", "codegen", "loops")
BELOW = {"runtime/loops/run.h": '#include "runtime/core/tensor.h"', "runtime/core/tensor.h": ""}


def found(root: Path, files: dict[str, str], *layers: object) -> list[str]:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    return list(lint.faults(root, layers))


def test_the_house_has_one_way_down() -> None:
    assert list(lint.faults(ROOT)) == []


def test_down_is_allowed(tmp_path: Path) -> None:
    assert found(tmp_path, BELOW, CORE, LOOPS) == []


def test_up_is_told_with_its_place_and_the_circle(tmp_path: Path) -> None:
    up = {"runtime/core/tensor.h": '#pragma once\n#  include "runtime/loops/run.h"  // why not'}
    first, file_circle, circle = sorted(found(tmp_path, BELOW | up, CORE, LOOPS), reverse=True)
    assert first.startswith("runtime/core/tensor.h:2: core uses loops (runtime/loops/run.h), not")
    assert "function pointer" in first
    assert "runtime/loops/run.h -> runtime/core/tensor.h" in file_circle
    assert circle == "a circle: core -> loops -> core"


def test_subfolders_are_of_the_layer_and_files_meet_beside(tmp_path: Path) -> None:
    files = {
        "runtime/loops/deep/walk.cpp": '#include "walk.h"\n#include "runtime/core/tensor.h"',
        "runtime/loops/deep/walk.h": '#include "runtime/loops/run.h"',
    }
    assert found(tmp_path, BELOW | files, CORE, LOOPS) == []


def test_templates_and_strings_of_the_generator(tmp_path: Path) -> None:
    files = {
        "codegen/templates/stubs.cpp.j2": '#include "runtime/loops/run.h"',
        "codegen/render.py": 'HEAD = "#include \\"runtime/core/tensor.h\\""',
    }
    (fault,) = found(tmp_path, BELOW | files, CORE, LOOPS, GENERATED)
    assert fault.startswith("codegen/render.py:1: generated uses core")


def test_headers_that_lie_elsewhere(tmp_path: Path) -> None:
    files = {
        "runtime/core/tensor.h": '#include "facula/backend.h"',
        "python/facula/include/facula/backend.h": "",
    }
    interface = Layer("interface", "python/facula/include")
    (fault,) = found(tmp_path, files, interface, CORE)
    assert "core uses interface (python/facula/include/facula/backend.h)" in fault


def test_the_table_itself(tmp_path: Path) -> None:
    core = Layer("core", "runtime/core", "loops")
    told = found(tmp_path, BELOW, core, LOOPS, Layer("top", "aten", "core"))
    assert "the row of core names loops, which is no row above it" in told
    assert "the row of top names core, of which it uses nothing" in told


def test_a_folder_without_a_row(tmp_path: Path) -> None:
    files = {"runtime/new/a.h": '#include "runtime/core/tensor.h"'}
    assert found(tmp_path, BELOW | files, CORE, LOOPS) == [
        "runtime/new/a.h:1: no row has this file"
    ]


PYTHON = {
    "python/facula/__init__.py": "from facula import _C",
    "python/facula/_exports.py": "ATTRIBUTES = {'facula.nn': 'Module'}\nSUBMODULES = ('nn',)",
    "python/facula/nn/__init__.py": "import facula",
}
PACKAGE = (
    Layer("exports", "python/facula/_exports.py"),
    Layer("front", "python/facula/__init__.py"),
    Layer("backends", "python/facula/backends", "front"),
    Layer("nn", "python/facula/nn", "front"),
)


@pytest.mark.parametrize(
    "text, line, how",
    [
        ("from facula.nn import Module", 1, ""),
        ("from facula import nn", 1, ""),
        ("import facula.nn as networks", 1, ""),
        ("from ..nn import Module", 1, ""),
        ("def f():\n    from facula.nn import Module", 2, " within a function"),
        ("if TYPE_CHECKING:\n    from facula.nn import Module", 2, " for types"),
        ("import facula\n\ndef f():\n    return facula.nn", 4, " within a function"),
        ("import facula\nx = facula.Module", 2, ""),
    ],
)
def test_imports(tmp_path: Path, text: str, line: int, how: str) -> None:
    files = PYTHON | {"python/facula/backends/interface.py": text + "\nimport facula as _"}
    (fault,) = found(tmp_path, files, *PACKAGE)
    place = f"python/facula/backends/interface.py:{line}: backends uses nn"
    assert fault.startswith(f"{place} (python/facula/nn/__init__.py{how}), not below it: let the")


def test_a_circle_of_modules_within_a_layer(tmp_path: Path) -> None:
    files = PYTHON | {
        "python/facula/nn/a.py": "from facula.nn import b",
        "python/facula/nn/b.py": "def f():\n    from facula.nn.c import g",
        "python/facula/nn/c.py": "from facula.nn.a import h",
    }
    layers = [layer for layer in PACKAGE if layer.name != "backends"]
    (circle,) = found(tmp_path, files, *layers)
    a, b, c = (f"python/facula/nn/{name}.py" for name in "abc")
    assert circle == f"a circle: {a} -> {b} -> {c} -> {a}"
