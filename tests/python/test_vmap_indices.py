"""Indices, searches and masks that differ by row of a batch: as row by row, and not by a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula import nn
from facula.func import grad, vmap

ROWS = 3


@pytest.fixture(autouse=True)
def without_loops() -> Iterator[None]:
    fa.func.vmap_fallback_counts(reset=True)
    yield
    assert not fa.func.vmap_fallback_counts()


def compare(
    function: Callable[..., fa.Tensor], args: list[fa.Tensor], dims: tuple[Any, ...]
) -> None:
    found = vmap(function, dims)(*args)
    rows = [
        function(*(a if d is None else a.select(d, r) for a, d in zip(args, dims, strict=True)))
        for r in range(ROWS)
    ]
    expected = fa.stack(rows)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)


def drawn(*shape: int) -> fa.Tensor:
    return fa.randn(*shape, dtype=fa.float64)


def places(high: int, *shape: int) -> fa.Tensor:
    return fa.randint(-high, high, shape)


INDEXED: dict[str, Callable[..., fa.Tensor]] = {
    "first": lambda x, i, j: x[i],
    "second": lambda x, i, j: x[:, i],
    "two": lambda x, i, j: x[i, j],
    "apart": lambda x, i, j: x[i, :, j],
    "behind": lambda x, i, j: x[..., i, j],
    "of other ranks": lambda x, i, j: x[i[:, None], j],
}


@pytest.mark.parametrize("which", INDEXED)
@pytest.mark.parametrize("batched", ["xij", "x", "ij", "i", "xi", "xj"])
def test_reads(which: str, batched: str) -> None:
    fa.manual_seed(0)
    shapes = {"x": (4, 4, 4), "i": (2,), "j": (2,)}
    if batched == "j" or ("i" not in batched and which != "two" and batched != "x"):
        pytest.skip("the index that differs is not used")
    args = [
        (drawn if n == "x" else lambda *s: places(4, *s))(
            *((ROWS, *shapes[n]) if n in batched else shapes[n])
        )
        for n in "xij"
    ]
    compare(INDEXED[which], args, tuple(0 if n in batched else None for n in "xij"))


WRITTEN: dict[str, Callable[..., fa.Tensor]] = {
    "added": lambda x, i, v: x.index_put((i,), v.sum(), accumulate=True),
    "added along a dim": lambda x, i, v: x.index_add(1, i, v),
    "copied along a dim": lambda x, i, v: x.index_copy(1, i, v),
    "in place": lambda x, i, v: _written(x.clone(), i, v),
}


def _written(x: fa.Tensor, i: fa.Tensor, v: fa.Tensor) -> fa.Tensor:
    x[:, i] = v
    return x


@pytest.mark.parametrize("which", WRITTEN)
@pytest.mark.parametrize("batched", ["xiv", "xi", "xv", "x"])
def test_writes(which: str, batched: str) -> None:
    fa.manual_seed(1)
    shapes = {"x": (4, 4), "v": (4, 2)}
    given = {n: drawn(*((ROWS, *s) if n in batched else s)) for n, s in shapes.items()}
    i = fa.stack([fa.randperm(4)[:2] for _ in range(ROWS)])
    args = [given["x"], i if "i" in batched else i[0], given["v"]]
    compare(WRITTEN[which], args, tuple(0 if n in batched else None for n in "xiv"))


def test_positions_are_checked_in_each_row() -> None:
    fa.func.vmap_fallback_counts(reset=True)
    x = drawn(ROWS, 4)
    for bad in (4, -5):
        with pytest.raises(IndexError):
            vmap(lambda x, i: x[i])(x, fa.tensor([[0], [bad], [1]]))


@pytest.mark.parametrize("frequency", [False, True])
@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("dims", [(None, 0), (0, 0), (0, None)])
def test_embeddings(dims: tuple[Any, ...], padding: int | None, frequency: bool) -> None:
    fa.manual_seed(2)
    weight = drawn(*((ROWS, 5, 3) if dims[0] == 0 else (5, 3)))
    at = fa.randint(0, 5, (ROWS, 2, 4) if dims[1] == 0 else (2, 4))

    def loss(w: fa.Tensor, i: fa.Tensor) -> fa.Tensor:
        rows = nn.functional.embedding(i, w, padding_idx=padding, scale_grad_by_freq=frequency)
        return (rows**3).sum()

    compare(grad(loss), [weight, at], dims)


@pytest.mark.parametrize("dims", [(0, 0), (None, 0), (0, None)])
@pytest.mark.parametrize("shape", [(), (5,), (2, 5)])
def test_searches(shape: tuple[int, ...], dims: tuple[Any, ...]) -> None:
    fa.manual_seed(3)
    line = drawn(ROWS, 6).sort(-1)[0]
    values = drawn(ROWS, *shape)
    args = [line if dims[0] == 0 else line[0], values if dims[1] == 0 else values[0]]
    compare(lambda s, v: fa.searchsorted(s, v, right=True), args, dims)
    order = line.flip(-1).argsort(-1)
    if dims == (0, 0):
        found = [line.flip(-1), values, order]
        compare(lambda s, v, o: fa.searchsorted(s, v, sorter=o), found, (0, 0, 0))


@pytest.mark.parametrize("dims", [(0, 0, 0), (None, 0, 0), (0, None, 0), (0, 0, None)])
def test_masked_scatter(dims: tuple[Any, ...]) -> None:
    fa.manual_seed(4)
    whole = [drawn(ROWS, 2, 3), drawn(ROWS, 3) > 0, drawn(ROWS, 6)]
    args = [t if d == 0 else t[0] for t, d in zip(whole, dims, strict=True)]
    compare(lambda x, m, s: x.masked_scatter(m, s), args, dims)


@pytest.mark.parametrize("dims", [(None, 0), (0, None), (0, 0)])
def test_products_with_matrices_and_vectors(dims: tuple[Any, ...]) -> None:
    fa.manual_seed(5)
    for left, right in [((4, 3), (3,)), ((4, 3), (3, 2)), ((3,), (3, 2)), ((1, 3), (3, 1))]:
        args = [
            drawn(*((ROWS, *s) if d == 0 else s)) for s, d in zip((left, right), dims, strict=True)
        ]
        compare(fa.matmul, args, dims)
