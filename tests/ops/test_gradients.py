"""Derivatives of every operator: against finite differences, to second order, and forward mode.

In float64, and in complex128 where the operator computes in it; each along random directions.
"""

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
EACH = [pytest.param(*p.values, "float64", id=p.id) for p in CASES]
EACH += [
    pytest.param(*p.values, "complex128", id=f"{p.id}-complex")
    for p in CASES
    if _gradients.takes_complex(*p.values)
]
FORWARD = [p for p in EACH if _gradients.has_forward(p.values[0])]


@pytest.mark.parametrize(("op", "index", "dtype"), EACH)
def test_gradient(op: OpRecord, index: int, dtype: str) -> None:
    _gradients.check_gradient(op, index, dtype)


@pytest.mark.parametrize(("op", "index", "dtype"), EACH)
def test_second_gradient(op: OpRecord, index: int, dtype: str) -> None:
    _gradients.check_second_gradient(op, index, dtype)


@pytest.mark.parametrize(("op", "index", "dtype"), FORWARD)
def test_forward_mode_agrees_with_reverse(op: OpRecord, index: int, dtype: str) -> None:
    _gradients.check_forward(op, index, dtype)


@pytest.mark.parametrize(("op", "index", "dtype"), FORWARD)
def test_forward_over_reverse(op: OpRecord, index: int, dtype: str) -> None:
    _gradients.check_forward_over_reverse(op, index, dtype)
