"""Sparse tensors: those that keep the elements which are not zero, and where these are.

>>> x = facula.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3., 4., 5.], (2, 3))
>>> x @ facula.ones(3)
tensor([3., 9.])

The layouts are sparse_coo (places, in any number of dims), sparse_csr and sparse_csc (compressed
rows or columns of a matrix), sparse_bsr and sparse_bsc (the same of blocks). Tensors of them are
tensors: they go through functions, modules and autograd, and gradients are as sparse as they are.
"""

from __future__ import annotations

from typing import Any

import facula
from facula.sparse import _moves, _pointwise, _saving, _text  # noqa: F401 (they enter rules)
from facula.sparse._make import check_sparse_tensor_invariants, sparse_coo_tensor
from facula.sparse._products import addmm, mm, sampled_addmm
from facula.sparse._reductions import log_softmax, softmax, sum
from facula.sparse._tensor import SparseTensor, build, parts

__all__ = [
    "SparseTensor",
    "addmm",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "sum",
]


def _like(x: Any, values: Any) -> Any:
    """Other values in the places of a sparse tensor."""
    own = parts(x, False)
    return build(own.size, own.kind, values, own.indices)


def spmm(mat1: Any, mat2: Any) -> Any:
    """An older name of `facula.sparse.mm`."""
    return mm(mat1, mat2)


dsmm = spmm


def saddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """An older name of `facula.sparse.addmm`."""
    return facula.addmm(input, mat1, mat2, beta=beta, alpha=alpha)


def spdiags(diagonals: Any, offsets: Any, shape: Any, layout: Any = None) -> Any:
    """A matrix with the rows of `diagonals` along diagonals: element j of a row is in column j.

    Args:
        diagonals: (n, m), or (m,) for one.
        offsets: int64 (n,), of the diagonals: 0 the main one, 1 above it, -1 below; all different.
        shape: of the matrix.
        layout: sparse_coo (the default), sparse_csr or sparse_csc.

    >>> facula.sparse.spdiags(facula.tensor([[1., 2.]]), facula.tensor([0]), (2, 2)).to_dense()
    tensor([[1., 0.],
            [0., 2.]])
    """
    lines = diagonals.unsqueeze(0) if diagonals.dim() == 1 else diagonals
    places = offsets.reshape(-1)
    if lines.dim() != 2 or len(lines) != len(places) or len(tuple(shape)) != 2:
        raise ValueError(
            f"spdiags(): diagonals are {tuple(diagonals.shape)}, offsets {tuple(offsets.shape)} "
            f"and the shape {tuple(shape)}; expected a row for each offset, and two sizes"
        )
    if len(facula.unique(places)) != len(places):
        raise ValueError(f"spdiags(): an offset comes twice in {places.tolist()}")
    high, wide = (int(n) for n in shape)
    columns = facula.arange(lines.shape[1], device=lines.device).expand(lines.shape)
    rows = columns - places.to(lines.device).unsqueeze(1)
    inside = (rows >= 0) & (rows < high) & (columns < wide)
    where = facula.stack([rows[inside], columns[inside]])
    found = sparse_coo_tensor(where, lines[inside], (high, wide), check_invariants=False)
    return found if layout is None else found.to_sparse(layout=layout)
