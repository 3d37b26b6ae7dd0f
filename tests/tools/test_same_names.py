"""`tools/dev.py check` finds test files of one name, of which pytest would take only one."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_names_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same_names = runpy.run_path(str(ROOT / "tools" / "dev.py"))["same_names"]
    for path in ("ops/test_a.py", "python/test_b.py", "python/helper.py", "ops/helper.py"):
        file = tmp_path / "tests" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    assert same_names(tmp_path / "tests") == 0
    (tmp_path / "tests" / "python" / "test_a.py").touch()
    assert same_names(tmp_path / "tests") == 1
    said = capsys.readouterr().out
    assert said.startswith("tests/ops/test_a.py and tests/python/test_a.py: one name")
