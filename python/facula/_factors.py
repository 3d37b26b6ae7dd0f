"""`lu`, whose results are a matter of its arguments, and factors by random projections."""

from __future__ import annotations

from typing import Any

import facula
from facula import Tensor
from facula.overrides import overridable


@overridable
def lu(
    A: Tensor, pivot: bool = True, get_infos: bool = False, out: tuple[Tensor, ...] | None = None
) -> tuple[Tensor, ...]:
    """The LU factorisation A = P L U of matrices (*, m, n); see `facula.linalg.lu_factor`.

    Args:
        A: float32, float64, complex64 or complex128.
        pivot: Exchange rows, so that none of L's elements is greater than 1.
        get_infos: Give the place of the first zero on the diagonal of U as well, or 0.
        out: Tensors for the results.

    Returns:
        (LU, pivots), or with `get_infos` (LU, pivots, infos).

    Raises:
        LinAlgError: U has a zero on its diagonal, and `get_infos` is false.
    """
    results = facula.linalg.lu_factor_ex(A, pivot=pivot, check_errors=not get_infos)
    found: tuple[Tensor, ...] = tuple(results) if get_infos else tuple(results)[:2]
    if out is None:
        return found
    if len(out) != len(found):
        raise TypeError(f"lu(): out has {len(out)} tensors, there are {len(found)} results")
    for target, value in zip(out, found, strict=True):
        target.resize_(value.shape).copy_(value)
    return out


@overridable
def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The `q` largest singular values and their vectors, approximately: A - M ~ U diag(S) V^H.

    Source: Halko, Martinsson and Tropp, "Finding structure with randomness: probabilistic
    algorithms for constructing approximate matrix decompositions" (2011), algorithms 4.4 and 5.1.
    Random numbers are of the default generator.

    Args:
        A: (*, m, n).
        q: How many; some more than the rank that is wanted.
        niter: Iterations, at least 0, each of which makes small singular values smaller still.
        M: Subtracted from A, broadcast to it.

    Returns:
        U (*, m, q), S (*, q) descending and V (*, n, q).
    """
    q = 6 if q is None else q
    niter = 2 if niter is None else niter
    if A.ndim < 2:
        raise ValueError(f"svd_lowrank(): A must be a matrix or a batch of them, it is {A.shape}")
    m, n = A.shape[-2:]
    if not 0 <= q <= min(m, n):
        raise ValueError(f"svd_lowrank(): q is {q}, it must be from 0 to min(m, n) = {min(m, n)}")
    if niter < 0:
        raise ValueError(f"svd_lowrank(): niter is {niter}, it must not be negative")
    if M is not None:
        A = A - M
    if m < n:  # the shorter side is the one that is approximated
        v, s, u = _of_tall(A.mH, q, niter)
    else:
        u, s, v = _of_tall(A, q, niter)
    return u, s, v


def _of_tall(A: Tensor, q: int, niter: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of a matrix with at least as many rows as columns."""
    basis = _basis(A.mH, q, niter)
    u, s, vh = facula.linalg.svd(A @ basis, full_matrices=False)
    return u, s, basis @ vh.mH


def _basis(A: Tensor, q: int, niter: int) -> Tensor:
    """Orthonormal columns (*, m, q) that span what A reaches most of."""
    start = facula.randn(A.shape[-1], q, dtype=A.dtype, device=A.device)
    basis = facula.linalg.qr(A @ start).Q
    for _ in range(niter):
        basis = facula.linalg.qr(A.mH @ basis).Q
        basis = facula.linalg.qr(A @ basis).Q
    return basis


@overridable
def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """Principal components, approximately: `svd_lowrank` of A without the mean of its rows.

    Args:
        A: (*, m, n), m samples of n variables.
        q: How many components; min(6, m, n) when absent.
        center: Subtract the mean of the rows.
        niter: Iterations, at least 0.

    Returns:
        U (*, m, q), S (*, q) and V (*, n, q), whose columns are the directions.
    """
    if A.ndim < 2:
        raise ValueError(f"pca_lowrank(): A must be a matrix or a batch of them, it is {A.shape}")
    q = min(6, *A.shape[-2:]) if q is None else q
    mean: Any = A.mean(-2, keepdim=True) if center else None
    return svd_lowrank(A, q, niter, mean)
