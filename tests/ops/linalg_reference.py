"""Definitions of linear algebra by NumPy and SciPy: `ref.NAME` in ops.yaml."""

from __future__ import annotations

import numpy as np
import scipy.linalg

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


def lu_factor(a: Array, pivot: bool = True) -> tuple[Array, Array, Array]:
    """Row after row exchanged for the one with the largest element, by the definition."""
    lu = np.array(a)
    m, n = a.shape[-2:]
    pivots = np.zeros((*a.shape[:-2], min(m, n)), np.int32)
    for i in np.ndindex(a.shape[:-2]):
        for k in range(min(m, n)):
            sizes = np.abs(lu[i][k:, k].real) + np.abs(lu[i][k:, k].imag)
            other = k + int(np.argmax(sizes)) if pivot else k
            pivots[(*i, k)] = other + 1
            lu[i][[k, other]] = lu[i][[other, k]]
            lu[i][k + 1 :, k] /= lu[i][k, k]
            lu[i][k + 1 :, k + 1 :] -= np.outer(lu[i][k + 1 :, k], lu[i][k, k + 1 :])
    return lu, pivots, np.zeros(a.shape[:-2], np.int32)


def lu(a: Array) -> tuple[Array, Array, Array]:
    return tuple(scipy.linalg.lu(a))


def from_factors(factors: Array, pivots: Array) -> Array:
    """A = P L U of one matrix."""
    a = np.matmul(triangle(factors, False, True), triangle(factors, True))
    for k in reversed(range(len(pivots))):
        a[[k, pivots[k] - 1]] = a[[pivots[k] - 1, k]]
    return a


def lu_solve(factors: Array, pivots: Array, b: Array, left: bool, adjoint: bool) -> Array:
    a = from_factors(factors, pivots)
    if adjoint:
        a = a.conj().T
    if left:
        return np.linalg.solve(a, b)
    return np.linalg.solve(a.T, b.swapaxes(-1, -2)).swapaxes(-1, -2)


def solve(a: Array, b: Array, left: bool) -> tuple[Array, ...]:
    if left:
        x = np.linalg.solve(a, b)
    else:
        x = np.linalg.solve(a.swapaxes(-1, -2), b.swapaxes(-1, -2)).swapaxes(-1, -2)
    return (x, *lu_factor(a))


def solve_ex(a: Array, b: Array, left: bool) -> tuple[Array, Array]:
    vector = b.ndim == 1 or b.shape == a.shape[:-1]
    right = b[..., None] if vector else b
    x = solve(a, right, left or vector)[0]
    return x[..., 0] if vector else x, np.zeros(a.shape[:-2], np.int32)


def det(a: Array) -> tuple[Array, ...]:
    return (np.linalg.det(a), *lu_factor(a)[:2])


def slogdet(a: Array) -> tuple[Array, ...]:
    return (*np.linalg.slogdet(a), *lu_factor(a)[:2])


def logdet(a: Array) -> Array:
    sign, size = np.linalg.slogdet(a)
    return np.where(sign == -1, np.nan, size)
