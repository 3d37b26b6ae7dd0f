"""What is parsed prints back as it was written; places lead back into the file."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from schemas import BASE

from codegen.__main__ import ROOT
from codegen.scalar.tree import from_ast, from_formula
from codegen.schema import expr, signature
from codegen.schema.model import Location, Schema
from codegen.schema.reader import read_schema
from codegen.schema.samples import check_sample, each_of
from codegen.schema.source import Source

SIGNATURES = [
    'gelu(Tensor self, *, str approximate="none") -> Tensor',
    "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    "f(Tensor[] b, Tensor?[] c, int[*] f, Tensor? a=None, int[]? d=None, int[2] e=1) -> Tensor[]",
    "copy_(Tensor! self, Tensor src) -> Tensor!",
    "g(int kernel >= 1, float p in [0, 1]=0.5, Scalar s in (0, inf)=1, int k < 3=2) -> bool",
    "h(*, ScalarType? dtype=None, Device? device=None, Generator? generator=None) -> ()",
    "i(MemoryFormat m=contiguous_format, ScalarType t=float32) -> (Tensor)",
    "j() -> int[]",
]
FORMULAS = [
    "a + b * c - d / e // f % g",
    "-a ** -b ** 2",
    "(a - b) - (c - d)",
    "a if b < c and not d or e else f",
    "where(a == 0, 1, exp(-b))",
    "(a < b) == (c < d)",
    "~a & b | c ^ d << 2 >> 1",
    "a is None or b is not None",
    "(a ** b) ** c",
]


@pytest.mark.parametrize("text", SIGNATURES)
def test_signature(text: str) -> None:
    assert str(signature.parse(text)) == text


def test_signatures_of_the_schema(schema: Schema) -> None:
    for op in schema:
        assert signature.parse(str(op.signature)) == op.signature
        assert len({o.symbol for o in schema.overloads(op.base_name)}) == len(
            schema.overloads(op.base_name)
        )


@pytest.mark.parametrize("text", FORMULAS)
def test_formula(text: str) -> None:
    tree = from_ast(ast.parse(text, mode="eval").body)
    assert from_ast(ast.parse(str(tree), mode="eval").body) == tree


def test_formulas_of_the_schema(schema: Schema) -> None:
    for op in schema:
        for _, formula in op.scalar:
            tree = from_formula(formula)
            assert from_ast(ast.parse(str(tree), mode="eval").body) == tree


def test_samples_of_the_schema(schema: Schema) -> None:
    for op in schema:
        for sample in op.samples:
            assert check_sample(op, sample) is None


@pytest.mark.parametrize(
    ("text", "samples"),
    [
        ("f(3), 1", ["f(3), 1"]),
        ("f(3), each(1, inf)", ["f(3), 1", "f(3), inf"]),
        (
            "f(each(0, 3)), p=each('a', None)",
            ["f(0), p='a'", "f(0), p=None", "f(3), p='a'", "f(3), p=None"],
        ),
        ("each(f(2,3), t([[1., nan]])), dim=[0]", ["f(2,3), dim=[0]", "t([[1., nan]]), dim=[0]"]),
        ("'ä', each(1, 2)", ["'ä', 1", "'ä', 2"]),
        ("f(3), each()", ["f(3), each()"]),
        ("f(3", ["f(3"]),
    ],
)
def test_each_value_makes_a_sample(text: str, samples: list[str]) -> None:
    assert list(each_of(text)) == samples


STYLES = {
    "plain": ("self + other", 2, 11, 18),
    "double quotes": ('"self + other"', 2, 12, 19),
    "single quotes": ("'self + other'", 2, 12, 19),
    "folded": (">-\n    self +\n    other", 3, 5, 5),
    "literal": ("|\n    self +\n    other", 3, 5, 5),
    "plain over lines": ("self +\n    other", 2, 11, 5),
}


@pytest.mark.parametrize("style", STYLES)
def test_places(style: str, tmp_path: Path) -> None:
    """Each character of a formula knows its line and column, however YAML spells it."""
    text, line, column, other_column = STYLES[style]
    path = tmp_path / "ops.yaml"
    head = "- op: new(Tensor self, Tensor other) -> Tensor"
    path.write_text(f"{head}\n  scalar: {text}\n  doc: N.\n")
    [op] = read_schema(path).operators
    [(_, formula)] = op.scalar
    assert formula.location == Location("ops.yaml", line, column)
    other = [n for n in ast.walk(formula.tree) if isinstance(n, ast.Name) and n.id == "other"]
    at = expr.place(formula, other[0])
    assert at.column == other_column
    assert path.read_text().splitlines()[at.line - 1][at.column - 1 :].startswith("other")


def test_source_runs_cover_the_schema() -> None:
    """Every scalar of ops.yaml itself is found again at the place that is given for it."""
    source = Source(ROOT / "ops.yaml")
    root = source.compose()
    assert root is not None
    lines = source.text.splitlines()
    count = 0
    for record in root.value:
        for _, value in record.value:
            if not isinstance(value.value, str) or not value.value.strip():
                continue
            place = source.place(value)
            first = value.value.lstrip()[0]
            assert lines[place.line - 1][place.column - 1] == first, place
            count += 1
    assert count > 300


def test_base_schema(tmp_path: Path) -> None:
    path = tmp_path / "ops.yaml"
    path.write_text(BASE, encoding="utf-8")
    assert {op.name for op in read_schema(path)} == {"add", "mul", "mul0", "neg", "exp", "sum"}
