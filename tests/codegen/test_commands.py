"""`explain`, `diff` and the counts that `check` prints."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from schemas import BASE, report

from codegen.__main__ import ROOT, main
from codegen.check import check, primitives
from codegen.diff import RevisionError, stat, texts_at, unified
from codegen.emit.pyi import EXPORTS
from codegen.explain import UnknownOperator, explain
from codegen.fmt.form import formatted
from codegen.parts import kernels, parts, rules
from codegen.schema.model import Schema

KINDS = ("POINTWISE", "STRUCTURED")


def test_explain_tells_everything(schema: Schema) -> None:
    text = explain(schema, "tanh")
    for piece in (
        "tanh(Tensor self) -> Tensor\n  ops.yaml:",
        "gradient of self: `tanh_backward(grad, result)`",
        "TanhBackward saves result: SavedTensor result_out, after the call",
        "formula: mul0(grad_output, conj(one_minus_square(output)))",
        "void loop_tanh(int64_t n",
        "Tensor tanh(const Tensor& self) {",
        "struct TanhBackward final : Node {",
        "PyObject* call_tanh(",
        "facula.Tensor: def tanh_(self) -> Tensor",
        "# tanh\n",
    ):
        assert piece in text, piece


def test_explain_finds_overloads_and_aliases(schema: Schema) -> None:
    assert "pow.scalar(" in explain(schema, "pow") and "pow.tensor(" in explain(schema, "pow")
    assert "mul(Tensor self, Tensor other)" in explain(schema, "multiply")


def test_explain_every_operator(schema: Schema) -> None:
    for op in list(schema)[::90]:
        assert str(op.signature) in explain(schema, op.name)


def test_explain_unknown(schema: Schema, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnknownOperator, match="did you mean 'sigmoid'"):
        explain(schema, "sigmiod")
    assert main(["explain", "sigmiod"]) == 1
    wanted = "codegen explain: no operator 'sigmiod'; did you mean 'sigmoid'?\n"
    assert capsys.readouterr().err == wanted


def lines_of(text: str) -> dict[str, str]:
    """What each `path:line` of a text leads to, by what follows it there."""
    found = {}
    for path, line, what in re.findall(r"^    (\S+):(\d+) ?(.*)$", text, re.M):
        source = (ROOT / path).read_text(encoding="utf-8").splitlines()[int(line) - 1]
        found.setdefault(what, source.strip())
    return found


def test_parts_lead_somewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--parts", "cumsum"]) == 0
    found = lines_of(capsys.readouterr().out)
    assert found[""].startswith("- op: cumsum(Tensor self, int dim")
    assert found["cpu::cumsum"].startswith("void cumsum(const Tensor& self, int64_t dim")
    rule = next(key for key in found if key.startswith("shape::scanned, declared in ops.yaml:"))
    assert found[rule].startswith("Meta scanned(const Tensor& self")
    assert found["reference"].startswith("reference: np.cumsum(self, axis=dim)")
    assert found["example"] == "example: |"
    assert found["test_example"].startswith("def test_example(op: OpRecord)")
    assert any(".cumsum(" in line or '"cumsum"' in line for line in found.values())


def test_parts_of_other_kinds(schema: Schema) -> None:
    formula = lines_of(parts(schema, ROOT, "gelu"))
    assert formula["`scalar`, whose loops are generated"] == "scalar:"
    program = lines_of(parts(schema, ROOT, "div.mode"))
    assert program["`composite`, over other operators"] == "if rounding_mode is None:"
    proof = lines_of(parts(schema, ROOT, "empty"))
    assert proof["test_empty_has_the_shape"] == "def test_empty_has_the_shape() -> None:"


def test_parts_are_found(schema: Schema) -> None:
    """Each function of C++ that an entry names has its place."""
    places = [p for op in schema for p in (*kernels(op, ROOT), *rules(schema, op, ROOT))]
    assert [place for place in places if "(not found)" in place] == []


def test_unified_and_stat() -> None:
    old, new = {"a": "1\n2\n", "b": "x\n"}, {"a": "1\n3\n4\n", "c": "y\n"}
    lines = list(unified(old, new, "main"))
    assert lines[:4] == ["--- main/a", "+++ now/a", "@@ -1,2 +1,3 @@", " 1"]
    assert list(stat(lines)) == ["a  +2 -1", "b  +0 -1", "c  +1 -0", "3 files, +3 -2"]
    assert list(stat([])) == ["0 files, +0 -0"]


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_diff_against_a_revision(tmp_path: Path) -> None:
    """The texts of a commit come from that commit's schema and generator."""
    shutil.copytree(ROOT / "codegen", tmp_path / "codegen")
    (tmp_path / "python/facula").mkdir(parents=True)
    shutil.copy(EXPORTS, tmp_path / "python/facula")
    (tmp_path / "ops.yaml").write_text(BASE, encoding="utf-8")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    (tmp_path / "ops.yaml").write_text("", encoding="utf-8")
    texts = texts_at(tmp_path, "HEAD")
    assert "Tensor mul0(const Tensor& self, const Tensor& other)" in texts["facula/ops.h"]
    with pytest.raises(RevisionError, match="nosuch"):
        texts_at(tmp_path, "nosuch")


def test_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = report(tmp_path, "")
    assert [op.name for op in primitives(found.schema)] == ["sum"]
    first, second, _ = found.summary().splitlines()
    assert first.startswith("6 operators (")
    assert first.endswith("5 pointwise, 0 composites, 1 with kernels")
    assert second.startswith("1 primitives, the kernels that a device must have ")
    assert second.endswith(": sum")
    assert main(["check"]) == 0
    assert "primitives" in capsys.readouterr().out


def test_entries_to_start_from_are_good(tmp_path: Path) -> None:
    """What `tools/dev.py new-op` appends passes the check as it stands."""
    code = (ROOT / "tools" / "dev.py").read_text(encoding="utf-8")
    space: dict[str, str] = {"__file__": str(ROOT / "tools" / "dev.py"), "__name__": "dev"}
    exec(compile(code, "dev.py", "exec"), space)
    path = tmp_path / "ops.yaml"
    entries = [space[kind].format(name=f"new_{kind.lower()}") for kind in KINDS]
    whole = (ROOT / "ops.yaml").read_text(encoding="utf-8") + "".join(entries)
    path.write_text(whole, encoding="utf-8")
    assert [str(e) for e in check(path).errors] == []
    assert formatted(path) == whole


def test_the_page_of_batching_is_up_to_date(tmp_path: Path) -> None:
    """`python -m codegen batching --page docs/batching.md` writes it anew."""
    page = tmp_path / "page.md"
    assert main(["batching", "--page", str(page)]) == 0
    assert page.read_text() == (ROOT / "docs/batching.md").read_text()
