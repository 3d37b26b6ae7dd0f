"""NumPy's arrays beside tensors: signs, signs in place, NumPy's functions."""

from __future__ import annotations

import operator
from typing import Any

import facula as fa
import numpy as np
import pytest

BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow,
    operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge,
]  # fmt: skip
WHOLE = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
INPLACE = [
    operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv,
    operator.imod, operator.ipow,
]  # fmt: skip
WHOLE_INPLACE = [operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift]


@pytest.mark.parametrize("sign", [*BINARY, *WHOLE])
def test_signs_give_tensors(sign: Any) -> None:
    dtype = "int64" if sign in WHOLE else "float64"
    a, b = np.array([5, 3, 2], dtype), np.array([2, 3, 1], dtype)
    want = sign(a, b)
    for got in (sign(a, fa.from_numpy(b)), sign(fa.from_numpy(a), b)):
        assert type(got) is fa.Tensor
        np.testing.assert_array_equal(got.numpy(), want)
    for got in (sign(a[0], fa.from_numpy(b)), sign(a[:1].reshape(()), fa.from_numpy(b))):
        assert type(got) is fa.Tensor
        np.testing.assert_array_equal(got.numpy(), sign(a[0], b))


def test_products_of_matrices() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(3.0)
    assert type(a @ fa.from_numpy(b)) is fa.Tensor
    np.testing.assert_array_equal((a @ fa.from_numpy(b)).numpy(), a @ b)
    np.testing.assert_array_equal((fa.from_numpy(a) @ b).numpy(), a @ b)


@pytest.mark.parametrize("sign", [*INPLACE, *WHOLE_INPLACE])
def test_in_place_signs_write_into_the_array(sign: Any) -> None:
    dtype = "int64" if sign in WHOLE_INPLACE else "float64"
    base, b = np.array([5, 9, 3, 9, 2, 9], dtype), np.array([2, 3, 1], dtype)
    want = sign(base[::2].copy(), b)
    for other in (
        fa.from_numpy(b),
        fa.from_numpy(b).to(fa.int32 if sign in WHOLE_INPLACE else fa.float32),
    ):
        array = base.copy()[::2]
        assert sign(array, other) is array
        np.testing.assert_array_equal(array, want)
        assert array.base[1] == 9


def test_in_place_product() -> None:
    a, b = np.arange(4.0).reshape(2, 2), np.arange(4.0).reshape(2, 2)
    want = a @ b
    same = a
    a @= fa.from_numpy(b)
    assert a is same
    np.testing.assert_array_equal(a, want)


def test_in_place_keeps_numpys_rules() -> None:
    whole = np.array([1, 2])
    with pytest.raises(TypeError):  # a float result does not go into integers
        whole += fa.tensor([0.5, 0.5])
    with pytest.raises(ValueError, match="broadcast"):
        whole += fa.tensor([1, 2, 3])
    with pytest.raises(RuntimeError, match="detach"):
        np.ones(2).__iadd__(fa.ones(2, requires_grad=True))
    frozen = np.ones(2)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        frozen += fa.ones(2)
    row = np.zeros((2, 2))
    row += fa.tensor([1.0, 2.0])
    assert row.tolist() == [[1.0, 2.0], [1.0, 2.0]]


def test_functions_of_numpy() -> None:
    a, t = np.ones(2), fa.tensor([1.0, 2.0], dtype=fa.float64)
    assert np.add(a, t, out=a) is a
    assert a.tolist() == [2.0, 3.0]
    assert type(np.sin(t)) is np.ndarray
    assert np.maximum(a, t).tolist() == [2.0, 3.0]
    assert np.add.reduce(t) == 3.0
    assert np.multiply.outer(t, t).shape == (2, 2)
    assert np.concatenate([a, t]).shape == (4,)
    assert np.add(a, t, where=fa.tensor([True, True]), out=np.zeros(2)).tolist() == [3.0, 5.0]
    quotient, rest = np.divmod(a, t)
    assert (quotient.tolist(), rest.tolist()) == ([2.0, 1.0], [0.0, 1.0])
    with pytest.raises(TypeError, match=r"t\.numpy\(\) as out"):
        np.add(a, a, out=t)
    np.add(a, a, out=t.numpy())
    assert t.tolist() == [4.0, 6.0]


def test_gradients_go_through_signs() -> None:
    t = fa.tensor([1.0, 2.0], requires_grad=True)
    (np.array([3.0, 4.0]) * t + np.float64(1)).sum().backward()
    assert t.grad.tolist() == [3.0, 4.0]
