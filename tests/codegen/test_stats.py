"""`stats` counts lines of entries and says which keys take them."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen.__main__ import ROOT, main
from codegen.stats import entries, report

TEXT = """\
# ---- first ----

- op: short(Tensor self) -> Tensor
  doc: Short.
  scalar: self

- op: long{n}d(Tensor self, int[{n}] size,
      int more) -> Tensor
  family:
    n: [1, 2, 3]
  doc: Long.
  composite: |
    a = self
    b = a
    c = b

    d = c
    return d
  samples:
    - f(3)
    - f(4)
    - f(5)
  reference: self

# ---- second ----

- define: _helper(Tensor self) -> Tensor
  doc: Helps.
  composite: self
"""


def test_lines_of_entries_and_keys(tmp_path: Path) -> None:
    path = tmp_path / "ops.yaml"
    path.write_text(TEXT, encoding="utf-8")
    short, long, helper = entries(path)
    assert (short.name, short.line, short.lines, short.members) == ("short", 3, 3, 1)
    assert (long.name, long.line, long.lines, long.members) == ("long{n}d", 7, 17, 3)
    assert long.keys["composite"] == 7 and long.keys["samples"] == 4 and long.keys["op"] == 2
    assert long.why() == "composite 7"
    assert (helper.kind, helper.lines) == ("define", 3)
    assert list(report(path)) == [
        "operators: 2 entries for 4, 20 lines, 10.0 an entry, 5.0 one of them; "
        "1 entries over 15 lines",
        "definitions: 1 entries for 1, 3 lines, 3.0 an entry, 3.0 one of them; "
        "0 entries over 15 lines",
        "   17 ops.yaml:7 long{n}d: composite 7",
    ]


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats"]) == 0
    first, second, *long = capsys.readouterr().out.splitlines()
    assert first.startswith("operators: ") and second.startswith("definitions: ")
    lines = (ROOT / "ops.yaml").read_text(encoding="utf-8").splitlines()
    for told in long[:20]:
        place, name = told.split()[1:3]
        assert name.rstrip(":") in lines[int(place.split(":")[1]) - 1]
