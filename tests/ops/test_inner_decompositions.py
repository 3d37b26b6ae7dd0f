"""Decompositions of operators that have no samples: through the operators that call them."""

from __future__ import annotations

import functools
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from emptied import outcome
from facula import profiler
from facula.testing._samples import OpRecord, Sample, operators
from test_decompositions import without_kernel

# What no sample reaches has a file of its own, which takes its kernel away too.
ELSEWHERE = {
    "_csr": "test_sparse_kernels.py",
    "_group_indices": "test_sparse_kernels.py",
    "_ctc": "test_ctc_loss.py",
    "native_dropout": "test_decompositions.py",
}
INNER = [
    op
    for op in operators()
    if op.composite and "CPU" in (op.dispatch or {}) and not op.data["samples"] and not op.property
]


@functools.cache
def callers() -> dict[str, list[tuple[OpRecord, Sample]]]:
    """The samples that reach each operator in forward or backward, of the schema's own."""
    wanted = {op.name for op in INNER}
    found: dict[str, list[tuple[OpRecord, Sample]]] = defaultdict(list)
    for op in operators():
        if op.kind == "random" or op.property:
            continue
        for sample in op.samples():
            with profiler.profile() as seen:
                outcome(op, sample, "float64", "cpu", True)
            for name in wanted.intersection(event.key for event in seen.key_averages()):
                found[name].append((op, sample))
    return found


@pytest.mark.parametrize("op", INNER, ids=lambda op: op.name)
def test_inner_decomposition(op: OpRecord) -> None:
    for start, file in ELSEWHERE.items():
        if op.name.startswith(start):
            text = (Path(__file__).parent / file).read_text(encoding="utf-8")
            assert op.name in text and ("_swap_cpu_kernel" in text or "without_kernel" in text)
            return
    served = 0
    for caller, sample in callers()[op.name]:
        want = outcome(caller, sample, "float64", "cpu", True)
        with without_kernel(op.name):
            got = outcome(caller, sample, "float64", "cpu", True)
        if isinstance(want, str) or got == "MissingKernelError":
            continue
        assert not isinstance(got, str), (caller.name, sample, got)
        served += 1
        for g, w in zip(got, want, strict=True):
            assert (g is None) == (w is None), (caller.name, sample)
            if w is not None:
                assert g[:2] == w[:2], (caller.name, sample)
                np.testing.assert_allclose(
                    g[2].numpy(), w[2].numpy(), rtol=1e-9, atol=1e-9, err_msg=caller.name
                )
    assert served, f"no sample of the schema reaches {op.name}"
