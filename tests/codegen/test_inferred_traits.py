"""Traits that follow from formulas."""

from __future__ import annotations

from pathlib import Path

import pytest
from schemas import BASE

from codegen.__main__ import load
from codegen.tensor.traits import traits

PARTS = """
- op: seen(Tensor self) -> Tensor
  doc: A view.
  kind: view
  dispatch: {any: seen}
- op: drawn(Tensor self, Generator? generator=None) -> Tensor
  doc: Draws.
  composite_fn: drawn
  opaque: random
- op: counted(Tensor self) -> Tensor
  doc: Counts.
  composite_fn: counted
  opaque: values
  traits: [value_dependent]
- op: counted.two(Tensor self, Tensor other) -> Tensor
  doc: Counts nothing.
  composite_fn: counted_two
  opaque: values
"""


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("self * 2", ()),
        ("seen(self)", ("may_alias",)),
        ("seen(self * 2)", ()),
        ("self if flag else self * 2", ("may_alias",)),
        ("seen(self) * 2", ()),
        ("drawn(self)", ("random",)),
        ("counted(self)", ("value_dependent",)),
        ("counted(self, self)", ()),
        ("seen(counted(self))", ("value_dependent",)),
        ("x = self * 2\n    if flag:\n        x = self.seen()\n    return x", ("may_alias",)),
    ],
)
def test_of_formulas(tmp_path: Path, program: str, expected: tuple[str, ...]) -> None:
    entry = (
        "- op: mine(Tensor self, bool flag=True) -> Tensor\n  doc: Mine.\n"
        f"  composite: |\n    {program}\n  samples: ['f(2)']\n  reference: self\n"
    )
    path = tmp_path / "ops.yaml"
    path.write_text(BASE + PARTS + entry, encoding="utf-8")
    assert traits(load(path))["mine"] == expected
