"""Golden files: everything generated for eight typical operators, every signature and primitive.

After an intended change: `python -m pytest tests/codegen --update-golden`, then read the diff.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from schemas import report, structured

from codegen.check import primitives
from codegen.explain import explain
from codegen.schema.model import Schema

GOLDEN = Path(__file__).parent / "golden"
TYPICAL = {
    "pointwise with variants": "gelu",
    "reduction": "amax",
    "scan": "cumsum",
    "view": "transpose",
    "several outputs": "topk",
    "composite program": "div.mode",
    "factory": "full",
    "random": "bernoulli",
}


def compare(path: Path, text: str, update: bool) -> None:
    if update:
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"{path.name} is missing; run with --update-golden"
    assert text == path.read_text(encoding="utf-8"), "if intended, run with --update-golden"


@pytest.mark.parametrize("kind", TYPICAL)
def test_operator(kind: str, schema: Schema, update_golden: bool) -> None:
    text = re.sub(r"ops\.yaml:\d+:\d+", "ops.yaml", explain(schema, TYPICAL[kind]))
    text = re.sub(r"(in ops\.yaml), line \d+", r"\1", text)
    compare(GOLDEN / f"{TYPICAL[kind]}.ref", text, update_golden)


def test_schema(schema: Schema, update_golden: bool) -> None:
    """One signature a line: a change of the public API cannot slip through a review."""
    lines = [str(op.signature) for op in schema if op.derived_from is None]
    compare(GOLDEN / "schema.txt", "\n".join(sorted(lines)) + "\n", update_golden)


def test_primitives(schema: Schema, update_golden: bool) -> None:
    """A new one is work for every device's package: a decomposition may spare it."""
    names = sorted(op.name for op in primitives(schema))
    compare(GOLDEN / "primitives.txt", "\n".join(names) + "\n", update_golden)


def test_new_primitives_are_announced(tmp_path: Path) -> None:
    said = report(tmp_path, structured()).summary()
    assert "2 primitives" in said and "2 of them new" in said and "from now on: new, sum" in said


def test_no_stray_files() -> None:
    wanted = {*(f"{name}.ref" for name in TYPICAL.values()), "schema.txt", "primitives.txt"}
    assert {p.name for p in GOLDEN.iterdir()} == wanted
