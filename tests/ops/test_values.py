"""Every operator of ops.yaml against its NumPy reference, in every dtype it declares."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from facula.testing import _values
from facula.testing._samples import OpRecord, operators
from harness import REFERENCES, dtypes_of

from tests.grouped import grouped

WITH_SAMPLES = [op for op in operators() if op.samples() and not op.derived_from]
WITH_REFERENCE = [op for op in WITH_SAMPLES if op.reference]
CASES = [
    pytest.param(op, i, dtype, id=f"{op.name}-{i}-{dtype}")
    for op in WITH_REFERENCE
    for i in range(len(op.data["samples"]))
    for dtype in dtypes_of(op)
]
SAMPLES = [(op, i) for op in WITH_SAMPLES for i in range(len(op.data["samples"]))]


@grouped(("op", "index", "dtype"), CASES)
def test_value(op: OpRecord, index: int, dtype: str) -> None:
    _values.check_value(op, index, dtype, REFERENCES)


def having(variant: str) -> list[tuple[OpRecord, int]]:
    return [(op, i) for op, i in SAMPLES if variant in op.variants and not op.internal]


FORMS = {
    _values.check_non_contiguous_inputs: SAMPLES,
    _values.check_out: having("out"),
    _values.check_inplace: having("inplace"),
    _values.check_meta: SAMPLES,
}


@grouped(
    ("op", "index", "check"),
    [
        pytest.param(op, i, check, id=f"{op.name}-{i}-{check.__name__}")
        for check, samples in FORMS.items()
        for op, i in samples
    ],
)
def test_forms(op: OpRecord, index: int, check: Callable[[OpRecord, int], None]) -> None:
    """Each form of an operator gives what the operator gives."""
    check(op, index)


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in WITH_SAMPLES])
def test_bad_arguments(op: OpRecord) -> None:
    _values.check_bad_arguments(op)


def test_every_operator_has_a_proof() -> None:
    missing = [
        op.name
        for op in operators()
        if not op.derived_from and not op.reference and not op.property and not op.internal
    ]
    assert not missing


def test_methods_take_self_first() -> None:
    """A method's tensor is the first argument; an operator with `self` elsewhere has a form."""
    for op in operators():
        if any(path.startswith("Tensor.") for path in op.python):
            assert "self" not in [a["name"] for a in op.data["arguments"][1:]], op.name


def test_references_are_not_our_own_code() -> None:
    assert not [op.name for op in WITH_REFERENCE if "facula" in op.reference]
