"""Functions that take tensors one by one or in a list, and those whose result depends on a flag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from facula import _C
from facula.overrides import overridable

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_shapes",
    "broadcast_tensors",
    "cartesian_prod",
    "meshgrid",
    "nonzero",
]


def _listed(tensors: Sequence[Any]) -> list[Any]:
    """f(a, b) and f([a, b]) alike."""
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        return list(tensors[0])
    return list(tensors)


def _atleast(tensors: Sequence[Any], one: Any, many: Any) -> Any:
    if len(tensors) == 1 and not isinstance(tensors[0], list | tuple):
        return one(tensors[0])
    return many(_listed(tensors))


@overridable
def atleast_1d(*tensors: Any) -> Any:
    """A tensor, or each of several, with at least one dim.

    >>> fa.atleast_1d(fa.tensor(1))
    tensor([1])
    """
    return _atleast(tensors, _C._ops.atleast_1d, _C._ops.atleast_1d_list)


@overridable
def atleast_2d(*tensors: Any) -> Any:
    """A tensor, or each of several, with at least two dims; new ones come first.

    >>> fa.atleast_2d(fa.tensor([1, 2]))
    tensor([[1, 2]])
    """
    return _atleast(tensors, _C._ops.atleast_2d, _C._ops.atleast_2d_list)


@overridable
def atleast_3d(*tensors: Any) -> Any:
    """A tensor, or each of several, with at least three dims, placed as NumPy does.

    >>> fa.atleast_3d(fa.tensor([1, 2])).shape
    facula.Size([1, 2, 1])
    """
    return _atleast(tensors, _C._ops.atleast_3d, _C._ops.atleast_3d_list)


@overridable
def block_diag(*tensors: Any) -> Any:
    """A matrix with the given matrices on its diagonal; vectors are rows, 0-d tensors 1 by 1.

    >>> fa.block_diag(fa.tensor([[1, 2]]), fa.tensor(3))
    tensor([[1, 2, 0],
            [0, 0, 3]])
    """
    return _C._ops.block_diag(_listed(tensors))


def broadcast_shapes(*shapes: Any) -> Any:
    """The shape that tensors of the given shapes (or sizes of vectors) broadcast to.

    >>> fa.broadcast_shapes((2, 1), (3,), 1)
    facula.Size([2, 3])
    """
    result: list[int] = []
    for shape in shapes:
        sizes = [shape] if isinstance(shape, int) else list(shape)
        if any(n < 0 for n in sizes):
            raise RuntimeError(f"broadcast_shapes(): sizes must not be negative: {tuple(sizes)}")
        result = [1] * (len(sizes) - len(result)) + result
        sizes = [1] * (len(result) - len(sizes)) + sizes
        if any(a != b and 1 not in (a, b) for a, b in zip(result, sizes, strict=True)):
            given = ", ".join(str(s) for s in shapes)
            raise RuntimeError(f"broadcast_shapes(): shapes {given} do not broadcast")
        result = [b if a == 1 else a for a, b in zip(result, sizes, strict=True)]
    return _C.Size(result)


@overridable
def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """All tensors expanded to their common shape.

    >>> fa.broadcast_tensors(fa.ones(2, 1), fa.ones(3))[0].shape
    facula.Size([2, 3])
    """
    result: tuple[Any, ...] = _C._ops.broadcast_tensors(_listed(tensors))
    return result


@overridable
def cartesian_prod(*tensors: Any) -> Any:
    """All combinations of entries of vectors, a row each; the last one varies fastest.

    >>> fa.cartesian_prod(fa.tensor([1, 2]), fa.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    return _C._ops.cartesian_prod(_listed(tensors))


@overridable
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Any, ...]:
    """Grids of coordinates: result k is the k-th vector spread over a grid with a dim for each.

    `indexing` is "ij", or "xy" for the first two dims swapped.

    >>> fa.meshgrid(fa.arange(2), fa.arange(3))[1]
    tensor([[0, 1, 2],
            [0, 1, 2]])
    """
    result: tuple[Any, ...] = _C._ops.meshgrid(_listed(tensors), indexing=indexing)
    return result


@overridable
def nonzero(input: Any, *, as_tuple: bool = False, out: Any = None) -> Any:
    """The places of the elements that are not zero, in order.

    A row of indices an element, or with `as_tuple` a vector of indices a dim, good for indexing.

    >>> fa.nonzero(fa.tensor([[0, 1], [2, 0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    if as_tuple:
        if out is not None:
            raise TypeError("nonzero(): out and as_tuple do not go together")
        return _C._ops.nonzero_tuple(input)
    return _C._ops.nonzero(input) if out is None else _C._ops.nonzero(input, out=out)
