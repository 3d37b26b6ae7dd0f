"""One record for operators that differ by a number gives what as many records give."""

from __future__ import annotations

from pathlib import Path

import pytest
from schemas import BASE, messages

from codegen.__main__ import ROOT, load, main
from codegen.emit.render import generate_texts
from codegen.explain import explain
from codegen.fmt.form import formatted
from codegen.schema.model import Schema

FAMILY = """\
- op: halved{n}d(Tensor self, int[{n}] size) -> Tensor
  family:
    n: [1, 3]
    dims: [L, "D, H, W"]
  doc: Half of (N, {dims}).
  example:
    3: |
      >>> fa.halved3d(fa.ones(2), 1)
      tensor([0.5000, 0.5000])
  autocast:
    3: {CPU: float32}
  composite:
    1: self * 0.5
    3: |
      half = 0.5 * {n} / {n}
      if self.ndim == {n}:
          return self * half
      return self * half
  samples:
    1: ["f(3), 1"]
    3: ["f(3), 1", "f(0), [1, {n}, 2]"]
  reference: self / 2

"""
WRITTEN_OUT = """\
- op: halved1d(Tensor self, int[1] size) -> Tensor
  doc: Half of (N, L).
  composite: self * 0.5
  samples: ["f(3), 1"]
  reference: self / 2
- op: halved3d(Tensor self, int[3] size) -> Tensor
  doc: Half of (N, D, H, W).
  example: |
    >>> fa.halved3d(fa.ones(2), 1)
    tensor([0.5000, 0.5000])
  autocast: {CPU: float32}
  composite: |
    half = 0.5 * 3 / 3
    if self.ndim == 3:
        return self * half
    return self * half
  samples: ["f(3), 1", "f(0), [1, 3, 2]"]
  reference: self / 2

"""


def read(folder: Path, text: str) -> Schema:
    folder.mkdir(exist_ok=True)
    path = folder / "ops.yaml"
    path.write_text(text + BASE, encoding="utf-8")
    return load(path)


def test_is_what_records_of_each_give(tmp_path: Path) -> None:
    one, several = (
        generate_texts(read(tmp_path / name, text))
        for name, text in (("one", FAMILY), ("several", WRITTEN_OUT))
    )
    # Lines of the file stand in ops.json; here all operators below shift alike.
    del one["facula/ops.json"], several["facula/ops.json"]
    assert one == several


def test_explain_takes_a_member_or_all(tmp_path: Path) -> None:
    schema = read(tmp_path, FAMILY)
    assert {op.family for op in schema if op.name.startswith("halved")} == {"halved{n}d"}
    assert "of the family halved{n}d" in explain(schema, "halved3d")
    assert "halved1d" not in explain(schema, "halved3d")
    both = explain(schema, "halved{n}d")
    assert "halved1d" in both and "halved3d" in both


def test_members_stand_where_their_record_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "--parts", "max_pool2d"]) == 0
    two = capsys.readouterr().out
    assert main(["explain", "--parts", "max_pool{n}d"]) == 0
    whole = capsys.readouterr().out
    entry = next(line for line in two.splitlines() if line.strip().startswith("ops.yaml:"))
    assert whole.splitlines().count(entry) == 3
    lines = (ROOT / "ops.yaml").read_text(encoding="utf-8").splitlines()
    assert lines[int(entry.split(":")[1]) - 1].startswith("- op: max_pool{n}d(")


def test_form(tmp_path: Path) -> None:
    path = tmp_path / "ops.yaml"
    moved = FAMILY.replace("  doc: Half of (N, {dims}).\n", "")
    moved = moved.rstrip("\n") + "\n  doc: Half of (N, {dims}).\n"
    path.write_text(moved.replace("          return", "        return"), encoding="utf-8")
    assert formatted(path) == FAMILY.rstrip("\n") + "\n"


# What is wrong, where it stands, and what is said; columns count in the file, not in the member.
MISTAKES = {
    "a column that is no list": (
        ("    n: [1, 3]\n", "    n: 1\n"),
        "3:5: halved{n}d: a column of 'family' is a name with a list of words, as `n: [1, 2, 3]`",
    ),
    "one member": (
        ('[1, 3]\n    dims: [L, "D, H, W"]', "[3]\n    dims: [L]"),
        "3:5: halved{n}d: 'family' has columns, as {n: [1, 2, 3]}, the first of different words, "
        "two or more",
    ),
    "columns of two lengths": (
        ('[L, "D, H, W"]', "[L]"),
        "3:5: halved{n}d: 'dims' has 1 words for 2 members",
    ),
    "a column that nothing says": (
        ("(N, {dims})", "(N)"),
        "3:5: halved{n}d: nothing says '{dims}', a column of 'family'",
    ),
    "an unknown member": (
        ("  autocast:\n    3:", "  autocast:\n    3: float32\n    2:"),
        "12:5: halved{n}d: no member '2' of the family; members are 1, 3",
    ),
    "a formula, behind a number": (
        ("0.5 * {n} / {n}", "0.5 * {n} / x"),
        "15:26: halved3d: unknown name 'x'",
    ),
    "a sample, behind a number": (
        ("f(0), [1, {n}, 2]", "f(0), [1, {n}, a]"),
        "21:36: halved3d: sample `f(0), [1, 3, a]`: unknown name 'a'",
    ),
    "a name without the number": (
        ("- op: halved{n}d(", "- op: halved("),
        "1:3: halved: the operator is declared twice, first in line 1",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_have_their_place(tmp_path: Path, name: str) -> None:
    (old, new), expected = MISTAKES[name]
    assert old in FAMILY
    found = messages(tmp_path, FAMILY.replace(old, new))
    assert any(line.startswith(f"ops.yaml:{expected}") for line in found), found


def test_words_of_a_record_without_family_are_its_own(tmp_path: Path) -> None:
    schema = read(tmp_path, WRITTEN_OUT.replace("Half of (N, L)", "Half of {n}"))
    assert schema.operator("halved1d").doc == "Half of {n}."
