"""Operators of integers, bools and complex numbers, whose kernels are those of floats."""

from __future__ import annotations

from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.nn import functional

GENERATOR = np.random.default_rng(4)


def whole(*shape: int, high: int = 9) -> np.ndarray:
    return GENERATOR.integers(-high, high, shape)


def complex_numbers(*shape: int) -> np.ndarray:
    return GENERATOR.normal(size=shape) + 1j * GENERATOR.normal(size=shape)


CONVOLUTIONS: list[tuple[int, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    (1, (2, 4, 9), (6, 2, 3), {"stride": 2, "padding": 1, "dilation": 2, "groups": 2}),
    (2, (2, 3, 6, 5), (4, 3, 3, 2), {"padding": (1, 0), "dilation": (1, 2)}),
    (2, (3, 6, 5), (4, 3, 3, 3), {"padding": "same"}),
    (3, (1, 2, 4, 3, 5), (2, 2, 2, 1, 3), {"stride": (1, 2, 1)}),
]


@pytest.mark.parametrize("dims, image, weight, options", CONVOLUTIONS)
def test_convolutions(dims: int, image: Any, weight: Any, options: Any) -> None:
    """Integers as the floats that hold them; complex ones by their parts."""
    function = getattr(functional, f"conv{dims}d")
    x, w, b = whole(*image), whole(*weight), whole(weight[0])
    want = function(*(fa.tensor(a.astype(float)) for a in (x, w, b)), **options)
    got = function(fa.tensor(x), fa.tensor(w), fa.tensor(b), **options)
    assert got.dtype == fa.int64
    np.testing.assert_array_equal(got.numpy(), want.numpy())
    x, w, b = complex_numbers(*image), complex_numbers(*weight), complex_numbers(weight[0])
    got = function(fa.tensor(x), fa.tensor(w), fa.tensor(b), **options).numpy()
    rows = [function(fa.tensor(a), fa.tensor(w.real.copy()), **options) for a in (x.real.copy(),)]
    real = (
        rows[0].numpy()
        - function(fa.tensor(x.imag.copy()), fa.tensor(w.imag.copy()), **options).numpy()
    )
    shape = (-1,) + (1,) * dims
    np.testing.assert_allclose(got.real, real + b.real.reshape(shape), rtol=1e-10, atol=1e-10)


def test_transposed_convolutions_of_integers() -> None:
    x, w = whole(2, 4, 5), whole(4, 3, 3)
    options = {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}
    want = functional.conv_transpose1d(fa.tensor(x * 1.0), fa.tensor(w * 1.0), **options)
    got = functional.conv_transpose1d(fa.tensor(x), fa.tensor(w), **options)
    np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_gradients_of_complex_convolutions() -> None:
    x = fa.tensor(complex_numbers(1, 2, 4, 4), requires_grad=True)
    w = fa.tensor(complex_numbers(3, 2, 2, 2), requires_grad=True)
    b = fa.tensor(complex_numbers(3), requires_grad=True)
    assert fa.autograd.gradcheck(lambda *a: functional.conv2d(*a, padding=1), (x, w, b))
    assert fa.autograd.gradgradcheck(lambda *a: functional.conv2d(*a), (x, w, b))


def test_large_integers_are_exact() -> None:
    big = 2**60
    x = fa.tensor([[[big, big + 1, big - 1, 3]]])
    assert functional.conv1d(x, fa.tensor([[[1, -1]]])).tolist() == [[[-1, 2, big - 4]]]
    values, places = functional.max_pool1d(x, 2, return_indices=True)
    assert values.tolist() == [[[big + 1, big - 1]]] and places.tolist() == [[[1, 2]]]


def test_pooling_of_integers() -> None:
    x = whole(2, 3, 6, 6)
    got = functional.max_pool2d(fa.tensor(x), 3, 2, 1)
    want = functional.max_pool2d(fa.tensor(x * 1.0), 3, 2, 1)
    assert got.dtype == fa.int64
    np.testing.assert_array_equal(got.numpy(), want.numpy())
    mean = functional.avg_pool2d(fa.tensor(x), 2)
    blocks = x.reshape(2, 3, 3, 2, 3, 2).sum((3, 5))
    np.testing.assert_array_equal(mean.numpy(), np.trunc(blocks / 4))
    flags = fa.tensor([[[[True, False], [False, True]]]])
    assert functional.unfold(flags, 2).tolist() == [[[True], [False], [False], [True]]]


def test_logarithms_of_complex_sums() -> None:
    x, y = complex_numbers(3, 5), complex_numbers(3, 5)
    got = fa.logaddexp(fa.tensor(x), fa.tensor(y)).numpy()
    np.testing.assert_allclose(np.exp(got), np.exp(x) + np.exp(y), rtol=1e-12)
    got = fa.logcumsumexp(fa.tensor(x), 1).numpy()
    np.testing.assert_allclose(np.exp(got), np.exp(x).cumsum(1), rtol=1e-12)
    nothing = fa.logcumsumexp(fa.tensor([complex(-np.inf, 0), 1j]), 0)
    np.testing.assert_allclose(nothing.numpy(), [complex(-np.inf, 0), 1j])
    point = fa.tensor(x, requires_grad=True)
    assert fa.autograd.gradcheck(lambda t: fa.logcumsumexp(t, 1), (point,))
    other = fa.tensor(y, requires_grad=True)
    assert fa.autograd.gradcheck(fa.logaddexp, (point, other))


def test_whole_steps() -> None:
    """As NumPy: the ends give the number of elements, their whole parts the elements."""
    assert fa.arange(0, 10, 3.5, dtype=fa.int64).tolist() == [0, 3, 6]
    assert fa.arange(1.5, 7.9, 1.7, dtype=fa.int32).tolist() == [1, 2, 3, 4]
    for start, end, steps in ((-3, 11, 6), (10, 0, 8), (7, -8, 6), (-9, -2, 4), (0.9, 5.7, 4)):
        a, b = int(start), int(end)
        want = [int((a * (steps - 1 - i) + b * i) / (steps - 1)) for i in range(steps)]
        assert fa.linspace(start, end, steps, dtype=fa.int64).tolist() == want
    assert fa.logspace(0, 2.5, 4, base=3, dtype=fa.int32).tolist() == [1, 2, 4, 9]


def test_sections_in_tensors() -> None:
    x = fa.arange(7)
    assert [t.tolist() for t in x.tensor_split(fa.tensor([2, 5]))] == [[0, 1], [2, 3, 4], [5, 6]]
    assert len(x.tensor_split(fa.tensor(3))) == 3
    with pytest.raises(RuntimeError, match="must be int64 of at most 1 dim"):
        x.tensor_split(fa.tensor([1.0]))


def test_writes_that_reduce() -> None:
    x = fa.ones(3)
    x.scatter_(0, fa.tensor([0, 0]), fa.tensor([2.0, 3.0]), reduce="multiply")
    x.scatter_(0, fa.tensor([2]), 5, reduce="add")
    assert x.tolist() == [6, 1, 6]


def test_conversions_take_a_memory_format() -> None:
    x = fa.ones(1, 3, 2, 2)
    assert x.double(memory_format=fa.channels_last).stride() == (12, 1, 6, 3)
    assert x.float() is x


def test_outer_products_of_bools() -> None:
    a, b, c = fa.tensor([[True, False]]), fa.tensor([True]), fa.tensor([False, True])
    assert fa.addr(a, b, c).tolist() == [[True, True]]
    assert fa.addr(a, b, c, beta=0).tolist() == [[False, True]]
    assert fa.addr(a, b, c, alpha=0).tolist() == [[True, False]]
    assert fa.tensor([True, False]).clamp(0, 1).tolist() == [1, 0]
