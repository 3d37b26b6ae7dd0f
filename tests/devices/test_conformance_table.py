"""How the conformance kit says that operators run."""

from __future__ import annotations

from typing import Any

import facula as fa
import numpy as np
import pytest
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
    report = conformance.run(partial, ops)
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
    report = conformance.run(partial, fallback=False)
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
