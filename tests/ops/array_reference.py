"""Plain NumPy definitions of operators on indices, order and norms: `ref.NAME` in ops.yaml."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.stats

Array = np.ndarray
Place = tuple[Any, ...]

# ---- writes ----


def _along(x: Array, dim: int, index: Any) -> Place:
    """The place `x[..., index, ...]`, the index standing for dim `dim`."""
    return (*[slice(None)] * (dim % x.ndim), index)


def _written(x: Array, at: Any, values: Any, add: bool = False) -> Array:
    out = np.array(x)
    if add:
        np.add.at(out, at, values)
    else:
        out[at] = values
    return out


def slice_scatter(x: Array, src: Array, dim: int, start: Any, end: Any, step: int) -> Array:
    return _written(x, _along(x, dim, slice(start, end, step)), src)


def index_put(x: Array, indices: Sequence[Any], values: Array, accumulate: bool) -> Array:
    at = tuple(slice(None) if i is None else i for i in indices)
    return _written(x, at, values, accumulate)


def index_add(x: Array, dim: int, index: Array, source: Array, alpha: Any) -> Array:
    return _written(
        x, _along(x, dim, index), source if x.dtype == bool else alpha * source, add=True
    )


def index_write(x: Array, dim: int, index: Array, values: Any) -> Array:
    return _written(x, _along(x, dim, index), values)


def put(x: Array, index: Array, source: Array, accumulate: bool) -> Array:
    return _written(x.reshape(-1), index, source, accumulate).reshape(x.shape)


def masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    mask = np.broadcast_to(mask, x.shape)
    return _written(x, mask, source.ravel()[: mask.sum()])


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("add", "sum"), lambda a, b: a + b),
    **dict.fromkeys(("multiply", "prod"), lambda a, b: a * b),
    **{"write": lambda a, b: b, "amax": max, "amin": min},
}


def _targets(index: Array, dim: int) -> Iterator[tuple[Place, Place]]:
    """Each place of `index`, and the one that its number leads to."""
    for k in np.ndindex(index.shape):
        yield k, tuple(int(index[k]) if d == dim % len(k) else i for d, i in enumerate(k))


def scatter(
    x: Array, dim: int, index: Array, src: Any, reduce: str = "write", include_self: bool = True
) -> Array:
    """One element after the other; a number for `src` stands for each of its elements."""
    out, seen = np.array(x), set()
    for k, at in _targets(index, dim):
        value = src[k] if np.ndim(src) else src
        fresh = not include_self and at not in seen
        out[at] = value if fresh else _COMBINE[reduce](out[at], value)
        seen.add(at)
    return out


def index_reduce(
    x: Array, dim: int, index: Array, source: Array, reduce: str, include_self: bool
) -> Array:
    out = np.moveaxis(np.array(x), dim, 0)
    parts = np.moveaxis(source, dim, 0)
    for at in set(index.tolist()):
        rows = [parts[k] for k in np.nonzero(index == at)[0]]
        rows += [out[at].copy()] if include_self else []
        kinds = {"prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}
        out[at] = kinds[reduce](np.stack(rows), axis=0)
    return np.moveaxis(out, 0, dim)


# ---- order ----


def _ranks(x: Array, dim: int, descending: bool) -> Array:
    """Places of the elements in a stable order along a dim."""
    if not descending:
        return np.argsort(x, axis=dim, kind="stable")
    backwards = np.flip(np.argsort(np.flip(x, dim), axis=dim, kind="stable"), dim)
    return x.shape[dim] - 1 - backwards


def _taken(x: Array, at: Array, dim: int, keepdim: bool = True) -> list[Any]:
    values = np.take_along_axis(x, at, dim)
    return [values, at] if keepdim else [values.squeeze(dim), at.squeeze(dim)]


def sort(x: Array, dim: int, descending: bool) -> list[Any]:
    return _taken(x, _ranks(x, dim, descending), dim) if x.ndim else [x, 0]


def topk(x: Array, k: int, dim: int, largest: bool) -> list[Any]:
    if not x.ndim:
        return [x, 0]
    return _taken(x, np.take(_ranks(x, dim, largest), np.arange(k), axis=dim), dim)


def kthvalue(x: Array, k: int, dim: int, keepdim: bool) -> list[Any]:
    if not x.ndim:
        return [x, 0]
    return _taken(x, np.take(_ranks(x, dim, False), [k - 1], axis=dim), dim, keepdim)


def median(x: Array, dim: int, keepdim: bool) -> list[Any]:
    """The lower one of two; of finite numbers."""
    return kthvalue(x, (x.shape[dim] + 1) // 2 if x.ndim else 1, dim, keepdim)


def mode(x: Array, dim: int, keepdim: bool) -> list[Any]:
    """The least of the most frequent values, and its last place."""
    value = scipy.stats.mode(x, axis=dim, keepdims=True).mode
    last = np.argmax(np.flip(x == value, dim), axis=dim, keepdims=True)
    at = x.shape[dim] - 1 - last
    return [value, at] if keepdim else [value.squeeze(dim), at.squeeze(dim)]


def unique(x: Array, dim: int | None = None) -> list[Any]:
    values, places, counts = np.unique(x, axis=dim, return_inverse=True, return_counts=True)
    return [values, places.reshape(np.shape(x) if dim is None else -1), counts]


def running_extreme(x: Array, dim: int, largest: bool) -> list[Any]:
    """The extremes so far and their last places; a NaN stays."""
    if not np.ndim(x):
        return [x, 0]
    values = (np.maximum if largest else np.minimum).accumulate(x, axis=dim)
    number = np.arange(x.shape[dim]).reshape([-1] + [1] * (x.ndim - 1 - dim % x.ndim))
    at = np.where((x == values) | (x != x), number, 0)
    return [values, np.maximum.accumulate(at, axis=dim)]


def combinations(x: Array, r: int, with_replacement: bool) -> Array:
    kind = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    return np.array([list(c) for c in kind(x, r)])


def affine_scan(a: Array, b: Array, dim: int, reverse: bool) -> Array:
    """y[i] = a[i] y[i - 1] + b[i], from the other end on request."""
    if not np.ndim(a):
        return b
    a, b = np.moveaxis(a, dim, 0), np.moveaxis(b, dim, 0)
    out, y = np.empty_like(b), np.zeros_like(b[0])
    for i in reversed(range(len(a))) if reverse else range(len(a)):
        out[i] = y = a[i] * y + b[i]
    return np.moveaxis(out, 0, dim)


# ---- norms ----


def vector_norm(x: Array, ord: float, dim: Any, keepdim: bool, scale: float = 1) -> Array:
    sizes = np.abs(x)
    where: dict[str, Any] = {"keepdims": keepdim}
    where["axis"] = None if dim is None else tuple(np.atleast_1d(dim))
    if abs(ord) == np.inf:
        return scale * (np.max if ord > 0 else np.min)(sizes, **where)
    if ord == 0:
        return scale * np.sum(sizes != 0, **where).astype(float)
    return scale * np.sum(sizes ** float(ord), **where) ** (1 / ord)


def renorm(x: Array, p: float, dim: int, maxnorm: float) -> Array:
    others = tuple(d for d in range(x.ndim) if d != dim % x.ndim)
    norm = np.sum(np.abs(x) ** p, axis=others, keepdims=True) ** (1 / p)
    return x * np.where(norm > maxnorm, maxnorm / (norm + 1e-7), 1)


def cosine_similarity(x1: Array, x2: Array, dim: int, eps: float) -> Array:
    x1, x2 = np.broadcast_arrays(x1, x2)

    def unit(x: Array) -> Array:
        return x / np.maximum(np.sqrt((x * x).sum(dim, keepdims=True)), eps)

    return (unit(x1) * unit(x2)).sum(dim)


def group_norm(x: Array, groups: int, weight: Any, bias: Any, eps: float) -> Array:
    parts = x.reshape(x.shape[0], groups, int(np.prod(x.shape[1:])) // groups)
    centred = parts - parts.mean(2, keepdims=True)
    out = (centred / np.sqrt(parts.var(2, keepdims=True) + eps)).reshape(x.shape)
    per_channel = (1, -1, *[1] * (x.ndim - 2))
    if weight is not None:
        out = out * weight.reshape(per_channel)
    return out if bias is None else out + bias.reshape(per_channel)


def kl_div(x: Array, target: Array, reduction: str, log_target: bool) -> Any:
    log = target if log_target else np.log(target)
    loss = (np.exp(log) if log_target else target) * (log - x)
    if reduction == "batchmean":
        return np.sum(loss) / len(loss)
    return {"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction](loss)
