"""A definition is a C++ function of formulas and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from schemas import BASE, messages, report

from codegen.__main__ import ROOT, load
from codegen.emit.export import to_json
from codegen.emit.render import generate_texts
from codegen.explain import explain
from codegen.extension import read
from codegen.schema.errors import SchemaErrors
from codegen.schema.model import Schema
from codegen.tensor.traits import traits

DEFINITION = """\
- define: _scaled(Tensor self, float by) -> Tensor
  doc: Self times a number.
  composite: self * by
"""
USE = """\
- op: twice(Tensor self) -> Tensor
  doc: Self two times.
  composite: _scaled(self, 2.0)
  samples: ["f(3)"]
  reference: self * 2
"""


def texts(folder: Path, text: str = DEFINITION + USE) -> dict[str, str]:
    path = folder / "ops.yaml"
    path.write_text(text + BASE, encoding="utf-8")
    return generate_texts(load(path))


def test_is_one_function_and_its_declarations(tmp_path: Path) -> None:
    found = texts(tmp_path)
    whole = "\n".join(t for n, t in found.items() if re.fullmatch(r"stubs_\d+\.cpp", n))
    body = re.search(
        r"^Tensor _scaled\(const Tensor& self, double by\) \{\n(.*?)^\}", whole, re.M | re.S
    )
    assert body is not None
    assert "return ops::mul(self," in body[1]
    assert "ops::_scaled(self, 2.0)" in whole
    assert "Tensor _scaled(const Tensor& self, double by);" in found["facula/ops.h"]
    for name, text in found.items():
        assert "_scaled_entry" not in text, name
        if name not in ("facula/ops.h", "facula/ops.json") and not name.startswith("stubs_"):
            assert "_scaled" not in text, name


def test_the_data_has_it_apart(tmp_path: Path) -> None:
    data = json.loads(texts(tmp_path)["facula/ops.json"])
    assert "_scaled" not in {op["name"] for op in data["operators"]}
    assert data["definitions"] == [
        {
            "name": "_scaled",
            "signature": "_scaled(Tensor self, float by) -> Tensor",
            "line": 1,
            "doc": "Self times a number.",
            "composite": "self * by",
        }
    ]


def test_explain(tmp_path: Path) -> None:
    texts(tmp_path)
    told = explain(load(tmp_path / "ops.yaml"), "_scaled")
    assert "a definition, which formulas alone call" in told
    assert "ops::mul(self" in told and "PyObject" not in told and "type stubs" not in told


def test_traits_go_through_it(tmp_path: Path) -> None:
    aliasing = DEFINITION.replace("composite: self * by", "composite: self")
    assert "may_alias" in traits(report(tmp_path, aliasing + USE).schema)["twice"]
    assert "may_alias" not in traits(report(tmp_path, DEFINITION + USE).schema)["twice"]


MISTAKES = {
    "no doc": (
        ("  doc: Self times a number.\n", ""),
        "1:3: _scaled: missing key 'doc': what it computes, in a sentence",
    ),
    "nothing to run": (
        ("  composite: self * by\n", ""),
        "1:3: _scaled: nothing to run: give 'scalar', 'composite', 'composite_fn' or 'dispatch'",
    ),
    "tests of its own": (
        ("  composite: self * by\n", "  composite: self * by\n  samples: [f(3)]\n"),
        "4:3: _scaled: unknown key 'samples'; known are define, doc, composite, composite_fn, "
        "opaque, traits, checks",
    ),
    "a formula": (
        ("self * by", "self * buy"),
        "3:21: _scaled: unknown name 'buy'; did you mean 'by'?",
    ),
    "a circle": (
        ("self * by", "twice(self)"),
        "6:14: twice: the composite runs in a circle: twice -> _scaled -> twice",
    ),
    "a name of an operator": (
        ("_scaled(Tensor self, float by)", "exp(Tensor self)"),
        ": exp: the operator is declared twice, first in line ",
    ),
    "something written": (
        ("_scaled(Tensor self, float by) -> Tensor", "_scaled(Tensor! self, float by) -> Tensor!"),
        "1:3: _scaled: a definition writes nothing; 'op' makes an operator of it",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(tmp_path: Path, name: str) -> None:
    (old, new), expected = MISTAKES[name]
    assert old in DEFINITION
    found = messages(tmp_path, DEFINITION.replace(old, new) + USE)
    assert any(expected in line for line in found), found


def test_each_one_is_called(schema: Schema) -> None:
    """One that no formula and no C++ calls is dead."""
    formulas = to_json(schema).replace("\\n", "\n")
    sources = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "aten").rglob("*.cpp"))
    for op in schema.definitions:
        calls = len(re.findall(rf"\b{op.name}\(", formulas))
        declared = 1  # its signature
        assert calls > declared or f"ops::{op.name}(" in sources, op.name


def test_extensions_have_their_own_and_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(DEFINITION + USE, encoding="utf-8")
    made = read(path, "own", ROOT / "ops.yaml").texts()
    assert re.search(r"^Tensor _scaled\(", made["stubs.cpp"], re.M)
    path.write_text(USE.replace("_scaled(self, 2.0)", "_centered(self, [0])"), encoding="utf-8")
    with pytest.raises(SchemaErrors, match="unknown operator '_centered'"):
        read(path, "own", ROOT / "ops.yaml")
