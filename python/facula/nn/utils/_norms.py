"""What weight and spectral normalisation compute, in either of their forms."""

from __future__ import annotations

from typing import Any

import facula
from facula.nn import functional as F

__all__ = ["as_matrix", "norm_except", "power_iteration", "spectral_scaled"]


def norm_except(v: Any, dim: int | None) -> Any:
    """The 2-norm of each slice of `v` along `dim`, of shape 1 but there; of all of it for None."""
    if dim is None or dim == -1:
        return facula.linalg.vector_norm(v)
    rest = [d for d in range(v.dim()) if d != dim % v.dim()]
    if not rest:
        return v.abs()
    return facula.linalg.vector_norm(v, 2, rest, keepdim=True)


def as_matrix(weight: Any, dim: int) -> Any:
    """(n, m): `dim` of the weight first, all others behind it."""
    if weight.dim() == 1:
        return weight.unsqueeze(0)
    if dim != 0:
        weight = weight.permute(dim, *(d for d in range(weight.dim()) if d != dim))
    return weight.flatten(1)


def power_iteration(matrix: Any, u: Any, v: Any, steps: int, eps: float) -> None:
    """Turn u (n,) and v (m,) towards the first singular vectors of `matrix`, in place."""
    with facula.no_grad():
        for _ in range(steps):
            u.copy_(F.normalize(facula.mv(matrix, v), dim=0, eps=eps))
            v.copy_(F.normalize(facula.mv(matrix.t().conj(), u), dim=0, eps=eps))


def spectral_scaled(weight: Any, matrix: Any, u: Any, v: Any) -> Any:
    """`weight` over its spectral norm, which u^H W v is; u and v are constants of it."""
    sigma = facula.dot(u.clone().conj(), facula.mv(matrix, v.clone()))
    return weight / sigma
