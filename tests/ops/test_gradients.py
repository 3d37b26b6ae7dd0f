"""Derivatives of every operator: against finite differences, to second order, and forward mode.

In float64, and in complex128 where the operator computes in it; each along random directions.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from facula.testing import _gradients
from facula.testing._samples import OpRecord, operators

from tests.grouped import grouped

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
CHECKS = {
    _gradients.check_gradient: EACH,
    _gradients.check_second_gradient: EACH,
    _gradients.check_forward: [p for p in EACH if _gradients.has_forward(p.values[0])],
    _gradients.check_forward_over_reverse: [p for p in EACH if _gradients.has_forward(p.values[0])],
    _gradients.check_reverse_over_forward: [p for p in EACH if _gradients.has_forward(p.values[0])],
}


@grouped(
    ("op", "index", "dtype", "check"),
    [
        pytest.param(*p.values, check, id=f"{p.id}-{check.__name__}")
        for check, cases in CHECKS.items()
        for p in cases
    ],
)
def test_derivatives(
    op: OpRecord, index: int, dtype: str, check: Callable[[OpRecord, int, str], None]
) -> None:
    check(op, index, dtype)
