"""Sums over dims, norms, and softmax over the elements that a sparse tensor keeps."""

from __future__ import annotations

from typing import Any

import facula
from facula.sparse import _places
from facula.sparse._convert import made
from facula.sparse._rules import refusal, rule
from facula.sparse._tensor import (
    COALESCED,
    COO,
    CSR,
    LAYOUTS,
    Parts,
    block_of,
    build,
    is_sparse_tensor,
    parts,
)

__all__ = ["log_softmax", "softmax", "sum"]


def _dims(name: str, dim: Any, ndim: int) -> list[int]:
    dims = [dim] if isinstance(dim, int) else list(dim)
    for d in dims:
        if not -ndim <= d < ndim:
            raise IndexError(f"{name}(): dim {d} is out of range for a tensor of {ndim} dims")
    wrapped = sorted(d % ndim for d in dims)
    if len(set(wrapped)) != len(wrapped):
        raise ValueError(f"{name}(): a dim comes twice in {dims}")
    return wrapped


@rule("sum")
def sum_(self: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    own = parts(self)
    if dim is None or (not isinstance(dim, int) and len(tuple(dim)) == 0):
        return own.values.sum(dtype=dtype)
    dims = _dims("sum", dim, self.dim())
    layout_kind = own.kind
    own = _places.as_coo(own)
    if dtype is None and not (own.values.dtype.is_floating_point or own.values.dtype.is_complex):
        dtype = facula.int64
    n = own.sparse_dims
    values = own.values if dtype is None else own.values.to(dtype)
    inner = [d - n + 1 for d in dims if d >= n]
    if inner:
        values = values.sum(inner, keepdim=keepdim)
    outer = [d for d in dims if d < n]
    size = tuple(1 if d in dims else s for d, s in enumerate(own.size) if keepdim or d not in dims)
    if not outer:
        return made(Parts(size, own.kind, values, own.indices))
    if len(outer) == n and not keepdim:
        return values.sum(0)
    rows = [row for d, row in enumerate(own.indices[0]) if d not in outer]
    if keepdim:
        rows = [r.new_zeros(r.shape) if d in outer else r for d, r in enumerate(own.indices[0])]
    found = _places.coalesced(Parts(size, COO, values, (facula.stack(rows),)))
    if keepdim and layout_kind in (CSR, CSR + 1) and n == 2:
        found = _places.as_kind(found, layout_kind)
    return made(found)


def sum(input: Any, dim: Any = None, dtype: Any = None) -> Any:
    """The sum of a sparse tensor's elements, of all or along `dim`.

    It is strided where no sparse dim is left, else of layout sparse_coo.

    >>> x = facula.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3., 4., 5.], (2, 3))
    >>> facula.sparse.sum(x, 0).to_dense()
    tensor([4., 0., 8.])
    """
    if not is_sparse_tensor(input):
        raise TypeError("sum(): the input is strided; use facula.sum")
    return facula.sum(input, dtype=dtype) if dim is None else facula.sum(input, dim, dtype=dtype)


@rule("mean")
def mean(self: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if dtype is None and not (self.dtype.is_floating_point or self.dtype.is_complex):
        raise TypeError(f"mean(): a tensor of {self.dtype} has no mean of its dtype; give dtype=")
    dims = range(self.dim()) if dim is None else _dims("mean", dim, self.dim())
    count = _places.count_of(tuple(self.shape[d] for d in dims))
    total = sum_(self, None if dim is None else list(dims), keepdim, dtype=dtype)
    return total / count


@rule("any")
def any_(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if dim is not None:
        raise refusal("any", "along a dim")
    own = parts(self, False)
    return (_places.coalesced(own) if own.kind == COO else own).values.any()


@rule("count_nonzero")
def count_nonzero(self: Any, dim: Any = None) -> Any:
    if dim is not None:
        raise refusal("count_nonzero", "along a dim")
    own = parts(self, False)
    return (_places.coalesced(own) if own.kind == COO else own).values.count_nonzero()


@rule("norm", "linalg_norm", "vector_norm", "linalg_vector_norm", "frobenius_norm")
def norm(
    self: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None, **named: Any
) -> Any:
    p = named.pop("ord", p)
    p = 2 if p in (None, "fro") else p
    if named or dim is not None or keepdim or isinstance(p, str) or not p > 0:
        raise refusal("norm", "only of all elements, with a number above zero as the order")
    own = parts(self)
    own = _places.coalesced(own) if own.kind == COO else own
    return facula.linalg.vector_norm(own.values, p, dtype=dtype)


# ---- softmax


def _groups(own: Parts, dim: int) -> tuple[Any, int]:
    """The number of the line along a sparse dim that each value is on, and how many there are."""
    n = own.sparse_dims
    rest = [d for d in range(n) if d != dim]
    if not rest:
        return own.indices[0].new_zeros(own.indices[0].shape[1]), 1
    sizes = tuple(own.size[d] for d in rest)
    key = _places.key_of(own.indices[0][rest], sizes)
    if _places.count_of(sizes) <= 8 * len(key):
        return key, _places.count_of(sizes)
    found, place = facula.unique(key, return_inverse=True)
    return place, len(found)


def _normalized(input: Any, dim: int, dtype: Any, name: str) -> Any:
    if not is_sparse_tensor(input):
        raise TypeError(f"{name}(): the input is strided; use facula.{name}")
    (dim,) = _dims(name, dim, input.dim())
    own = parts(input)
    kind = own.kind
    if block_of(own):
        raise refusal(name, f"layout {LAYOUTS[kind]}")
    own = _places.coalesced(_places.as_coo(own))
    values = own.values if dtype is None else own.values.to(dtype)
    if not values.dtype.is_floating_point:
        raise TypeError(f"{name}(): expected floats, not {values.dtype}; give dtype=")
    if dim >= own.sparse_dims:
        values = getattr(facula, name)(values, dim - own.sparse_dims + 1)
    else:
        line, count = _groups(own, dim)
        shape = (count, *values.shape[1:])
        with facula.no_grad():
            low = facula.full(shape, -facula.inf, dtype=values.dtype, device=values.device)
            top = low.index_reduce(0, line, values.detach(), "amax")
            top = facula.where(top.isfinite(), top, 0)
        shifted = values - top.index_select(0, line)
        powers = shifted.exp()
        total = powers.new_zeros(shape).index_add(0, line, powers).index_select(0, line)
        values = powers / total if name == "softmax" else shifted - total.log()
    found = build(own.size, COALESCED, values, own.indices)
    return found if kind <= COALESCED else found.to_sparse(layout=LAYOUTS[kind])


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """softmax along `dim` over the elements that are kept; others count as minus infinity.

    >>> x = facula.sparse_coo_tensor([[0, 0], [0, 2]], [1., 1.], (2, 3))
    >>> facula.sparse.softmax(x, 1).to_dense()
    tensor([[0.5000, 0.0000, 0.5000],
            [0.0000, 0.0000, 0.0000]])
    """
    return _normalized(input, dim, dtype, "softmax")


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """log_softmax along `dim` over the elements that are kept; others count as minus infinity."""
    return _normalized(input, dim, dtype, "log_softmax")


rule("softmax", "_sparse_softmax")(
    lambda self, dim, dtype=None, **_: softmax(self, dim, dtype=dtype)
)
rule("log_softmax", "_sparse_log_softmax")(
    lambda self, dim, dtype=None, **_: log_softmax(self, dim, dtype=dtype)
)
