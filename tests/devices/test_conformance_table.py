"""How the conformance kit says that operators run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import facula as fa
import numpy as np
import pytest
from device_packages import environment
from facula import backends
from facula.testing import conformance
from numpy_device import NumpyDevice


def bmm(self: Any, mat2: Any, out: Any) -> Any:
    """For float32 alone."""
    if out.dtype != fa.float32:
        return NotImplemented
    np.asarray(out)[...] = np.matmul(np.asarray(self), np.asarray(mat2))
    return None


class Partial(NumpyDevice):
    name = "partial"
    kernels = {"bmm": bmm, "cumsum": NumpyDevice.kernels["cumsum"]}  # noqa: RUF012


@pytest.fixture(scope="module")
def partial() -> str:
    if "partial" not in backends.names():
        backends.register(Partial())
    return "partial"


def test_ways(partial: str) -> None:
    ops = ["bmm", "add", "cumsum", "sort", "mm", "transpose", "relu", "sum"]
    report = conformance.run(partial, ops, sizes=False)
    assert not report.failures
    ways = {"bmm": "in part", "add": "by formula", "cumsum": "native", "sort": "fallback",
            "mm": "in part", "transpose": "view"}  # fmt: skip
    assert {op: report.ways[op] for op in ways} == ways
    assert "float64" in report.in_part["bmm"] and set(report.in_part) == {"bmm"}
    assert "missing         0" in report.table() and "in part on the CPU: bmm (" in report.table()


def test_kernels_to_write(partial: str) -> None:
    report = conformance.run(partial, ["sort", "median", "nonzero"], fallback=False)
    assert report.ways["sort"] == "missing" and {"sort"} <= report.missing
    assert "kernels to write: " in report.table()


def test_without_the_cpu(partial: str) -> None:
    report = conformance.run(partial, fallback=False, sizes=False)
    assert not report.failures and not report.fallbacks
    assert {"sort", "uniform_", "convolution", "nonzero_fill"} <= report.missing
    assert report.ways["nonzero_fill"] == report.ways["argsort"] == "missing"
    assert "untested" not in report.ways.values()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--device", "partial", "--op", "nope"], "no operator is called nope"),
        (["--device", "nope"], "'nope' is not a device"),
    ],
)
def test_what_it_refuses(
    partial: str, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        conformance.main(arguments)
    assert stop.value.code == 2 and words in capsys.readouterr().err


def test_processes_share_the_operators(strict_library: Path) -> None:
    """And find together what one of them finds."""
    ops = [f"--op={op}" for op in ("add", "sort", "bmm", "sum", "median", "max", "gelu", "cat")]
    tables = []
    for jobs in ("1", "2"):
        kit = [sys.executable, "-m", "facula.testing.conformance", "--device", "strict"]
        done = subprocess.run(
            [*kit, "--library", str(strict_library), "--jobs", jobs, "--list", "--quick", *ops],
            capture_output=True, text=True, env=environment(), check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
        tables.append([line for line in done.stdout.splitlines() if not line.startswith("strict:")])
    assert tables[0] == tables[1] and any(line.startswith("checks") for line in tables[0])
