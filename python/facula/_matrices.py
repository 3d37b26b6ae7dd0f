"""Norms of matrices by their older names, Vandermonde matrices, a few eigenvectors."""

from __future__ import annotations

from typing import Any

import facula
from facula._errors import tell_all

__all__ = ["frobenius_norm", "lobpcg", "norm_except_dim", "nuclear_norm", "vander"]


def frobenius_norm(input: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """The root of the sum of squared sizes over `dim`, or over all elements.

    >>> fa.frobenius_norm(fa.tensor([[3., 4.]]))
    tensor(5.)
    """
    dims = [dim] if isinstance(dim, int) else list(dim)
    return facula.linalg.vector_norm(input, 2, dims or None, keepdim)


def nuclear_norm(input: Any, dim: Any = (-2, -1), keepdim: bool = False) -> Any:
    """The sum of the singular values of each matrix over the two dims `dim`."""
    return facula.linalg.matrix_norm(input, "nuc", tuple(dim), keepdim)


def norm_except_dim(v: Any, pow: float = 2, dim: int = 0) -> Any:
    """The norm of order `pow` over all dims but `dim`, which keeps its place; -1 is over all.

    >>> fa.norm_except_dim(fa.tensor([[3., 4.], [0., 1.]]))
    tensor([[5.],
            [1.]])
    """
    if dim == -1:
        return facula.linalg.vector_norm(v, pow)
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    return facula.linalg.vector_norm(v, pow, others, True) if others else v.abs()


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Powers of a vector as columns, the highest first unless `increasing`.

    >>> fa.vander(fa.tensor([2, 3]), 3)
    tensor([[4, 2, 1],
            [9, 3, 1]])

    Args:
        x: a vector.
        N: how many columns; by default a square matrix.
    """
    if x.dim() != 1:
        raise RuntimeError(f"vander(): x must be a vector, not of shape {tuple(x.shape)}")
    count = x.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError(f"vander(): N must be non-negative, not {count}")
    if count == 0 or x.shape[0] == 0:
        return x.new_zeros((x.shape[0], count))
    powers = facula.linalg.vander(x, N=count).to(x.dtype)
    return powers if increasing else powers.flip([1])


# ---- eigenvectors


def lobpcg(
    A: Any,
    k: int | None = None,
    B: Any = None,
    X: Any = None,
    n: int | None = None,
    iK: Any = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: Any = None,
    ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> tuple[Any, Any]:
    """The `k` largest (or smallest) eigenvalues of A x = e B x, by locally optimal block gradients.

    Of A. Knyazev, "Toward the optimal preconditioned eigensolver" (2001); each step solves the
    problem on an orthonormal basis of iterates, residuals and last directions.

    Args:
        A: (*, m, m), symmetric or Hermitian, with m at least 3 k.
        k: how many; by default the columns of X, or 1.
        B: (*, m, m), positive definite; by default the identity.
        X: (*, m, n), where to start; by default random.
        n: how many columns of X, at least k.
        iK: (*, m, m), a preconditioner, near the inverse of A.
        niter: how many steps at most; by default 1000.
        tol: what residuals must fall below, relative to A; by default the root of the dtype's eps.
        largest: the largest ones (the default) or the smallest.
        method: "ortho" or "basic", which are the same here.
        tracker: not supported.

    Returns:
        (*, k) eigenvalues, in descending order if largest, and (*, m, k) eigenvectors.
    """
    if tracker is not None:
        raise NotImplementedError("lobpcg(): tracker is not supported; leave it out")
    if method not in (None, "ortho", "basic"):
        raise ValueError(f"lobpcg(): method must be 'ortho' or 'basic', not {method!r}")
    if A.dim() < 2 or A.shape[-1] != A.shape[-2]:
        raise RuntimeError(f"lobpcg(): A must be square matrices, not {tuple(A.shape)}")
    m = A.shape[-1]
    if k is None:
        k = 1 if X is None else X.shape[-1]
    columns = (k if X is None else X.shape[-1]) if n is None else n
    if not 1 <= k <= columns or m < 3 * columns:
        raise ValueError(
            f"lobpcg(): k must be from 1 to n, and m at least 3 n; k, n, m are {k}, {columns}, {m} "
            f"facula.linalg.eigh serves small matrices"
        )
    start = A.new_empty((*A.shape[:-2], m, columns)).normal_() if X is None else X
    top = True if largest is None else largest
    limit = facula.finfo(A.dtype).eps ** 0.5 if tol is None else tol
    fixed = [None if t is None else t.detach() for t in (A, B, start[..., :columns], iK)]
    values, vectors = _iterate(*fixed, 1000 if niter is None else niter, limit, top)
    values, vectors = values[..., :k], vectors[..., :k]
    if facula.is_grad_enabled() and any(t is not None and t.requires_grad for t in (A, B)):
        return _attached(A, B, values, vectors)
    return values, vectors


def _apply(M: Any, x: Any) -> Any:
    return x if M is None else M @ x


def _orthonormal(basis: Any, B: Any) -> Any:
    """An orthonormal basis (with respect to B) of the columns, and of whatever they lack."""
    q = facula.linalg.qr(basis).Q
    if B is None:
        return q
    factor = facula.linalg.cholesky(q.mH @ (B @ q))
    return facula.linalg.solve_triangular(factor.mH, q, upper=True, left=False)


def _iterate(
    A: Any, B: Any, X: Any, iK: Any, steps: int, limit: float, top: bool
) -> tuple[Any, Any]:
    count = X.shape[-1]
    scale = facula.linalg.matrix_norm(A).max().item()

    def best(basis: Any) -> tuple[Any, Any]:
        small = basis.mH @ (A @ basis)
        values, turns = facula.linalg.eigh((small + small.mH) / 2)
        if top:
            values, turns = values.flip(-1), turns.flip(-1)
        return values[..., :count], basis @ turns[..., :count]

    values, X = best(_orthonormal(X, B))
    last = None
    for _ in range(steps):
        rest = A @ X - _apply(B, X) * values.unsqueeze(-2)
        if rest.norm(dim=-2).max().item() <= limit * max(scale, 1e-300):
            break
        parts = [X, _apply(iK, rest)] + ([] if last is None else [last])
        basis = facula.cat([p / p.norm(dim=-2, keepdim=True).clamp(min=1e-300) for p in parts], -1)
        values, found = best(_orthonormal(basis, B))
        inner = X.mH @ _apply(B, found)
        last, X = found - X @ inner, found
    return values, X


def _attached(A: Any, B: Any, values: Any, vectors: Any) -> tuple[Any, Any]:
    """The same numbers as functions of A and B: the first-order change, through the resolvent."""
    if B is not None:
        raise NotImplementedError("lobpcg(): gradients with B are not supported; use linalg.eigh")
    every, turns = facula.linalg.eigh(A)
    at = (every.detach().unsqueeze(-2) - values.unsqueeze(-1)).abs().argmin(-1)
    picked = turns.gather(-1, at.unsqueeze(-2).expand(*turns.shape[:-1], at.shape[-1]))
    phase = (picked.detach().conj() * vectors).sum(-2, keepdim=True)
    return every.gather(-1, at), picked * (phase / phase.abs().clamp(min=1e-300))


tell_all(globals(), __all__)
