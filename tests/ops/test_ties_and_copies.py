"""What tools/mutate showed that no other test sees: gradients at ties, copies, refused shapes."""

from __future__ import annotations

from math import inf

import facula as fa
import pytest


@pytest.mark.parametrize("name", ["fmax", "fmin"])
def test_a_tie_of_fmax_is_the_first_ones(name: str) -> None:
    """As torch has it; where one is NaN, the other is taken."""
    a = fa.tensor([2.0, 1.0, fa.nan], requires_grad=True)
    b = fa.tensor([2.0, fa.nan, 1.0], requires_grad=True)
    getattr(fa, name)(a, b).sum().backward()
    assert a.grad.tolist() == [1, 1, 0] and b.grad.tolist() == [0, 0, 1]


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_equal_terms_share_the_slope(name: str) -> None:
    a = fa.tensor([inf, -inf, 3.0, inf, 1.0], requires_grad=True)
    b = fa.tensor([inf, -inf, 3.0, 1.0, inf], requires_grad=True)
    getattr(fa, name)(a, b).sum().backward()
    assert a.grad.tolist() == [0.5, 0.5, 0.5, 1, 0] and b.grad.tolist() == [0.5, 0.5, 0.5, 0, 1]


@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_power_of_a_matrix_is_new(n: int) -> None:
    a = fa.tensor([[1.0, 2.0], [0.0, 1.0]])
    fa.linalg.matrix_power(a, n).zero_()
    assert a.tolist() == [[1, 2], [0, 1]]


def test_adjoints_are_of_matrices() -> None:
    assert fa.ones(2, 3, 4).mH.shape == (2, 4, 3)
    assert fa.ones(2, 3, 4).mT.shape == fa.ones(2, 3, 4).adjoint().shape == (2, 4, 3)
    for wrong in (fa.ones(3), fa.tensor(1.0)):
        for name in ("mT", "mH"):
            with pytest.raises(RuntimeError, match="at least 2 dims"):
                getattr(wrong, name)
        with pytest.raises(RuntimeError, match="at least 2 dims"):
            wrong.adjoint()


def test_results_of_one_element_are_written() -> None:
    """Where nothing is written when nothing is there, one element is something."""
    for junk in (fa.nan, 7.0):
        out = fa.full((1,), junk)
        assert fa.cat([fa.tensor([3.0]), fa.empty(0)], out=out).tolist() == [3]
        assert fa.stack([fa.tensor(5.0)], out=out).tolist() == [5]
        held = fa.full((1, 1), junk)  # memory that the next result gets
        del held
        x, zero, one = fa.tensor([[4.0]]), fa.tensor([0.0]), fa.tensor([1.0])
        got = fa.nn.functional.batch_norm(x, zero, one, eps=0.0)
        assert got.tolist() == [[4]]
