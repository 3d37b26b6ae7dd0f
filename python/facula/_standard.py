"""Functions of the Array API standard (2024.12) that torch has no name for.

What both have under one name with different meanings is in `facula.array_api`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import facula
from facula.overrides import overridable

__all__ = [
    "astype",
    "bitwise_invert",
    "broadcast_arrays",
    "cumulative_prod",
    "cumulative_sum",
    "expand_dims",
    "isdtype",
    "matrix_transpose",
    "permute_dims",
    "repeat",
    "summed_dtype",
    "take_along_axis",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unstack",
    "vecdot",
]


class UniqueAll(NamedTuple):
    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    values: Any
    inverse_indices: Any


@overridable
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """`x` in another dtype; with `copy=False` itself where it has that dtype already.

    >>> fa.astype(fa.tensor([1, 2]), fa.float32)
    tensor([1., 2.])
    """
    return x.to(dtype=dtype, device=x.device if device is None else device, copy=copy)


@overridable
def bitwise_invert(x: Any, /) -> Any:
    """`bitwise_not` by its name in the Array API.

    >>> fa.bitwise_invert(fa.tensor([0, 1]))
    tensor([-1, -2])
    """
    return facula.bitwise_not(x)


@overridable
def broadcast_arrays(*arrays: Any) -> list[Any]:
    """All tensors expanded to their common shape, in a list.

    >>> [t.shape for t in fa.broadcast_arrays(fa.ones(2, 1), fa.ones(3))]
    [facula.Size([2, 3]), facula.Size([2, 3])]
    """
    return list(facula.broadcast_tensors(*arrays)) if arrays else []


@overridable
def expand_dims(x: Any, /, axis: int) -> Any:
    """A view with a new dim of size 1 at `axis`; see `unsqueeze`.

    >>> fa.expand_dims(fa.ones(3), 0).shape
    facula.Size([1, 3])
    """
    return facula.unsqueeze(x, axis)


@overridable
def permute_dims(x: Any, /, axes: Any) -> Any:
    """A view with the dims in the order `axes`; see `permute`.

    >>> fa.permute_dims(fa.ones(2, 3), (1, 0)).shape
    facula.Size([3, 2])
    """
    return facula.permute(x, axes)


@overridable
def matrix_transpose(x: Any, /) -> Any:
    """Matrices (..., m, n) as (..., n, m), a view; see `Tensor.mT`.

    >>> fa.matrix_transpose(fa.ones(4, 2, 3)).shape
    facula.Size([4, 3, 2])
    """
    return x.mT


@overridable
def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    """Every entry along `axis`, or of the flattened tensor, `repeats` times in a row.

    `repeats` is a number or a tensor with one for each entry; see `repeat_interleave`.

    >>> fa.repeat(fa.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])
    """
    if isinstance(repeats, facula.Tensor):
        repeats = repeats.to(facula.int64)
    return facula.repeat_interleave(x, repeats, axis)


@overridable
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The entries along `axis`, as views without it; see `unbind`.

    >>> fa.unstack(fa.tensor([1, 2]))
    (tensor(1), tensor(2))
    """
    return tuple(facula.unbind(x, axis))


@overridable
def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    """Elements of `x` by indices along `axis`; see `take_along_dim`.

    >>> fa.take_along_axis(fa.tensor([[3, 1]]), fa.tensor([[1, 0]]))
    tensor([[1, 3]])
    """
    return facula.take_along_dim(x, indices, axis)


def summed_dtype(x: Any) -> Any:
    """What sums and products of elements are made in: no integer narrower than 64 bits."""
    kind = x.dtype
    if kind.is_floating_point or kind.is_complex:
        return kind
    return facula.int64 if kind is facula.bool or kind.is_signed else facula.uint64


def _accumulated(
    name: str, start: int, x: Any, axis: int | None, dtype: Any, include_initial: bool
) -> Any:
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"{name}(): a tensor of {x.ndim} dims needs an axis")
        axis = 0
    function = facula.cumprod if start else facula.cumsum
    found = function(x, axis, dtype=summed_dtype(x) if dtype is None else dtype)
    if include_initial:
        shape = list(x.shape)
        shape[axis] = 1
        found = facula.cat(
            [facula.full(shape, start, dtype=found.dtype, device=x.device), found], axis
        )
    return found


@overridable
def cumulative_sum(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
) -> Any:
    """Sums of the elements up to each along `axis`; with `include_initial` also of none, first.

    >>> fa.cumulative_sum(fa.tensor([1, 2, 3]), include_initial=True)
    tensor([0, 1, 3, 6])
    """
    return _accumulated("cumulative_sum", 0, x, axis, dtype, include_initial)


@overridable
def cumulative_prod(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    include_initial: bool = False,
) -> Any:
    """Products of the elements up to each along `axis`; with `include_initial` also of none, first.

    >>> fa.cumulative_prod(fa.tensor([1, 2, 3]), include_initial=True)
    tensor([1, 1, 2, 6])
    """
    return _accumulated("cumulative_prod", 1, x, axis, dtype, include_initial)


@overridable
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Sums of conj(x1) * x2 along `axis`, in the dtype that both promote to.

    >>> fa.vecdot(fa.tensor([[1, 2], [3, 4]]), fa.tensor([1, 1]))
    tensor([3, 7])
    """
    ndim = min(x1.ndim, x2.ndim)
    if not -ndim <= axis < 0 and (axis < 0 or axis >= ndim or x1.ndim != x2.ndim):
        raise IndexError(f"vecdot(): axis {axis} is out of range for {x1.ndim} and {x2.ndim} dims")
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(
            f"vecdot(): dim {axis} has size {x1.shape[axis]} of x1 and {x2.shape[axis]} of x2"
        )
    kind = facula.promote_types(x1.dtype, x2.dtype)
    if kind.is_floating_point or kind.is_complex:
        return facula.linalg.vecdot(x1.to(kind), x2.to(kind), dim=axis)
    return facula.sum(x1.to(kind) * x2.to(kind), axis, dtype=kind)


_KINDS = {
    "bool": lambda d: d is facula.bool,
    "signed integer": lambda d: _whole(d) and d.is_signed,
    "unsigned integer": lambda d: _whole(d) and not d.is_signed,
    "integral": lambda d: _whole(d),
    "real floating": lambda d: d.is_floating_point,
    "complex floating": lambda d: d.is_complex,
    "numeric": lambda d: d is not facula.bool,
}


def _whole(dtype: Any) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex or dtype is facula.bool)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Is a dtype of a kind?

    Args:
        kind: a dtype; "bool", "signed integer", "unsigned integer", "integral", "real floating",
            "complex floating" or "numeric"; or a tuple of these.

    >>> fa.isdtype(fa.uint8, ("signed integer", "real floating"))
    False
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            allowed = ", ".join(repr(k) for k in _KINDS)
            raise ValueError(f"isdtype(): kind must be one of {allowed}, not {kind!r}")
        return bool(_KINDS[kind](dtype))
    if not isinstance(kind, facula.dtype):
        raise TypeError(f"isdtype(): kind must be a dtype, a str or a tuple, not {kind!r}")
    return bool(dtype == kind)


# ---- sets: values in ascending order, NaNs apart from each other ----


@overridable
def unique_all(x: Any, /) -> UniqueAll:
    """Distinct elements, where each first occurs, which of them each element is, how often each is.

    `indices` count in the flattened tensor, `inverse_indices` has the shape of `x`.

    >>> fa.unique_all(fa.tensor([3, 1, 3])).indices
    tensor([1, 0])
    """
    values, inverse, counts = facula.unique(x, return_inverse=True, return_counts=True)
    at = facula.arange(x.numel(), device=x.device)
    first = facula.full((len(values),), x.numel(), dtype=facula.int64, device=x.device)
    first = first.scatter_reduce(0, inverse.reshape(-1), at, "amin")
    return UniqueAll(values, first, inverse, counts)


@overridable
def unique_counts(x: Any, /) -> UniqueCounts:
    """Distinct elements, and how often each occurs.

    >>> fa.unique_counts(fa.tensor([3, 1, 3])).counts
    tensor([1, 2])
    """
    return UniqueCounts(*facula.unique(x, return_counts=True))


@overridable
def unique_inverse(x: Any, /) -> UniqueInverse:
    """Distinct elements, and which of them each element is, in the shape of `x`.

    >>> fa.unique_inverse(fa.tensor([3, 1, 3])).inverse_indices
    tensor([1, 0, 1])
    """
    return UniqueInverse(*facula.unique(x, return_inverse=True))


@overridable
def unique_values(x: Any, /) -> Any:
    """Distinct elements.

    >>> fa.unique_values(fa.tensor([3, 1, 3]))
    tensor([1, 3])
    """
    return facula.unique(x)
