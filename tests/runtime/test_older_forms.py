"""Forms of torch that programs use without need: layouts, a number first, data of views."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest


def test_factories_take_the_one_layout_and_pin_memory():
    x = fa.ones(2)
    for made in (
        fa.zeros(2, layout=fa.strided, pin_memory=False),
        fa.empty(2, layout=fa.strided),
        fa.zeros_like(x, layout=fa.strided),
        fa.rand(2, layout=None),
        x.new_zeros(2, layout=fa.strided),
        x.new_full((2,), 3, layout=fa.strided, pin_memory=None),
    ):
        assert made.shape == (2,)
    with pytest.raises(TypeError, match="layout"):
        fa.zeros(2, layout="strided")
    with pytest.raises(TypeError, match="pin_memory"):
        fa.zeros(2, pin_memory="no")


def test_products_and_quotients_with_the_number_first():
    a, b = fa.tensor([1.0, 2.0]), fa.tensor([2.0, 4.0])
    np.testing.assert_allclose(a.addcmul(0.5, a, b).numpy(), [2.0, 6.0])
    np.testing.assert_allclose(fa.addcdiv(a, -1, a, b).numpy(), [0.5, 1.5])
    np.testing.assert_allclose(a.clone().addcdiv_(-1, a, b).numpy(), [0.5, 1.5])
    np.testing.assert_allclose(a.clone().addcmul_(2, a, b).numpy(), [5.0, 18.0])


def test_results_without_names_are_plain_tuples():
    for found in (fa.var_mean(fa.ones(3)), fa.std_mean(fa.ones(2, 3), 0)):
        assert type(found) is tuple and len(found) == 2
    assert fa.ones(2, 3).max(0).values.shape == (3,)


def test_bytearrays_are_sequences_of_ints():
    for made in (fa.as_tensor(bytearray(b"abc")), fa.tensor([bytearray(b"abc")])[0]):
        assert made.tolist() == [97, 98, 99] and made.dtype == fa.int64
    with pytest.raises(TypeError, match="bytes"):
        fa.tensor(b"abc")


def test_data_of_views():
    base = fa.zeros(2, 3)
    view = base[1]
    view.data = fa.ones(4)
    view.add_(1)
    assert view.tolist() == [2.0] * 4 and base.tolist() == [[0.0] * 3] * 2
    assert view._base is None
    leaf = fa.ones(2, 3, requires_grad=True)
    part = leaf[1]
    part.data = fa.full((3,), 5.0)
    (part * part).sum().backward()
    assert leaf.grad.tolist() == [[0.0] * 3, [10.0] * 3]


@pytest.mark.parametrize("like", [fa.rand_like, fa.randn_like, lambda x: fa.randint_like(x, 3)])
def test_random_numbers_of_a_shape_have_no_history(like):
    x = fa.ones(3, requires_grad=True)
    assert not like(x * 2).requires_grad
