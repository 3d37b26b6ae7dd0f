"""Indices of sparse tensors: their order, equal ones among them, and compressed forms.

All in operators that every device has; on the CPU places of equal indices are found by counting.
"""

from __future__ import annotations

import math
from typing import Any

import facula
from facula import _C
from facula.sparse._tensor import BSC, BSR, COALESCED, COO, CSC, CSR, Parts, same_places

# Counting costs a pass over all numbers that there might be: up to so many, or so many an entry.
_FEW, _AN_ENTRY = 1 << 16, 8


def key_of(indices: Any, sizes: tuple[int, ...]) -> Any:
    """The number that each column of `indices` has in row-major order of `sizes`: (nnz,)."""
    if len(sizes) == 0:
        return facula.zeros(indices.shape[1], dtype=facula.int64, device=indices.device)
    key = indices[0]
    for row, n in zip(indices[1:], sizes[1:], strict=True):
        key = key * n + row
    return key


def indices_of(key: Any, sizes: tuple[int, ...]) -> Any:
    """The columns that have those numbers."""
    rows = []
    for n in reversed(sizes):
        rows.append(key % n if n > 0 else key)
        key = key // n if n > 0 else key
    if not rows:
        return facula.zeros(0, len(key), dtype=facula.int64, device=key.device)
    return facula.stack(rows[::-1])


def sorting(indices: Any, sizes: tuple[int, ...], key: Any) -> Any:
    """A stable order in which the keys do not fall."""
    n = indices.shape[1]
    if len(sizes) == 0 or max(sizes) > max(_FEW, _AN_ENTRY * n):
        return facula.sort(key, stable=True)[1]
    order = None
    for row, size in zip(reversed(list(indices)), reversed(sizes), strict=True):
        if order is None:
            order = _C._ops._group_indices(row, size)[1]
        elif size > 1:
            order = order[_C._ops._group_indices(row[order], size)[1]]
    return order


def groups(index: Any, size: int) -> tuple[Any, Any]:
    """(starts, order): the places of g are order[starts[g]:starts[g + 1]]."""
    if size <= max(_FEW, _AN_ENTRY * len(index)):
        return _C._ops._group_indices(index, size)  # type: ignore[no-any-return]
    values, order = facula.sort(index, stable=True)
    return facula.searchsorted(values, facula.arange(size + 1, device=index.device)), order


def compressed(sorted_rows: Any, size: int) -> Any:
    """Where the entries of each row begin, and the end: (size + 1,)."""
    counts = facula.bincount(sorted_rows, minlength=size)
    return facula.cat([counts.new_zeros(1), counts.cumsum(0)])


def expanded(starts: Any, count: int) -> Any:
    """The row of each entry: (nnz,); of a batch, those of one matrix after the other."""
    lengths = starts[..., 1:] - starts[..., :-1]
    rows = facula.arange(lengths.shape[-1], dtype=starts.dtype, device=starts.device)
    return facula.repeat_interleave(rows.expand(lengths.shape).reshape(-1), lengths.reshape(-1))


def coalesced(own: Parts) -> Parts:
    """COO with each place once, in row-major order; values in one place are added up."""
    if own.kind == COALESCED:
        return own
    indices, values = own.indices[0], own.values
    sizes = own.size[: own.sparse_dims]
    n = indices.shape[1]
    key = key_of(indices, sizes)
    if n > 1 and not bool((key[1:] > key[:-1]).all()):
        order = sorting(indices, sizes, key)
        key, indices, values = key[order], indices[:, order], values.index_select(0, order)
        fresh = key[1:] != key[:-1]
        if not bool(fresh.all()):
            fresh = facula.cat([fresh.new_ones(1), fresh])
            group = fresh.cumsum(0) - 1
            first = facula.nonzero(fresh).reshape(-1)
            indices = indices.index_select(1, first)
            sums = values.new_zeros((len(first), *values.shape[1:]))
            values = sums.index_add(0, group, values)
    return Parts(own.size, COALESCED, values, (indices.contiguous(),))


def as_coo(own: Parts) -> Parts:
    """The same as COO; of blocks, with an entry for each element."""
    if own.kind <= COALESCED:
        return own
    starts, plain = own.indices
    batch, values = own.batch, own.values
    long = expanded(starts, plain.numel()).to(facula.int64), plain.reshape(-1).to(facula.int64)
    rows, columns = long if own.kind in (CSR, BSR) else long[::-1]
    if batch:
        matrices = facula.arange(count_of(batch), device=rows.device)
        first = indices_of(matrices.repeat_interleave(plain.shape[-1]), batch)
        values = values.flatten(0, len(batch))
    if own.kind in (BSR, BSC):
        high, wide = values.shape[1:3]
        down = facula.arange(high, device=rows.device).reshape(1, -1, 1)
        across = facula.arange(wide, device=rows.device).reshape(1, 1, -1)
        if batch:
            first = first.repeat_interleave(high * wide, dim=1)
        rows = (rows.reshape(-1, 1, 1) * high + down).expand(-1, high, wide).reshape(-1)
        columns = (columns.reshape(-1, 1, 1) * wide + across).expand(-1, high, wide).reshape(-1)
        values = values.reshape(-1, *values.shape[3:])
    where = facula.stack([rows, columns])
    return Parts(own.size, COO, values, (facula.cat([first, where]) if batch else where,))


def by_rows(own: Parts, transposed: bool = False) -> tuple[Any, Any, Any]:
    """(crow, col, values) of a matrix, or its transpose; values in one place may stay apart."""
    rows_first = own.kind in (CSR, BSR)
    _check_single(own)
    if own.kind in (CSR, CSC) and rows_first != transposed:
        return (*own.indices, own.values)
    coo = as_coo(own)
    rows, columns = coo.indices[0]
    if transposed:
        rows, columns = columns, rows
    size = own.size[1 if transposed else 0]
    if coo.kind == COALESCED and not transposed:
        return compressed(rows, size), columns, coo.values
    starts, order = groups(rows, size)
    return starts, columns[order], coo.values.index_select(0, order)


def _check_single(own: Parts) -> None:
    if own.batch:
        raise NotImplementedError(
            f"a batch of sparse matrices, {own.size}, has no products and no other compressed "
            "layout; take its matrices one by one, x[i], or x.to_dense()"
        )


def as_kind(own: Parts, kind: int, block: tuple[int, int] | None = None) -> Parts:
    """The same in another layout."""
    if kind == own.kind and block is None:
        return own
    if kind > COALESCED:
        _check_single(own)
    if kind <= COALESCED:
        coo = as_coo(own)
        # Columns of compressed rows need not be in order.
        return coalesced(coo) if kind == COALESCED or own.kind > COALESCED else coo
    if (len(own.size) - own.values.dim() + 1 != 2 and own.kind <= COALESCED) or len(own.size) < 2:
        raise RuntimeError(
            f"to_sparse(): compressed layouts are of matrices, the tensor is {own.size} with "
            f"{own.sparse_dims} sparse dims"
        )
    if kind in (BSR, BSC):
        return _in_blocks(own, kind, block)
    coo = coalesced(as_coo(own))
    if kind == CSR:
        crow, col, values = by_rows(coo)
        return Parts(own.size, CSR, values, (crow, col))
    ccol, row, values = by_rows(coo, transposed=True)
    return Parts(own.size, CSC, values, (ccol, row))


def checked_block(sizes: tuple[int, ...], block: tuple[int, int] | None) -> tuple[int, int]:
    """The size of a block, which divides a matrix."""
    if block is None:
        raise ValueError("to_sparse(): the layouts of blocks need blocksize=(rows, columns)")
    high, wide = block
    if high < 1 or wide < 1 or sizes[0] % high or sizes[1] % wide:
        raise ValueError(
            f"to_sparse(): blocksize {block} must divide the sizes of the matrix, {sizes}"
        )
    return high, wide


def _in_blocks(own: Parts, kind: int, block: tuple[int, int] | None) -> Parts:
    high, wide = checked_block(own.size[:2], block)
    coo = coalesced(as_coo(own))
    rows, columns = coo.indices[0]
    outer = facula.stack([rows // high, columns // wide])
    sizes = own.size[0] // high, own.size[1] // wide
    if kind == BSC:
        outer, sizes = outer.flip(0), sizes[::-1]
    key, place = facula.unique(key_of(outer, sizes), return_inverse=True)
    inside = place * (high * wide) + rows % high * wide + columns % wide
    flat = coo.values.new_zeros((len(key) * high * wide, *coo.values.shape[1:]))
    values = flat.index_add(0, inside, coo.values)
    values = values.reshape(len(key), high, wide, *coo.values.shape[1:])
    outer = indices_of(key, sizes)
    return Parts(own.size, kind, values, (compressed(outer[0], sizes[0]), outer[1]))


def found_in(keys: Any, wanted: Any) -> tuple[Any, Any]:
    """Of rising keys: (place, is it there) of each of those wanted."""
    if len(keys) == 0:
        return facula.zeros_like(wanted), facula.zeros_like(wanted, dtype=facula.bool)
    at = facula.searchsorted(keys, wanted).clamp_max(len(keys) - 1)
    return at, keys[at] == wanted


def count_of(sizes: tuple[int, ...]) -> int:
    return math.prod(sizes)


__all__ = [
    "as_coo",
    "as_kind",
    "by_rows",
    "checked_block",
    "coalesced",
    "compressed",
    "count_of",
    "expanded",
    "found_in",
    "groups",
    "indices_of",
    "key_of",
    "same_places",
    "sorting",
]
