"""Operators of users: what is generated of a file beside facula's own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from codegen import extension
from codegen.schema.errors import SchemaErrors

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "ops.yaml"
GOOD = """\
- rule: doubled(Tensor self) -> Meta

- op: twofold(Tensor self) -> Tensor
  doc: Two of it, one after the other.
  kind: structured
  shape: doubled(self)
  dispatch: {CPU: twofold}
  derivative: {self: "sum(unflatten(grad, 0, [2, -1]), [0])"}
  forward: linear
  samples: ["f(3)"]
  reference: np.concatenate([self, self])

- op: gate(Tensor self, *, Scalar beta=1) -> Tensor
  doc: A gate.
  scalar: self / (beta + abs(self))
  derivative: auto
  reference: self / (beta + np.abs(self))

- op: gated(Tensor self) -> Tensor
  doc: A gate of its double.
  composite: gate(twofold(self), beta=2)
  alias: [gated2]
  python: [function]
  samples: ["f(3)"]
  reference: np.concatenate([self, self]) / (2 + np.abs(np.concatenate([self, self])))
"""


def made(tmp_path: Path, text: str) -> extension.Extension:
    path = tmp_path / "own.yaml"
    path.write_text(text, encoding="utf-8")
    return extension.read(path, "own", BASE)


def mistakes(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(SchemaErrors) as caught:
        made(tmp_path, text)
    return str(caught.value).splitlines()


def test_own_operators_alone_are_generated(tmp_path: Path) -> None:
    found = made(tmp_path, GOOD)
    names = [op.name for op in found.schema]
    assert names == ["twofold", "gate", "gated", "gate_backward"]
    texts = found.texts()
    registered = re.findall(r"register_operator\(&entries::(\w+)_entry, true\)", texts["stubs.cpp"])
    assert sorted(registered) == sorted(names)
    assert set(re.findall(r'_entry\{"([^"]+)"', texts["stubs.cpp"])) == {f"own::{n}" for n in names}
    assert "void twofold(const Tensor& self, const Tensor& out);" in texts["own/kernels.h"]
    assert "Meta doubled(const Tensor& self);" in texts["own/shapes.h"]
    assert "namespace facula::v3" not in texts["pointwise.cpp"]
    assert "FACULA_ISA v3" in texts["pointwise_v3.cpp"]


def test_operators_of_faculas_are_looked_up_by_signature(tmp_path: Path) -> None:
    text = made(tmp_path, GOOD).texts()["autograd.cpp"]
    assert '("unflatten", "unflatten(Tensor self, int dim, int[] ' in text
    assert "inline Tensor gate(" not in text and "Tensor gate_backward(" in text


def test_what_python_and_the_tests_are_told(tmp_path: Path) -> None:
    text = made(tmp_path, GOOD).texts()["operators.cpp"]
    lines = re.findall(r'^    "(.*)"$', text[text.index("kRecords") :], re.M)
    records = json.loads("".join(json.loads(f'"{line}"') for line in lines))
    assert {r["name"]: r["python"] for r in records} == {
        "own::twofold": ["ops.own.twofold", "Tensor.twofold"],
        "own::gate": ["ops.own.gate", "Tensor.gate"],
        "own::gated": ["ops.own.gated", "ops.own.gated2"],
        "own::gate_backward": [],
    }
    assert not re.search(r'FACULA_METHOD\("gate_backward"', text)


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("op: gate(", "op: relu(", r"own\.yaml:13:\d+: relu: the operator is declared twice"),
        ("abs(self))\n  deriv", "absent(self))\n  deriv", r"own\.yaml:15:\d+: gate: .*absent"),
        ("gate(twofold(self)", "gat(twofold(self)", r"own\.yaml:21:\d+: gated: .*'gate'\?"),
        ("[function]", "['+']", r"own\.yaml:23:\d+: gated: '\+' is facula's own"),
        ("[function]", "[linalg.x]", r"own\.yaml:23:\d+: gated: the path 'linalg\.x' is facula's"),
        ("shape: doubled", "shape: dubled", r"own\.yaml:6:\d+: twofold: .*'doubled'\?"),
        ("  doc: A gate.\n", "", r"own\.yaml:13:\d+: gate: missing key 'doc'"),
    ],
)
def test_mistakes_have_their_place_in_the_own_file(
    tmp_path: Path, old: str, new: str, wanted: str
) -> None:
    assert old in GOOD
    found = mistakes(tmp_path, GOOD.replace(old, new, 1))
    assert any(re.match(wanted, line) for line in found), found
    assert all(line.startswith("own.yaml:") for line in found), found


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(GOOD, encoding="utf-8")
    command = [sys.executable, "-m", "codegen", str(tmp_path / "own.yaml"), "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    listed = {*extension.SOURCES, "test_own.py"}
    assert listed <= {p.name for p in tmp_path.iterdir()}
    before = {p: p.stat().st_mtime_ns for p in tmp_path.glob("*.cpp")}
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    assert before == {p: p.stat().st_mtime_ns for p in tmp_path.glob("*.cpp")}
    command[3] = str(tmp_path / "none.yaml")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "none.yaml" in done.stderr
