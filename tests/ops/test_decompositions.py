"""Decompositions against kernels: operators that have both, run without their kernel."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import facula
import pytest
import test_random_properties
from emptied import emptied, outcome
from facula.testing._samples import OpRecord, operators
from harness import arguments, call, compare, to_numpy

BOTH = [
    op
    for op in operators()
    if op.samples()
    and op.composite
    and "CPU" in (op.dispatch or {})
    and op.kind != "random"
    and not op.property
]
CASES = [
    pytest.param(op, i, id=f"{op.name}-{i}") for op in BOTH for i in range(len(op.data["samples"]))
]


@contextmanager
def without_kernel(name: str) -> Iterator[None]:
    """The CPU kernel of an operator taken out of the table."""
    kernel = facula._C._swap_cpu_kernel(name, 0)
    try:
        yield
    finally:
        facula._C._swap_cpu_kernel(name, kernel)


def decomposed(op: OpRecord, run: Callable[[], Any]) -> Any:
    """The result, if the decomposition serves these arguments, as that of the first sample must."""
    try:
        return run()
    except facula.backends.MissingKernelError as error:
        assert error.op == op.name and "its decomposition does not serve them" in error.refusal
        pytest.skip(error.refusal)


@pytest.mark.parametrize("op", BOTH, ids=lambda op: op.name)
def test_a_decomposition_serves_something(op: OpRecord) -> None:
    _, args, kwargs = arguments(op.sample(0), "float64")
    with without_kernel(op.name):
        call(op, args, kwargs)


@pytest.mark.parametrize(("op", "index"), CASES)
def test_decomposition(op: OpRecord, index: int) -> None:
    _, args, kwargs = arguments(op.sample(index), "float64")
    want = call(op, copy.deepcopy(args), kwargs)
    with without_kernel(op.name):
        got = decomposed(op, lambda: call(op, args, kwargs))
    compare(op, to_numpy(got), to_numpy(want), "float64")
    for g, w in zip(
        *([x] if isinstance(x, facula.Tensor) else x for x in (got, want)), strict=True
    ):
        assert not isinstance(g, facula.Tensor) or g.dtype == w.dtype


INPLACE = [p for p in CASES if "inplace" in p.values[0].variants and not p.values[0].internal]


@pytest.mark.parametrize(("op", "index"), INPLACE)
def test_decomposition_in_place(op: OpRecord, index: int) -> None:
    _, args, kwargs = arguments(op.sample(index), "float64")
    want = op.function()(*args, **kwargs)
    mine = args[0].clone()
    if mine.shape != want.shape or mine.dtype != want.dtype:
        pytest.skip("the result does not fit self")
    with without_kernel(op.name):
        decomposed(op, lambda: getattr(mine, op.base_name + "_")(*args[1:], **kwargs))
    compare(op, to_numpy(mine), to_numpy(want), "float64")


RANDOM = [
    op
    for op in operators()
    if op.composite and "CPU" in (op.dispatch or {}) and op.property and op.kind == "mutation"
]


@pytest.mark.parametrize("op", RANDOM, ids=lambda op: op.name)
def test_decompositions_draw_alike(op: OpRecord) -> None:
    """What is known of the numbers that a kernel draws holds without it."""
    check = getattr(test_random_properties, op.property)
    given = [mark.args[1][1] for mark in getattr(check, "pytestmark", ())]
    with without_kernel(op.name):
        decomposed(op, lambda: check(*given))


def test_decomposed_integers_of_a_range() -> None:
    facula.manual_seed(3)
    with without_kernel("random_.from_"):
        for low, high in ((0, 10), (-7, 3), (5, 2**40), (-(2**61), 2**61), (0, 2**63 - 3)):
            x = facula.empty(20_000, dtype=facula.int64).random_(low, high)
            assert low <= int(x.min()) and int(x.max()) < high
            assert (
                abs(float(x.double().mean()) / (high - low) - (low + high - 1) / 2 / (high - low))
                < 0.02
            )
        with pytest.raises(facula.backends.MissingKernelError, match="2\\^63 numbers"):
            facula.empty(1, dtype=facula.int64).random_(0, 2**63 - 2)


def test_decompositions_of_nothing() -> None:
    """Empty operands, forward and backward, as on a device that has none of these kernels."""
    names = [o.name for o in operators() if o.composite and "CPU" in (o.dispatch or {})]
    public = [op for op in operators() if op.samples() and op.function() and op.kind != "random"]
    cases = [(op, sample) for op in public for sample in emptied(op)]
    want = [outcome(op, sample, "float32", "cpu", True) for op, sample in cases]
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(without_kernel(name))
        got = [outcome(op, sample, "float32", "cpu", True) for op, sample in cases]
    served = 0
    for (op, sample), g, w in zip(cases, got, want, strict=True):
        if g == "MissingKernelError":
            continue
        served += 1
        kinds = [x if isinstance(x, str) else [r and r[:2] for r in x] for x in (g, w)]
        assert kinds[0] == kinds[1], (op.name, sample)
    assert served > len(cases) // 2
