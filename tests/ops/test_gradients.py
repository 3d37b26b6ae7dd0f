"""Derivatives of every operator: against finite differences, to second order, and forward mode."""

from __future__ import annotations

import pytest
from facula.testing import _gradients
from facula.testing._samples import OpRecord, operators

CASES = [
    pytest.param(op, i, id=f"{op.name}-{i}")
    for op in operators()
    if _gradients.is_differentiable(op)
    for i in range(len(op.data["samples"]))
]
FORWARD = [p for p in CASES if _gradients.has_forward(p.values[0])]


@pytest.mark.parametrize(("op", "index"), CASES)
def test_gradient(op: OpRecord, index: int) -> None:
    _gradients.check_gradient(op, index)


@pytest.mark.parametrize(("op", "index"), CASES)
def test_second_gradient(op: OpRecord, index: int) -> None:
    _gradients.check_second_gradient(op, index)


@pytest.mark.parametrize(("op", "index"), FORWARD)
def test_forward_mode_agrees_with_reverse(op: OpRecord, index: int) -> None:
    _gradients.check_forward(op, index)


@pytest.mark.parametrize(("op", "index"), FORWARD)
def test_forward_over_reverse(op: OpRecord, index: int) -> None:
    _gradients.check_forward_over_reverse(op, index)
