"""The conformance kit is red where a device is wrong: faults planted into kernels, templates, copies, streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import faulty_device as planted
import pytest
from facula import backends
from facula.testing import _memory, conformance
from faulty_device import FaultyDevice, LazyDevice

# One of each kind of kernel that a vendor writes: products, windows, folds, scans, orders, indices, rows, joins and
# moves, tables, losses, layers over sequences, optimizers; and the pointwise template.
KERNELS = ["bmm", "linear", "convolution", "max_pool", "avg_pool", "sum", "var.correction", "argmax", "cumsum", "cummax",
           "sort", "topk", "searchsorted", "gather", "scatter_add", "index_long", "index_put_long", "masked_fill",
           "softmax", "softmax_backward", "cat", "flip", "tril", "constant_pad_nd", "embedding", "nll_loss_forward",
           "lstm_layer", "adam_step", "im2col", "add", "where"]  # fmt: skip
POINTWISE = ["add", "where"]
MOVES = [
    "cat",
    "flip",
    "tril",
    "constant_pad_nd",
    "masked_fill",
    "embedding",
    "im2col",
]  # no long row in them
# What a fault cannot touch: its operators have no such argument, or nothing to write where an operand is empty.
UNTOUCHED = {
    "one_length": ["lstm_layer"],  # whose sizes hang together
    "beyond_2_to_16": [
        *MOVES,
        "lstm_layer",
        "adam_step",
        "max_pool",
        "avg_pool",
        "where",
        "nll_loss_forward",
    ],
    "beyond_2_to_20": [
        *MOVES,
        "lstm_layer",
        "adam_step",
        "max_pool",
        "avg_pool",
        "where",
        "nll_loss_forward",
    ],
    "zeroed_fast_path": [],
}
ONLY = {
    "empty_unwritten": ["bmm", "sum", "index_put_long", "scatter_add", "cat", "constant_pad_nd"],
    "other_dims": ["argmax", "cumsum", "cummax", "sort", "topk", "gather", "scatter_add", "softmax",
                   "softmax_backward", "cat"],
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def devices() -> None:
    for device in (FaultyDevice, LazyDevice):
        if device.name not in backends.names():
            backends.register(device())


@pytest.fixture
def plant() -> Iterator[Callable[[Any], None]]:
    def put(fault: Any) -> None:
        FaultyDevice.struck.clear()
        FaultyDevice.fault = fault

    yield put
    FaultyDevice.fault = None


def test_without_a_fault_it_is_green() -> None:
    report = conformance.run("faulty", ["bmm", "sum", "sort", "softmax", "index_put_long", "add"])
    assert not report.failures, "\n".join(map(str, report.failures[:20]))


@pytest.mark.parametrize("fault", planted.FAULTS, ids=lambda f: f.__name__)
def test_a_kernel(plant: Callable[[Any], None], fault: Any) -> None:
    ops = ONLY.get(fault.__name__) or [
        op for op in KERNELS if op not in UNTOUCHED.get(fault.__name__, [])
    ]
    plant(fault)
    report = conformance.run("faulty", ops, first=True)
    green = set(ops) - {f.op for f in report.failures}
    assert not green, f"wrong and green: {green & set(FaultyDevice.struck)}; never wrong: {green}"


@pytest.mark.parametrize("fault", planted.COPY_FAULTS, ids=lambda f: f.__name__)
def test_copies(plant: Callable[[Any], None], fault: Any) -> None:
    plant(fault)
    suite = conformance._Suite("faulty")
    _memory.check(suite, True)
    assert FaultyDevice.struck["copy"] and suite.report.failures


@pytest.mark.parametrize("op", ["add", "mul", "relu", "sum", "bmm", "cumsum"])
def test_a_stream_that_is_ignored(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    report = conformance.run("lazy", [op], sizes=False)
    assert not report.failures, "\n".join(map(str, report.failures[:20]))
    monkeypatch.setattr(LazyDevice, "racing", op)
    report = conformance.run("lazy", [op], sizes=False)
    assert any(f.op == op and f.check == "stream" for f in report.failures)
