"""Numbers in formulas keep their precision: the default dtype changes nothing of float64."""

from __future__ import annotations

from collections.abc import Iterator

import facula
import mpmath
import pytest
from facula.testing._gradients import prepared
from facula.testing._samples import OpRecord
from test_gradients import CASES


@pytest.fixture
def default_dtype() -> Iterator[None]:
    yield
    facula.set_default_dtype(facula.float32)


def derivatives(op: OpRecord, index: int) -> list[list[float | complex]]:
    """Values, gradients and second gradients, each made of float64 inputs."""
    function, inputs = prepared(op, index)
    results = [o for o in function(*inputs) if o.requires_grad]
    found = [o.detach().flatten().tolist() for o in results]
    for _ in range(2):
        weights = [facula.ones_like(o) for o in results]
        wanted = [i for i in inputs if i.requires_grad]
        try:
            grads = facula.autograd.grad(
                results, wanted, weights, create_graph=True, allow_unused=True
            )
        except NotImplementedError as error:
            assert error.kind == "derivative"  # there is none, as its entry states
            break
        found += [[] if g is None else g.detach().flatten().tolist() for g in grads]
        results = [g for g in grads if g is not None and g.requires_grad]
        if not results:
            break
    return found


def compare(op: OpRecord, index: int) -> None:
    try:
        narrow = derivatives(op, index)
    except pytest.skip.Exception:
        return
    facula.set_default_dtype(facula.float64)
    wide = derivatives(op, index)
    facula.set_default_dtype(facula.float32)
    assert repr(narrow) == repr(wide), (op.name, index)


@pytest.mark.parametrize("part", range(8))
def test_default_dtype_changes_nothing(part: int, default_dtype: None) -> None:
    for case in CASES[part::8]:
        op, index = case.values
        compare(op, index)


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda x: x**0.3, 2.0),
        (lambda x: 0.3**x, 2.0),
        (lambda x: x**-1.7, 0.4),
        (lambda x: x ** (0.3 + 0.1j), 2 + 1j),
        (lambda x: (0.3 + 0.1j) ** x, 2 + 1j),
    ],
)
def test_derivatives_of_powers(function, x):
    dtype = facula.complex128 if isinstance(x, complex) else facula.float64
    point = facula.tensor(x, dtype=dtype, requires_grad=True)
    result = function(point)
    with mpmath.workdps(60):
        base = mpmath.mpmathify(x)
        for order in range(1, 4):
            one = facula.ones_like(result)
            (result,) = facula.autograd.grad(result, point, one, create_graph=True)
            want = complex(mpmath.diff(function, base, order)).conjugate()
            assert abs(complex(result.item()) - want) <= 1e-14 * abs(want), order


def test_a_number_made_of_numbers_is_a_tensor_of_the_default_dtype():
    made = facula.add(1.5, 2.5)
    assert made.dtype == facula.float32
    assert (made + facula.ones(2, dtype=facula.float16)).dtype == facula.float16  # 0-d
    assert facula.div(1, 3).dtype == facula.float32
    assert facula.mul(1j, 2.0).dtype == facula.complex64
    assert facula.maximum(2, 3).dtype == facula.int64
    assert facula.where(facula.tensor([True]), 0.1, 0.2).dtype == facula.float32
    assert facula.eq(1.0, 2.0).dtype == facula.bool
