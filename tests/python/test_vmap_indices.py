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


MASKED: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {  # shapes of mask and values
    "one": ((2, 3), ()),
    "one in a list": ((2, 3), (1,)),
    "as many as are true": ((2, 3), (4,)),
    "of rows": ((2,), (3,)),
    "for the rows": ((2,), (1, 3)),
    "one for rows": ((2,), ()),
}


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("dims", [(0, 0, 0), (None, 0, 0), (0, 0, None)])
@pytest.mark.parametrize("which", MASKED)
def test_writes_by_masks(which: str, dims: tuple[Any, ...], accumulate: bool) -> None:
    fa.manual_seed(6)
    mask_shape, value_shape = MASKED[which]
    masks = fa.zeros(ROWS, 6 if mask_shape == (2, 3) else 2, dtype=fa.bool)
    for row in range(ROWS):
        masks[row, fa.randperm(masks.size(1))[: 4 if masks.size(1) == 6 else 1]] = True
    whole = [drawn(ROWS, 2, 3), masks.reshape(ROWS, *mask_shape), drawn(ROWS, *value_shape)]
    args = [t if d == 0 else t[0] for t, d in zip(whole, dims, strict=True)]

    def put(x: fa.Tensor, m: fa.Tensor, v: fa.Tensor) -> fa.Tensor:
        return x.index_put((m,), v, accumulate=accumulate)

    compare(put, args, dims)
    if dims[0] == 0:  # what all rows share is not written to
        compare(lambda x, m, v: x.clone().index_put_((m,), v, accumulate=accumulate), args, dims)
    for by in (0, 2):
        compare(grad(lambda x, m, v: (put(x, m, v) ** 3).sum(), argnums=by), args, dims)


def test_writes_by_masks_that_do_not_fit() -> None:
    x, mask = fa.zeros(2, 3), fa.tensor([[True, True, False], [True, False, False]])
    with pytest.raises(RuntimeError, match="2 values, and the masks of the rows are true 1 to 2"):
        vmap(lambda t, m: t.index_put((m,), fa.ones(2)))(x, mask)
    with pytest.raises(RuntimeError, match="one dtype"):
        vmap(lambda t, m: t.index_put((m,), fa.tensor(1)))(x, mask)
    with pytest.raises(IndexError, match="does not fit"):
        vmap(lambda t, m: t.index_put((m,), fa.tensor(1.0)))(fa.zeros(2, 4), mask)
    with pytest.raises(RuntimeError, match="do not fit self"):
        vmap(lambda t, m: t.index_put((m,), fa.ones(1, 1)))(x, mask)


def test_parts_by_strides_of_rows_that_have_gaps() -> None:
    x, part = fa.arange(12.0).reshape(3, 4), fa.tensor([10.0, 20.0])
    want = x.clone()
    want[:, ::2] = part
    assert vmap(lambda t: t.as_strided_scatter(part, (2,), (2,)))(x).tolist() == want.tolist()
    for refused in (lambda t: t[1:], lambda t: t[::2], lambda t: t.expand(2, 4)):
        with pytest.raises(RuntimeError, match="dense and start where its row does"):
            vmap(lambda t, f=refused: f(t).as_strided_scatter(part, (2,), (1,)))(x)
    with pytest.raises(RuntimeError, match="dense"):
        vmap(lambda t: t.as_strided_scatter(part, (2,), (1,)), 1)(x)


@pytest.mark.parametrize("driver", ["gelsy", "gelsd"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 3), (3, 5)])
def test_least_squares(shape: tuple[int, int], driver: str) -> None:
    fa.manual_seed(7)
    a, b = drawn(ROWS, *shape), drawn(ROWS, shape[0], 2)

    def loss(a: fa.Tensor, b: fa.Tensor) -> fa.Tensor:
        return fa.linalg.lstsq(a, b, driver=driver).solution.sin().sum()

    for dims in [(0, 0), (None, 0), (0, None)]:
        args = [t if d == 0 else t[0] for t, d in zip((a, b), dims, strict=True)]
        for by in (0, 1):
            got = vmap(grad(loss, argnums=by), dims)(*args)
            for row in range(ROWS):
                given = [t if d is None else t[row] for t, d in zip(args, dims, strict=True)]
                ends = []
                for step in (1e-6, -1e-6):
                    moved = [t.clone() for t in given]
                    moved[by][-1, 0] += step
                    ends.append(loss(*moved).item())
                slope = (ends[0] - ends[1]) / 2e-6
                assert got[row, -1, 0].item() == pytest.approx(slope, rel=1e-5, abs=1e-7)
