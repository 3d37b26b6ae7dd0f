"""`tools/dev.py new-op` puts an entry into its section."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = "# ---- a ----\n\n- op: f\n  doc: F.\n\n# ---- b ----\n\n- op: g\n  doc: G.\n"
ENTRY = "\n- op: new\n  doc: New.\n"


def test_at_the_end_of_a_section() -> None:
    at_end_of = runpy.run_path(str(ROOT / "tools" / "dev.py"))["at_end_of"]
    first = (
        "# ---- a ----\n\n- op: f\n  doc: F.\n" + ENTRY + "\n# ---- b ----\n\n- op: g\n  doc: G.\n"
    )
    assert at_end_of("a", TEXT, ENTRY) == first
    assert at_end_of("b", TEXT, ENTRY) == TEXT + ENTRY
    with pytest.raises(SystemExit, match="no section 'c'; there are: a, b"):
        at_end_of("c", TEXT, ENTRY)
