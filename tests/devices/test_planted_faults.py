"""The kit is red where a device is wrong: faults in kernels, templates, copies, streams."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import facula as fa
import faulty_device as planted
import pytest
from facula import backends
from facula.testing import _memory, conformance
from facula.testing._samples import operators
from facula.testing._suite import Suite
from faulty_device import FaultyDevice, LazyDevice

# One of each kind of kernel that a vendor writes: products, windows, reductions, scans, orders,
# indices, rows, joins, triangles, tables, losses, optimizers; and the pointwise template.
KERNELS = [
    "bmm", "convolution", "max_pool", "sum", "cumsum", "sort", "gather", "index_put_long",
    "softmax", "cat", "tril", "embedding", "nll_loss_forward", "adam_step", "add",
]  # fmt: skip
ROWS = [
    "bmm",
    "sum",
    "cumsum",
    "sort",
    "gather",
    "softmax",
]  # that have rows, whose length may count
ONLY = {
    "one_length": ROWS,
    "beyond_2_to_16": ROWS,
    "beyond_2_to_20": ROWS,
    "empty_unwritten": ["bmm", "sum", "index_put_long", "cat"],  # whose result is not empty then
    "other_dims": ["cumsum", "sort", "gather", "softmax", "cat"],
}


@pytest.fixture(scope="module", autouse=True)
def devices() -> Iterator[None]:
    for device in (FaultyDevice, LazyDevice):
        if device.name not in backends.names():
            backends.register(device())
    threads = fa.get_num_threads()  # many small calls, beside other workers
    fa.set_num_threads(1)
    yield
    fa.set_num_threads(threads)


@pytest.fixture
def plant() -> Iterator[Callable[[Any], None]]:
    def put(fault: Any) -> None:
        FaultyDevice.struck.clear()
        FaultyDevice.fault = fault

    yield put
    FaultyDevice.fault = None


def test_without_a_fault_it_is_green() -> None:
    report = conformance.run("faulty", ["bmm", "cumsum", "sort", "add"])
    assert not report.failures, "\n".join(map(str, report.failures[:20]))


@pytest.mark.parametrize("fault", planted.FAULTS, ids=lambda f: f.__name__)
def test_a_kernel(plant: Callable[[Any], None], fault: Any) -> None:
    ops = ONLY.get(fault.__name__, KERNELS)
    plant(fault)
    report = conformance.run("faulty", ops, first=True)
    green = set(ops) - {f.op for f in report.failures}
    assert not green, f"wrong and green: {green & set(FaultyDevice.struck)}; never wrong: {green}"


@pytest.mark.parametrize(
    ("fault", "sees"),
    [(planted.one_length, lambda n: n % 10 == 2), (planted.beyond_2_to_16, lambda n: n % 4 == 0)],
)
def test_the_template(
    plant: Callable[[Any], None], fault: Any, sees: Callable[[int], bool]
) -> None:
    """Each formula sees some lengths of rows, and all of them together each."""
    plant(fault)
    names = [op.name for op in operators() if op.scalar and op.samples() and not op.internal]
    ops = [name for name in names if sees(zlib.crc32(name.encode()))][:12]
    report = conformance.run("faulty", ops, first=True)
    assert FaultyDevice.struck and {f.op for f in report.failures} & set(FaultyDevice.struck)


@pytest.mark.parametrize("fault", planted.COPY_FAULTS, ids=lambda f: f.__name__)
def test_copies(plant: Callable[[Any], None], fault: Any) -> None:
    plant(fault)
    suite = Suite("faulty")
    _memory.check(suite, True)
    assert FaultyDevice.struck["copy"] and suite.report.failures


@pytest.mark.parametrize("op", ["add", "mul", "relu", "sum", "bmm", "cumsum"])
def test_a_stream_that_is_ignored(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    report = conformance.run("lazy", [op], sizes=False)
    assert not report.failures, "\n".join(map(str, report.failures[:20]))
    monkeypatch.setattr(LazyDevice, "racing", op)
    report = conformance.run("lazy", [op], sizes=False)
    assert any(f.op == op and f.check == "stream" for f in report.failures)
