"""Products of sparse matrices, with strided ones and with each other."""

from __future__ import annotations

from typing import Any

import facula
from facula import _C
from facula.sparse import _places
from facula.sparse._rules import refusal, rule, write
from facula.sparse._tensor import (
    COALESCED,
    CSC,
    CSR,
    Parts,
    build,
    is_sparse_tensor,
    masked_values,
    parts,
)

__all__ = ["addmm", "mm", "sampled_addmm"]


def _matrix(x: Any, name: str) -> Parts:
    own = parts(x)
    if own.sparse_dims != 2 or len(own.size) != 2:
        raise ValueError(
            f"{name}(): the sparse operand is {own.size} with {own.sparse_dims} sparse dims, "
            "expected a matrix of two"
        )
    return own


def _check_inner(name: str, a: Any, b: Any) -> None:
    inner = b.shape[-2] if b.dim() > 1 else b.shape[0]
    if a.shape[-1] != inner:
        raise ValueError(
            f"{name}(): {tuple(a.shape)} and {tuple(b.shape)} cannot be multiplied: the last size "
            f"of the first is {a.shape[-1]}, it must equal {inner} of the second"
        )
    if a.dtype != b.dtype:
        raise TypeError(
            f"{name}(): expected both operands to have the same dtype, got {a.dtype} and {b.dtype}"
        )
    if a.dtype == facula.bool:
        raise NotImplementedError(
            f"{name}(): not implemented for bool; convert to an integer dtype"
        )


def _times_dense(own: Parts, dense: Any, transposed: bool = False) -> Any:
    """The matrix, or its transpose, times (n, k)."""
    crow, col, values = _places.by_rows(own, transposed)
    return _C._ops._csr_product(crow, col, values, dense)


@rule("mm", "smm", "hspmm", "spmm", "dsmm")
def mm_(self: Any, mat2: Any) -> Any:
    return _product("mm", self, mat2)


def _product(name: str, self: Any, mat2: Any) -> Any:
    if self.dim() != 2 or mat2.dim() != 2:
        raise ValueError(f"{name}(): expected two matrices, got {_shapes(self, mat2)}")
    _check_inner(name, self, mat2)
    if not is_sparse_tensor(mat2):
        return _times_dense(_matrix(self, name), mat2)
    if not is_sparse_tensor(self):
        return _times_dense(_matrix(mat2, name), self.t(), transposed=True).t()
    return _sparse_product(_matrix(self, name), _matrix(mat2, name))


def _shapes(a: Any, b: Any) -> str:
    return f"{tuple(a.shape)} and {tuple(b.shape)}"


def _sparse_product(a: Parts, b: Parts) -> Any:
    """A matrix by compressed rows, or columns if both are so, or else COO."""
    by_columns = a.kind == b.kind == CSC
    if by_columns:  # rows of the transposed matrices, of which the product is that turned round
        first, second, columns = _long_rows(b, True), _long_rows(a, True), a.size[0]
    else:
        first, second, columns = _long_rows(a), _long_rows(b), b.size[1]
    starts = _C._ops._csr_csr_starts(*first[:2], *second[:2], columns)
    count = int(starts[-1])
    values, places = _C._ops._csr_csr_product(*first, *second, columns, starts, count)
    size = a.size[0], b.size[1]
    if by_columns or a.kind == b.kind == CSR:
        return build(size, a.kind, values, (starts, places))
    rows = _places.expanded(starts, count)
    return build(size, COALESCED, values, (facula.stack([rows, places]),))


def _long_rows(own: Parts, transposed: bool = False) -> tuple[Any, Any, Any]:
    crow, col, values = _places.by_rows(own, transposed)
    return crow.to(facula.int64), col.to(facula.int64), values


@rule("mv")
def mv(self: Any, vec: Any) -> Any:
    if self.dim() != 2 or vec.dim() != 1:
        raise ValueError(f"mv(): expected a matrix and a vector, got {_shapes(self, vec)}")
    return matmul(self, vec)


@rule("matmul", "__matmul__", "__rmatmul__", "linalg_matmul")
def matmul(self: Any, other: Any) -> Any:
    if self.dim() == 1:
        return matmul(self.unsqueeze(0), other).squeeze(0)
    if other.dim() == 1:
        return matmul(self, other.unsqueeze(1)).squeeze(1)
    if self.dim() == other.dim() == 2:
        return _product("matmul", self, other)
    if self.dim() == other.dim() == 3:
        return bmm(self, other)
    if is_sparse_tensor(self) and self.dim() == 2 and not is_sparse_tensor(other):
        # One product with all columns of all matrices side by side.
        _check_inner("matmul", self, other)
        columns = other.movedim(-2, 0)
        found = _times_dense(_matrix(self, "matmul"), columns.reshape(len(columns), -1))
        return found.reshape(len(found), *columns.shape[1:]).movedim(0, -2)
    if is_sparse_tensor(other) and other.dim() == 2 and not is_sparse_tensor(self):
        rows = self.reshape(-1, self.shape[-1])
        return _product("matmul", rows, other).reshape(*self.shape[:-1], other.shape[1])
    raise refusal("matmul", f"shapes {_shapes(self, other)}")


@rule("bmm")
def bmm(self: Any, mat2: Any, deterministic: bool = False) -> Any:
    if not is_sparse_tensor(self) or is_sparse_tensor(mat2):
        raise refusal("bmm", "only with the first operand sparse, and the second strided")
    own = _places.as_coo(parts(self))
    if self.dim() != 3 or mat2.dim() != 3 or own.sparse_dims != 3 or len(self) != len(mat2):
        raise ValueError(f"bmm(): expected two batches of matrices, got {_shapes(self, mat2)}")
    _check_inner("bmm", self, mat2)
    batch, high, wide = own.size
    which, rows, columns = own.indices[0]
    # The matrices along the diagonal of one.
    where = facula.stack([which * high + rows, which * wide + columns])
    one = Parts((batch * high, batch * wide), own.kind, own.values, (where,))
    return _times_dense(one, mat2.reshape(batch * wide, -1)).reshape(batch, high, mat2.shape[2])


def _scaled(x: Any, factor: Any) -> Any:
    return x if isinstance(factor, (int, float)) and factor == 1 else x * factor


@rule("addmm", "sspaddmm")
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * (mat1 @ mat2), where mat1 or mat2 may be sparse.

    With `beta` 0 input counts only by its shape. A strided input gives a strided result.
    """
    product = _scaled(_product("addmm", mat1, mat2), alpha)
    if isinstance(beta, (int, float)) and beta == 0:
        return product
    return _scaled(input, beta) + product


@rule("addmv")
def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = _scaled(mv(mat, vec), alpha)
    if isinstance(beta, (int, float)) and beta == 0:
        return product
    return _scaled(input, beta) + product


def mm(mat1: Any, mat2: Any, reduce: str | None = None) -> Any:
    """The product of two matrices of which at least one is sparse.

    Two sparse ones give a sparse one, by compressed rows if both are so; else it is strided. With
    `reduce`, "sum", "mean", "amax" or "amin", mat1 must be of layout sparse_csr or sparse_coo and
    mat2 strided: what the entries of a row contribute is combined so; rows without entries give 0.

    >>> a = facula.sparse_coo_tensor([[0, 1], [1, 0]], [2., 3.], (2, 2))
    >>> facula.sparse.mm(a, facula.tensor([[1., 2.], [3., 4.]]))
    tensor([[6., 8.],
            [3., 6.]])
    """
    if reduce is None:
        return facula.mm(mat1, mat2)
    if reduce not in ("sum", "mean", "amax", "amin"):
        raise ValueError(f"mm(): reduce must be 'sum', 'mean', 'amax' or 'amin', not {reduce!r}")
    if not is_sparse_tensor(mat1) or is_sparse_tensor(mat2):
        raise TypeError("mm(): with reduce the first matrix must be sparse, and the second strided")
    if reduce == "sum":
        return facula.mm(mat1, mat2)
    _check_inner("mm", mat1, mat2)
    own = _matrix(mat1, "mm")
    crow, col, values = _places.by_rows(own if own.kind > COALESCED else _places.coalesced(own))
    if reduce == "mean":
        found = _C._ops._csr_product(crow, col, values, mat2)
        return found / (crow[1:] - crow[:-1]).clamp_min(1).unsqueeze(1)
    rows = _places.expanded(crow, len(col)).to(facula.int64)
    terms = values.unsqueeze(1) * mat2.index_select(0, col)
    start = terms.new_zeros((own.size[0], mat2.shape[1]))
    return start.index_reduce(0, rows, terms, reduce, include_self=False)


def sampled_addmm(
    input: Any, mat1: Any, mat2: Any, *, beta: Any = 1.0, alpha: Any = 1.0, out: Any = None
) -> Any:
    """beta * input + alpha * (mat1 @ mat2) in the places that `input`, a sparse matrix, keeps.

    >>> places = facula.eye(2).to_sparse_csr()
    >>> facula.sparse.sampled_addmm(places, facula.ones(2, 3), facula.ones(3, 2)).to_dense()
    tensor([[4., 0.],
            [0., 4.]])
    """
    if not is_sparse_tensor(input) or is_sparse_tensor(mat1) or is_sparse_tensor(mat2):
        raise TypeError("sampled_addmm(): input must be sparse, mat1 and mat2 strided")
    _check_inner("sampled_addmm", mat1, mat2)
    own = _matrix(input, "sampled_addmm")
    if own.size != (mat1.shape[0], mat2.shape[1]):
        raise ValueError(
            f"sampled_addmm(): input is {own.size}, the product {(mat1.shape[0], mat2.shape[1])}"
        )
    if own.kind != CSR:
        own = _places.coalesced(_places.as_coo(own))
    crow, col, values = _places.by_rows(own)
    found = _scaled(_C._ops._csr_sampled(crow, col, mat1, mat2.t()), alpha)
    if not (isinstance(beta, (int, float)) and beta == 0):
        found = found + _scaled(values, beta)
    result = build(own.size, own.kind, found, own.indices)
    if out is None:
        return result
    return write(out, result)


@rule("linear")
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    product = matmul(input, weight.t())
    return product if bias is None else product + bias


@rule("dot", "inner")
def dot(self: Any, other: Any) -> Any:
    if self.dim() != 1 or other.dim() != 1 or self.shape != other.shape:
        raise ValueError(f"dot(): expected two vectors of a size, got {_shapes(self, other)}")
    if not is_sparse_tensor(self):
        self, other = other, self
    own = _places.coalesced(parts(self))
    return (own.values * masked_values(other, own)).sum()
