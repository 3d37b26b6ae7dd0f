"""Conversions between layouts, and the components as users ask for them."""

from __future__ import annotations

from typing import Any

import facula
from facula import _C
from facula.sparse import _places
from facula.sparse._make import kind_of
from facula.sparse._rules import write
from facula.sparse._tensor import (
    BSC,
    BSR,
    COALESCED,
    COO,
    CSC,
    CSR,
    LAYOUTS,
    Parts,
    build,
    hook,
    is_sparse_tensor,
    masked_values,
    parts,
)

__all__ = ["made", "values_at"]


def made(own: Parts) -> Any:
    """The tensor of these components."""
    return build(own.size, own.kind, own.values, own.indices)


def _wrong_layout(name: str, x: Any, expected: str) -> RuntimeError:
    layout = x.layout if isinstance(x, facula.Tensor) else type(x).__name__
    return RuntimeError(f"{name}(): the tensor has layout {layout}, expected {expected}")


# ---- to the strided layout


def to_dense(self: Any, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
    """The tensor with all its elements, zeros too (layout strided).

    The gradient of a sparse tensor is what the strided one's has in its places. That is what
    `masked_grad=True` asks for, or nothing; False is not implemented.
    """
    if masked_grad is False:
        raise NotImplementedError("to_dense(): masked_grad=False is not implemented")
    if not is_sparse_tensor(self):
        return self if dtype is None else self.to(dtype)
    return _dense(parts(self), dtype)


def _dense(own: Parts, dtype: Any = None) -> Any:
    values = own.values if dtype is None else own.values.to(dtype)
    if own.kind > COALESCED:
        own = _places.as_coo(own._replace(values=values))
        values = own.values
    n = own.sparse_dims
    whole = values.new_zeros((_places.count_of(own.size[:n]), *own.size[n:]))
    key = _places.key_of(own.indices[0], own.size[:n])
    return whole.index_add(0, key, values).reshape(own.size)


# ---- to a sparse layout


def to_sparse(
    self: Any,
    sparse_dim: int | None = None,
    *,
    layout: Any = None,
    blocksize: Any = None,
    dense_dim: int | None = None,
) -> Any:
    """The tensor in a sparse layout: sparse_coo with `sparse_dim` dims, or the given one.

    Raises:
        ValueError: a number of dims or a blocksize that the tensor does not have.
        RuntimeError: a compressed layout of what is no matrix.

    >>> facula.tensor([[0., 2.], [0., 0.]]).to_sparse().indices()
    tensor([[0],
            [1]])
    """
    if sparse_dim is not None and not isinstance(sparse_dim, int):
        sparse_dim, layout = None, sparse_dim
    if layout is not None and sparse_dim is not None:
        raise ValueError("to_sparse(): give sparse_dim or layout, not both")
    if layout is _C.strided:
        return to_dense(self)
    kind = COALESCED if layout is None else kind_of(layout)
    block = None if blocksize is None else tuple(int(b) for b in blocksize)
    if block is not None and kind not in (BSR, BSC):
        raise ValueError(f"to_sparse(): blocksize goes with layouts of blocks, not {LAYOUTS[kind]}")
    if kind > COALESCED and dense_dim:
        raise NotImplementedError("to_sparse(): dense_dim of compressed layouts is not implemented")
    if is_sparse_tensor(self):
        return _between(self, kind, block, sparse_dim)
    if kind > COALESCED:
        if self.dim() < 2:
            raise RuntimeError(
                "to_sparse(): compressed layouts are of matrices, the tensor is "
                f"{tuple(self.shape)}"
            )
        if self.dim() > 2:
            return made(_batch(self, kind, block))
        return made(_places.as_kind(_taken(self, 2), kind, block))
    n = self.dim() - (dense_dim or 0) if sparse_dim is None else sparse_dim
    if not 0 < n <= self.dim() and not (n == 0 == self.dim()):
        raise ValueError(f"to_sparse(): sparse_dim must be from 1 to {self.dim()}, not {n}")
    return made(_taken(self, n))


def _batch(x: Any, kind: int, block: tuple[int, int] | None) -> Parts:
    """Compressed layouts of the matrices in the last dims, which must keep as many values each."""
    size, batch = tuple(x.shape), tuple(x.shape[:-2])
    blocks = x
    if kind in (BSR, BSC):
        high, wide = _places.checked_block(size[-2:], block)
        blocks = x.unflatten(-2, (-1, high)).unflatten(-1, (-1, wide)).transpose(-3, -2)
    n = len(batch)
    if kind in (CSC, BSC):
        blocks = blocks.transpose(n, n + 1)
    kept = blocks.detach() != 0
    if kind in (BSR, BSC):
        kept = kept.any(-1).any(-1)
    counts = kept.sum(-1)
    each = counts.sum(-1).reshape(-1)
    count = int(each[0]) if len(each) else 0
    if not bool((each == count).all()):
        raise RuntimeError(
            "to_sparse(): the matrices of a batch must keep as many values each in a compressed "
            f"layout, and these keep from {int(each.min())} to {int(each.max())}"
        )
    starts = facula.cat([counts.new_zeros((*batch, 1)), counts.cumsum(-1)], -1)
    where = facula.nonzero(kept).t()
    values = blocks[tuple(where)].reshape(*batch, count, *blocks.shape[n + 2 :])
    if kind == BSC:
        values = values.contiguous()
    return Parts(size, kind, values, (starts, where[-1].reshape(*batch, count)))


def _between(x: Any, kind: int, block: Any, sparse_dim: int | None) -> Any:
    own = parts(x)
    if sparse_dim is not None and sparse_dim != own.sparse_dims:
        raise ValueError(
            f"to_sparse(): the tensor is sparse in {own.sparse_dims} dims; for {sparse_dim} make "
            "it dense before"
        )
    if LAYOUTS[kind] is LAYOUTS[own.kind] and block is None:
        return x
    return made(_places.as_kind(own, kind, block))


def _taken(x: Any, sparse_dims: int) -> Parts:
    """COO of a strided tensor: where its first dims hold something other than zero."""
    kept = x.detach() != 0
    if sparse_dims < x.dim():
        kept = kept.any(tuple(range(sparse_dims, x.dim())))
    if x.dim() == 0:
        count = int(kept)
        where = facula.zeros(0, count, dtype=facula.int64, device=x.device)
        return Parts((), COALESCED, x.reshape(1)[:count], (where,))
    where = facula.nonzero(kept).t().contiguous()
    return Parts(tuple(x.shape), COALESCED, x[tuple(where)], (where,))


def to_sparse_coo(self: Any) -> Any:
    """`to_sparse` with layout sparse_coo."""
    return to_sparse(self)


def to_sparse_csr(self: Any, dense_dim: int | None = None) -> Any:
    """`to_sparse` with layout sparse_csr, of a matrix."""
    return to_sparse(self, layout=_C.sparse_csr, dense_dim=dense_dim)


def to_sparse_csc(self: Any, dense_dim: int | None = None) -> Any:
    """`to_sparse` with layout sparse_csc, of a matrix."""
    return to_sparse(self, layout=_C.sparse_csc, dense_dim=dense_dim)


def to_sparse_bsr(self: Any, blocksize: Any, dense_dim: int | None = None) -> Any:
    """`to_sparse` with layout sparse_bsr: blocks of that size that are not zero."""
    return to_sparse(self, layout=_C.sparse_bsr, blocksize=blocksize, dense_dim=dense_dim)


def to_sparse_bsc(self: Any, blocksize: Any, dense_dim: int | None = None) -> Any:
    """`to_sparse` with layout sparse_bsc: blocks of that size that are not zero."""
    return to_sparse(self, layout=_C.sparse_bsc, blocksize=blocksize, dense_dim=dense_dim)


# ---- values in given places


@hook
def values_at(
    x: Any, size: tuple[int, ...], kind: int, indices: tuple[Any, ...], block: tuple[int, ...]
) -> Any:
    """The values of `x`, strided or sparse, in the places that a tensor of that kind keeps.

    `block` is the size of a block, () in layouts without.
    """
    if tuple(x.shape) != size:
        raise ValueError(f"sparse_mask(): the tensor is {tuple(x.shape)} and the mask {size}")
    count = indices[-1].shape[-1]
    of = Parts(size, kind, None, indices)
    shape = (*of.batch, count, *block)
    nothing = facula.zeros(shape, device=indices[0].device)
    where = _places.as_coo(of._replace(values=nothing)).indices[0]
    n = len(where)
    if is_sparse_tensor(x) and parts(x, False).sparse_dims != n:
        x = to_dense(x)
    if is_sparse_tensor(x):
        found = _found(_places.coalesced(_places.as_coo(parts(x))), where)
    elif n == 0:
        found = x.unsqueeze(0).expand(count, *size)
    else:
        found = x[tuple(where)]
    return found.reshape(*shape, *size[n:])


def _found(own: Parts, where: Any) -> Any:
    """Values of coalesced components in these places."""
    values, n = own.values, len(where)
    if len(values) == 0:
        return values.new_zeros((where.shape[1], *values.shape[1:]))
    keys = _places.key_of(own.indices[0], own.size[:n])
    at, there = _places.found_in(keys, _places.key_of(where, own.size[:n]))
    return facula.where(there.reshape(-1, *[1] * (values.dim() - 1)), values.index_select(0, at), 0)


def sparse_mask(self: Any, mask: Any) -> Any:
    """The elements of a tensor in the places that `mask`, a sparse tensor of its shape, keeps.

    Raises:
        TypeError: a mask that is strided.
        ValueError: of another shape.
    """
    if not is_sparse_tensor(mask):
        raise TypeError("sparse_mask(): mask must be a sparse tensor, this one is strided")
    of = parts(mask, record=False)
    values = masked_values(self, of)
    return build(of.size, of.kind, values, of.indices)


# ---- components


def _coordinates(self: Any, name: str, coalesced: bool = True) -> Parts:
    if not is_sparse_tensor(self) or self.layout is not _C.sparse_coo:
        raise _wrong_layout(name, self, f"{spoken(_C.sparse_coo)}")
    own = parts(self)
    if coalesced and own.kind != COALESCED:
        raise RuntimeError(
            f"{name}(): the tensor may have several values in one place; use x.coalesce() before, "
            f"or _{name}()"
        )
    return own


def spoken(*layouts: Any) -> str:
    return " or ".join(map(str, layouts))


def _of_kind(self: Any, name: str, *kinds: int) -> Parts:
    if is_sparse_tensor(self):
        own = parts(self)
        if own.kind in kinds:
            return own
    raise _wrong_layout(name, self, spoken(*(LAYOUTS[k] for k in kinds)))


def indices(self: Any) -> Any:
    """Of a coalesced tensor of layout sparse_coo: where its values are, (sparse dims, nnz)."""
    return _coordinates(self, "indices").indices[0]


def _indices(self: Any) -> Any:
    """`indices`, also of a tensor that is not coalesced."""
    return _coordinates(self, "_indices", False).indices[0]


def values(self: Any) -> Any:
    """The values of a sparse tensor, (nnz, *dense dims); of sparse_coo, of a coalesced one."""
    if is_sparse_tensor(self) and self.layout is not _C.sparse_coo:
        return parts(self).values
    return _coordinates(self, "values").values


def _values(self: Any) -> Any:
    """The values without a history, also of a tensor that is not coalesced."""
    if not is_sparse_tensor(self):
        raise _wrong_layout("_values", self, "a sparse one")
    return parts(self, False).values.detach()


def crow_indices(self: Any) -> Any:
    """Of layouts by rows: where the entries of each row begin, and the end."""
    return _of_kind(self, "crow_indices", CSR, BSR).indices[0]


def col_indices(self: Any) -> Any:
    """Of layouts by rows: the column of each entry."""
    return _of_kind(self, "col_indices", CSR, BSR).indices[1]


def ccol_indices(self: Any) -> Any:
    """Of layouts by columns: where the entries of each column begin, and the end."""
    return _of_kind(self, "ccol_indices", CSC, BSC).indices[0]


def row_indices(self: Any) -> Any:
    """Of layouts by columns: the row of each entry."""
    return _of_kind(self, "row_indices", CSC, BSC).indices[1]


def coalesce(self: Any) -> Any:
    """A tensor of layout sparse_coo that has each place once, in row-major order."""
    own = _coordinates(self, "coalesce", False)
    return self if own.kind == COALESCED else made(_places.coalesced(own))


def is_coalesced(self: Any) -> bool:
    """Is it known that each place comes once, in row-major order?"""
    return _coordinates(self, "is_coalesced", False).kind == COALESCED


def _coalesced_(self: Any, coalesced: bool) -> Any:
    """Says so, without a look."""
    own = _coordinates(self, "_coalesced_", False)
    kind = COALESCED if coalesced else COO
    return _C._become_compound(
        self, _C._make_compound(own.size, kind, (own.values.detach(), *own.indices))
    )


def _nnz(self: Any) -> int:
    """How many values are kept (blocks count as one)."""
    if not is_sparse_tensor(self):
        raise _wrong_layout("_nnz", self, "a sparse one")
    return parts(self, False).nnz


def sparse_dim(self: Any) -> int:
    """How many dims are sparse, before the dense ones. 0 of a strided tensor."""
    own = parts(self, False) if is_sparse_tensor(self) else None
    return 0 if own is None else own.sparse_dims - len(own.batch)


def dense_dim(self: Any) -> int:
    """How many dims are dense: the last ones. All of a strided tensor."""
    return int(self.dim()) - (parts(self, False).sparse_dims if is_sparse_tensor(self) else 0)


_dimI, _dimV = sparse_dim, dense_dim


def sparse_resize_(self: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    """Gives a tensor of layout sparse_coo other sizes, in place; sparse ones may only grow.

    Without values anything goes.
    """
    own = _coordinates(self, "sparse_resize_", False)
    size = tuple(int(n) for n in size)
    if len(size) != sparse_dim + dense_dim:
        raise ValueError(f"sparse_resize_(): {size} are not {sparse_dim} and {dense_dim} sizes")
    now = own.sparse_dims
    if len(own.values) == 0:
        where = facula.zeros(sparse_dim, 0, dtype=facula.int64, device=self.device)
        none = own.values.new_zeros((0, *size[sparse_dim:]))
        return _C._become_compound(self, _C._make_compound(size, COALESCED, (none, where)))
    if (
        sparse_dim != now
        or size[now:] != own.size[now:]
        or any(a < b for a, b in zip(size, own.size, strict=True))
    ):
        raise RuntimeError(
            f"sparse_resize_(): {own.size} with {now} sparse dims can only get larger sparse "
            f"sizes, not {size} with {sparse_dim}"
        )
    made_anew = _C._make_compound(size, own.kind, (own.values.detach(), *own.indices))
    return _C._become_compound(self, made_anew)


def sparse_resize_and_clear_(self: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    """`sparse_resize_` that drops all values."""
    zero_(self)
    return sparse_resize_(self, size, sparse_dim, dense_dim)


def zero_(self: Any) -> Any:
    """Drops all values, in place."""
    own = parts(self, False)
    none = own.values.detach().narrow(len(own.batch), 0, 0).clone()
    if own.kind <= COALESCED:
        empty = Parts(own.size, COALESCED, none, (own.indices[0][:, :0].contiguous(),))
    else:
        empty = own._replace(
            values=none,
            indices=(facula.zeros_like(own.indices[0]), own.indices[1][..., :0].clone()),
        )
    return write(self, made(empty))
