"""The key `axes`: its form, its mistakes, what is inferred and the batching rule that follows."""

from __future__ import annotations

from pathlib import Path

import pytest
from schemas import BASE, messages, report

from codegen.emit import batching
from codegen.schema.axes import axes_of, parse
from codegen.schema.model import Schema
from codegen.schema.signature import parse as signature

PRODUCT = """\
- op: new(Tensor self, Tensor other, int dim=0) -> Tensor
  doc: New.
  kind: structured
  shape: like(self)
  dispatch: {{CPU: new}}
  axes: {axes}
  derivative: {{self: grad, other: grad}}
  samples: ["f(3,4), f(3,4)"]
  reference: self
"""


def rule(folder: Path, axes: str) -> tuple[str, tuple[tuple[tuple[str, str], ...], ...]]:
    found = report(folder, PRODUCT.format(axes=f'"{axes}"'))
    assert not found.errors, found.errors
    return batching.rule_of(found.schema.operator("new"))


RULES = {
    "(...), (...) -> (...)": ("elements", ()),
    "(...,m,k), (...,k,n) -> (...,m,n)": (
        "leading",
        ((("self", "aligned"), ("other", "aligned")),),
    ),
    "(...,dim!), (...,dim!) -> (...)": ("leading", ((("dim", "dim"),),)),
    "(...,dim!), (i!) -> (...)": ("leading", ((("other", "alone"), ("dim", "dim")),)),
    "(b,m,k), (b,k,n) -> (b,m,n)": ("leading", ((("self", "fold"), ("other", "fold")),)),
    "(b,...!), (c!) -> (b,...!)": ("leading", ((("self", "fold"), ("other", "alone")),)),
    "(m,k), (k,n) -> (m,n)": ("", ()),  # no dim is that of a batch
}


@pytest.mark.parametrize("text", RULES)
def test_batching_rule(tmp_path: Path, text: str) -> None:
    assert rule(tmp_path, text) == RULES[text]


def test_a_stated_rule_that_follows_is_too_much(tmp_path: Path) -> None:
    text = PRODUCT.format(axes='"(...), (...) -> (...)"\n  batch: elements')
    assert any("'batch' says what 'axes' says already" in m for m in messages(tmp_path, text))
    text = PRODUCT.format(axes='"(...), (...) -> (...)"\n  batch: rows')
    assert not messages(tmp_path, text)


def test_inferred(tmp_path: Path, schema: Schema) -> None:
    base = report(tmp_path, "", BASE).schema
    assert str(axes_of(base.operator("add"))) == "(...), (...) -> (...)"
    assert str(axes_of(schema.operator("sum"))) == "(...,dim) -> (...)"
    assert str(axes_of(schema.operator("argmax"))) == "(...,dim!) -> (...)"
    assert str(axes_of(schema.operator("max.dim"))) == "(...,dim!) -> (...), (...)"
    assert str(axes_of(schema.operator("cumsum"))) == "(...,dim!) -> (...,dim!)"
    assert axes_of(schema.operator("einsum")) is None


def test_text_and_form() -> None:
    of = signature("f(Tensor a, Tensor? b, int[] size) -> (Tensor x, Tensor y)")
    text = "(...,size*!), (n~) -> (...,size*!), (n~)"
    assert str(parse(text.replace(" ", ""), of)) == text


MISTAKES = {
    "(m)": "write `(dims), ... -> (dims)`, a list for each tensor and each result",
    "(m) -> (m)": "1 lists of dims for 2 tensor arguments (self, other)",
    "(m), (m) -> (m), (m)": "2 lists of dims for 1 results",
    "(m), (m?) -> (m)": "'m?' is no dim: a name, `...`, with ~ or !",
    "(m), (m) x -> (m)": "'x' is no list of dims, as (m,k)",
    "(m), (m!) -> (m)": "'m' has two marks",
    "(m), (m) -> (n)": "no input has 'n'; 'n!' is a dim of results alone",
    "(dim*), (m) -> (m)": "no argument int[] 'dim'",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes(tmp_path: Path, text: str) -> None:
    found = messages(tmp_path, PRODUCT.format(axes=f'"{text}"'))
    assert any(MISTAKES[text] in line and line.startswith("ops.yaml:6:") for line in found), found
