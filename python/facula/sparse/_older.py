"""Older names of products of sparse tensors, and copies of what sparse tensors consist of."""

from __future__ import annotations

from typing import Any

import facula
from facula.sparse._make import sparse_coo_tensor
from facula.sparse._products import mm

__all__ = ["hsmm", "hspmm", "indices_copy", "native_norm", "smm", "sspaddmm", "values_copy"]


def _coo(t: Any, caller: str) -> Any:
    if t.layout is not facula.sparse_coo:
        raise RuntimeError(f"{caller}(): expected a matrix of layout sparse_coo, got {t.layout}")
    return t.coalesce()


def hspmm(mat1: Any, mat2: Any) -> Any:
    """A sparse matrix times a dense one, as a matrix of dense rows in those places of `mat1` that
    have elements: sparse_coo with one sparse and one dense dim."""
    own = _coo(mat1, "hspmm")
    rows = facula.unique(own.indices()[0])
    dense = mm(mat1, mat2)
    size = (mat1.size(0), mat2.size(1))
    return sparse_coo_tensor(rows.unsqueeze(0), dense[rows], size)


hsmm = hspmm


def sspaddmm(self: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * self + alpha * (mat1 @ mat2), all but `mat2` of layout sparse_coo; not coalesced.

    The product has an element in each column of those rows where `mat1` has one.
    """
    kept = _coo(self, "sspaddmm")
    own = _coo(mat1, "sspaddmm")
    rows = facula.unique(own.indices()[0])
    width = mat2.size(1)
    values = mm(mat1, mat2)[rows].reshape(-1) * alpha
    where = facula.stack([rows.repeat_interleave(width), facula.arange(width).repeat(len(rows))])
    places = facula.cat([kept.indices(), where.to(kept.device)], 1)
    return sparse_coo_tensor(places, facula.cat([kept.values() * beta, values]), kept.shape)


def smm(self: Any, mat: Any) -> Any:
    """A sparse matrix times a dense one, as a sparse matrix."""
    none = facula.empty(2, 0, dtype=facula.int64, device=self.device)
    zero = sparse_coo_tensor(none, mat.new_empty(0), (self.size(0), mat.size(1)))
    return sspaddmm(zero, self, mat)


def native_norm(
    self: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    """The p-norm of all elements; of a sparse tensor of those that it has."""
    if self.is_sparse:
        if dim not in (None, []):
            raise RuntimeError(
                "native_norm(): of a sparse tensor the norm of all elements is there"
            )
        return facula.linalg.vector_norm(self.coalesce().values(), 2 if p is None else p)
    return facula.linalg.vector_norm(
        self, 2 if p is None else p, dim if dim not in ([],) else None, keepdim, dtype=dtype
    )


def indices_copy(self: Any) -> Any:
    """A copy of the places of a coalesced sparse_coo tensor."""
    return self.indices().clone()


def values_copy(self: Any) -> Any:
    """A copy of the elements of a sparse tensor."""
    return self.values().clone()
