"""The generator as a whole: deterministic, frugal with writes, its templates small and strict."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import jinja2
import pytest
from schemas import BASE

from codegen.__main__ import ROOT, load, main
from codegen.emit import render
from codegen.schema.model import Schema
from tools import lint_layers

TEMPLATES = sorted((ROOT / "codegen" / "emit" / "templates").iterdir())
NEW = """\
- op: softsign2(Tensor self, *, Scalar beta=1) -> Tensor
  doc: Smooth sign.
  scalar: self * (beta + exp(self))
  derivative: auto
  reference: self * (beta + np.exp(self))
"""


def digest(folder: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        total.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return total.hexdigest()


def test_deterministic(tmp_path: Path) -> None:
    """Two processes with different hash seeds write the same bytes."""
    digests = set()
    for seed in ("1", "2"):
        out = tmp_path / seed
        command = [sys.executable, "-m", "codegen", "gen", "--out", str(out)]
        env = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True)
        digests.add(digest(out))
    assert len(digests) == 1


def test_writes_only_what_changed(tmp_path: Path) -> None:
    path, out = tmp_path / "ops.yaml", tmp_path / "out"
    path.write_text(BASE, encoding="utf-8")
    assert len(render.generate(load(path), out, tmp_path)) >= len(render.output_names(ROOT))
    assert render.generate(load(path), out, tmp_path) == []
    times = {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}
    path.write_text("# a comment moves every line\n" + BASE, encoding="utf-8")
    changed = render.generate(load(path), out, tmp_path)
    # Line numbers stand only in the schema as data, so that no C++ is compiled again.
    assert [p.name for p in changed] == ["ops.json"]
    assert all(p.stat().st_mtime_ns == t for p, t in times.items() if p.name != "ops.json")


def test_deletes_what_it_no_longer_writes(tmp_path: Path) -> None:
    path, out = tmp_path / "ops.yaml", tmp_path / "out"
    path.write_text(BASE, encoding="utf-8")
    render.generate(load(path), out, tmp_path)
    before = {p for p in out.rglob("*") if p.is_file()}
    (out / "mine.cpp").write_text("", encoding="utf-8")
    path.write_text(NEW.rstrip() + "\n  python: [elsewhere.new]\n" + BASE, encoding="utf-8")
    render.generate(load(path), out, tmp_path)
    assert (out / "facula/elsewhere.pyi").exists()
    path.write_text(BASE, encoding="utf-8")
    render.generate(load(path), out, tmp_path)
    assert {p for p in out.rglob("*") if p.is_file()} == before | {out / "mine.cpp"}


def test_a_new_operator_changes_its_shards_only(tmp_path: Path) -> None:
    path, out = tmp_path / "ops.yaml", tmp_path / "out"
    path.write_text(BASE, encoding="utf-8")
    render.generate(load(path), out, tmp_path)
    path.write_text(NEW + BASE, encoding="utf-8")
    changed = [p.name for p in render.generate(load(path), out, tmp_path) if p.suffix == ".cpp"]
    stems = sorted(re.sub(r"_\d+$", "", name.removesuffix(".cpp")) for name in changed)
    assert stems == ["autograd", "bindings", "module_table", "pointwise", "stubs"]


def test_the_build_knows_the_files(schema: Schema) -> None:
    """`gen --list` names every C++ file, whatever the schema holds."""
    names = set(render.output_names(ROOT))
    made = set(render.generate_texts(schema))
    assert names <= made
    assert {n for n in made - names if not n.endswith(".pyi")} == set()


def test_headers_of_a_source(schema: Schema) -> None:
    """A source's own header declares the operators that the source names, and no others."""
    name = "for/aten/x.cpp/facula/ops.h"
    text = render.generate_texts(schema, {name: "ops::add_(x, ops::exp(y));"})[name]
    assert re.findall(r"^[\w:&<> ]+ (\w+)\(const", text, re.M) == [
        *("add", "add_", "add_out", "exp", "exp_", "exp_out"),
    ]


def test_takes_seconds_at_most(tmp_path: Path) -> None:
    """A sanity limit of processor time, far above what it takes (see CONTRIBUTING)."""
    started = time.process_time()
    assert main(["gen", "--out", str(tmp_path)]) == 0
    assert main(["check"]) == 0
    assert time.process_time() - started < 30


def test_modules_depend_in_one_direction() -> None:
    """No module of the generator needs, by way of others, itself; imports in functions count."""
    needs: dict[str, set[str]] = {}
    rooms: dict[str, set[str]] = {}
    for use in lint_layers.uses(ROOT):
        if not (use.source.startswith("codegen/") and use.source.endswith(".py")):
            continue
        needs.setdefault(use.source, set()).add(use.target)
        source, target = (Path(path).parts[1:-1] for path in (use.source, use.target))
        if source and target and source != target:
            rooms.setdefault(source[0], set()).add(target[0])
    assert len(needs) > 40
    assert lint_layers.circles(needs) == []
    assert lint_layers.circles(rooms) == []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: p.name)
def test_templates_are_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 150


def test_templates_are_strict() -> None:
    """A misspelt variable is an error, not an empty string."""
    env = render.environment()
    assert env.undefined is jinja2.StrictUndefined
    assert env.trim_blocks and env.lstrip_blocks
    with pytest.raises(jinja2.UndefinedError):
        env.from_string("{{ nothing }}").render()


def test_braces_balance_and_lines_are_indented(schema: Schema) -> None:
    for name, text in render.generate_texts(schema).items():
        if not name.endswith((".cpp", ".h")):
            continue
        depth = 0
        plain = re.sub(r'"(?:\\.|[^"\\])*"|//[^\n]*', "", text)
        for line in plain.splitlines():
            depth += line.count("{") - line.count("}")
            assert depth >= 0, name
        assert depth == 0, name
        assert not re.search(r"\n\n\n|\{\n\n +|[ \t]\n", text), f"{name}: ragged layout"
