"""The extension `linalg` of the Array API standard: `facula.linalg` but for some meanings."""

from __future__ import annotations

from typing import Any

import facula
from facula._standard import matrix_transpose, summed_dtype, vecdot
from facula.array_api._functions import promoted, tensordot

__all__ = ["cross", "matrix_transpose", "outer", "solve", "tensordot", "trace", "vecdot"]


def __getattr__(name: str) -> Any:
    try:
        return getattr(facula.linalg, name)
    except AttributeError:
        message = f"module 'facula.array_api.linalg' has no attribute '{name}'"
        raise AttributeError(message) from None


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(facula.linalg)})


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Cross products of vectors of 3 elements along `axis`; other dims broadcast."""
    if x1.ndim != x2.ndim:
        if axis >= 0:
            raise ValueError("cross(): of tensors with different numbers of dims, axis must be < 0")
        x1, x2 = facula.broadcast_tensors(x1, x2)
    return facula.linalg.cross(*promoted(x1, x2), dim=axis)


def outer(x1: Any, x2: Any, /) -> Any:
    """The matrix of all products of an element of `x1` and one of `x2`, two vectors."""
    return facula.outer(*promoted(x1, x2))


def solve(x1: Any, x2: Any, /) -> Any:
    """X of x1 X = x2; a vector `x2` is one right side for all matrices."""
    a, b = promoted(x1, x2)
    if b.ndim == 1:
        return facula.linalg.solve(a, b.unsqueeze(-1)).squeeze(-1)
    return facula.linalg.solve(a, b)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Sums along a diagonal of matrices (..., m, n), `offset` above the main one."""
    kind = summed_dtype(x) if dtype is None else dtype
    return facula.linalg.diagonal(x, offset=offset).sum(-1, dtype=kind)
