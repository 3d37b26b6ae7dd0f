"""Definitions of linear algebra by NumPy and SciPy: `ref.NAME` in ops.yaml."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def distances(x1: Array, x2: Array, p: float) -> Array:
    """Norms of all differences between rows."""
    size = np.abs(x1[..., :, None, :] - x2[..., None, :, :])
    if p == 0:
        return np.asarray((size != 0).sum(-1))
    if np.isinf(p):
        return np.asarray(size.max(-1, initial=0))
    return np.asarray((size**p).sum(-1) ** (1 / p))


def triangle(a: Array, upper: bool, unit: bool = False) -> Array:
    part = np.triu(a) if upper else np.tril(a)
    return part * (1 - np.eye(a.shape[-1])) + np.eye(a.shape[-1]) if unit else part


def solve_triangular(
    a: Array, b: Array, upper: bool, left: bool, unit: bool, transpose: bool = False
) -> Array:
    a = triangle(a, upper, unit)
    if transpose:
        a = a.swapaxes(-1, -2)
    if left:
        return np.linalg.solve(a, b)
    return np.linalg.solve(a.swapaxes(-1, -2), b.swapaxes(-1, -2)).swapaxes(-1, -2)


def cholesky_solve(b: Array, factor: Array, upper: bool) -> Array:
    part = triangle(factor, upper)
    across = part.conj().swapaxes(-1, -2)
    return np.linalg.solve(across @ part if upper else part @ across, b)
