"""Indices of every kind, alone and beside each other, against NumPy; and masks and their places."""

from __future__ import annotations

import itertools
from typing import Any

import facula as fa
import numpy as np
import pytest

A = np.arange(3 * 4 * 5).reshape(3, 4, 5)
KINDS: dict[str, Any] = {
    "first": 0,
    "last": -1,
    "all": slice(None),
    "some": slice(1, -1),
    "every second": slice(None, None, 2),
    "new": None,
    "rest": ...,
    "list": [2, 0, -3],
    "array": np.array([[1], [2]]),
    "mask": "mask",
    "yes": np.array(True),
    "no": np.array(False),
}
ADVANCED = ("list", "array", "mask", "yes", "no")


def ours(index: Any) -> Any:
    return fa.tensor(index) if isinstance(index, np.ndarray) else index


def named(kinds: tuple[str, ...]) -> tuple[Any, ...] | None:
    """The index that the kinds name, if it is one of A."""
    index, dim = [], 0
    for k, name in enumerate(kinds):
        if name == "mask":
            if dim > 2 or "rest" in kinds[:k]:
                return None
            index.append(np.arange(A.shape[dim]) % 2 == 0)
        else:
            index.append(KINDS[name])
        dim += name not in ("new", "rest", "yes", "no")
    # NumPy takes a number beside arrays for an array: dims come out in another order.
    mixed = any(n in ADVANCED for n in kinds) and any(n in ("first", "last") for n in kinds)
    return None if dim > 3 or mixed else tuple(index)


CASES = [
    kinds
    for n in (1, 2, 3)
    for kinds in itertools.product(KINDS, repeat=n)
    if kinds.count("rest") <= 1
]


def test_reading_and_writing() -> None:
    done = 0
    for kinds in CASES:
        index = named(kinds)
        if index is None:
            continue
        try:
            want = A[index]
        except IndexError:  # shapes that do not broadcast
            with pytest.raises(IndexError):
                fa.tensor(A)[tuple(map(ours, index))]
            continue
        x = fa.tensor(A)
        got = x[tuple(map(ours, index))]
        assert tuple(got.shape) == want.shape and got.tolist() == want.tolist(), kinds
        copy = A.copy()
        copy[index] = -7
        x[tuple(map(ours, index))] = -7
        assert x.tolist() == copy.tolist(), kinds
        done += 1
    assert done > 300


def test_numbers_reach_from_end_to_end() -> None:
    for size in (1, 2, 5):
        x = fa.arange(size)
        for i in range(-size, size):
            assert x[i].item() == x[fa.tensor(i)].item() == range(size)[i]
        for i in (size, -size - 1):
            for index in (i, fa.tensor(i), fa.tensor([i])):
                with pytest.raises(IndexError):
                    x[index]


def test_masks_fit_in_every_dim() -> None:
    x = fa.tensor(A)
    for shape in ((2,), (4,), (3, 3), (2, 4), (4, 4), (3, 5), (3, 4, 4), (2, 4, 5), (3, 4, 5, 1)):
        mask = np.ones(shape, dtype=bool)
        with pytest.raises(IndexError):
            A[mask]
        with pytest.raises(IndexError):
            x[fa.tensor(mask)]
        with pytest.raises(IndexError):
            x[fa.tensor(mask)] = 0
    for shape in ((3,), (5,), (4, 4), (3, 5)):
        with pytest.raises(IndexError):
            x[:, fa.tensor(np.ones(shape, dtype=bool))]


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8"])
def test_a_tensor_of_one_integer_is_a_number(dtype: str) -> None:
    """Its result is a view, as that of a number is; of a mask or a list of one it is not."""
    x = fa.zeros(3, 2)
    x[fa.tensor(1, dtype=getattr(fa, dtype))].add_(1)
    x[:, fa.tensor(-1, dtype=getattr(fa, dtype))].add_(1)
    assert x.tolist() == [[0, 1], [1, 2], [0, 1]]
    for index in (fa.tensor([1]), fa.tensor(True), fa.tensor([False, True, False])):
        x[index].add_(1)
    assert x.tolist() == [[0, 1], [1, 2], [0, 1]]


SHAPES = [(), (1,), (7,), (100_000,), (300, 400), (40, 50, 60), (5, 6, 7, 80)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 1.0])
def test_places_of_masks(shape: tuple[int, ...], share: float) -> None:
    rng = np.random.default_rng(8)
    mask = np.asarray(rng.random(shape) < share)
    x = np.asarray(rng.normal(size=shape))
    t = fa.tensor(x)
    places = fa.tensor(mask).nonzero()
    assert tuple(places.shape) == (int(mask.sum()), len(shape))
    if shape:
        np.testing.assert_array_equal(places.numpy(), np.argwhere(mask))
        np.testing.assert_array_equal(t[fa.tensor(mask)].numpy(), x[mask])
        for k, found in enumerate(fa.nonzero(fa.tensor(mask), as_tuple=True)):
            np.testing.assert_array_equal(found.numpy(), np.nonzero(mask)[k])
    new = rng.normal(size=int(mask.sum()))
    filled = x.copy()
    filled[mask] = new
    got = t.masked_scatter(fa.tensor(mask), fa.tensor(new, dtype=fa.float64))
    np.testing.assert_array_equal(got.numpy(), filled)
