"""tools/packages: the sample, the runs in two environments, and the table."""

from __future__ import annotations

import sys

import pytest

from tools.packages import prepare, report, runs
from tools.packages.table import PACKAGES, Package

TESTS = """
import os, sys
import pytest

AS_TORCH = "facula.as_torch" in sys.modules

def test_same():
    pass

@pytest.mark.parametrize("number", range(4))
def test_differs(number):
    assert not AS_TORCH or number < 3, f"{number} at 0x7f00"

def test_never():
    assert False

def test_crash():
    if AS_TORCH:
        os._exit(139)

def test_after():
    pass
"""


@pytest.fixture
def work(tmp_path):
    for side in ("torch", "facula"):
        place = tmp_path / side / "bin"
        place.mkdir(parents=True)
        starter = place / "python"
        starter.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        starter.chmod(0o755)
    place = tmp_path / "src" / "small"
    (place / "small").mkdir(parents=True)
    (place / "test_small.py").write_text(TESTS)
    return tmp_path


def test_a_package_is_run_on_both(work, monkeypatch):
    monkeypatch.setattr(runs, "LIMIT", ())
    package = Package("small", "", ("small",), ("test_small.py",))
    names = runs.collect(work, "torch", package)
    assert len(names) == 8 and names[0] == "test_small.py::test_same"
    torch = runs.run(work, "torch", package, names)
    passed = [name for name, found in torch.items() if found["outcome"] == "passed"]
    assert len(passed) == 7 and torch["test_small.py::test_never"]["outcome"] == "failed"
    facula = runs.run(work, "facula", package, [*passed, "test_small.py::test_gone"])
    outcomes = {name.partition("::")[2]: found["outcome"] for name, found in facula.items()}
    assert outcomes["test_crash"] == "crashed" and outcomes["test_after"] == "passed"
    assert outcomes["test_differs[3]"] == "failed" and outcomes["test_gone"] == "missing"
    row = report.row("small", torch, facula)
    assert (row.torch, row.facula) == (7, 5) and row.share == pytest.approx(5 / 7)
    text = report.table([row], reasons=3)
    assert "small" in text and "71.4%" in text and "N at ADDRESS" in text


def test_what_does_not_import_says_why(work, monkeypatch):
    monkeypatch.setattr(runs, "LIMIT", ())
    (work / "src" / "small" / "conftest.py").write_text("import no_such_module\n")
    package = Package("small", "", ("small",), ("test_small.py",))
    with pytest.raises(RuntimeError, match="nothing was collected"):
        runs.collect(work, "torch", package)
    found = runs.run(work, "torch", package, ["test_small.py::test_same"])
    assert "no_such_module" in found["test_small.py::test_same"]["reason"]


def test_the_sample_is_that_of_its_seed():
    names = [f"test_{i}" for i in range(100)]
    drawn = runs.draw(names, 10, seed=1)
    assert len(drawn) == 10 and drawn == sorted(drawn, key=names.index)
    assert drawn == runs.draw(names, 10, seed=1) != runs.draw(names, 10, seed=2)
    # others that are collected push few out
    assert len(set(drawn) & set(runs.draw([*names, "test_more"], 10, seed=1))) >= 9


def test_reasons_of_one_cause_are_one():
    a = report.short("Mismatched elements: 3 / 16 at 0x7f1 1.25e-3")
    assert a == report.short("Mismatched  elements: 4 / 9\nat 0xabc -7.0")


def test_packages_are_found_by_links(work):
    prepare.link(work, (Package("small", "", ("small",), ()),))
    assert (work / "site" / "small").resolve() == work / "src" / "small" / "small"
    assert len({package.name for package in PACKAGES}) == len(PACKAGES)
    assert all(package.tests and package.sample > 0 for package in PACKAGES)
