"""Definitions of linear algebra by NumPy and SciPy: `ref.NAME` in ops.yaml."""

from __future__ import annotations

import mpmath as mp
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


def reflection(v: Array, tau: complex) -> Array:
    """1 - tau v v^H."""
    return np.eye(len(v)) - tau * np.outer(v, v.conj())


def all_reflections(a: Array, tau: Array) -> Array:
    """The m by m product of the reflections in a (..., m, n), for each matrix of the batch."""
    m = a.shape[-2]
    out = np.zeros((*a.shape[:-2], m, m), a.dtype)
    for i in np.ndindex(a.shape[:-2]):
        out[i] = np.eye(m)
        for k in range(tau.shape[-1]):
            v = np.concatenate([np.zeros(k), [1], a[i][k + 1 :, k]])
            out[i] = out[i] @ reflection(v, tau[i][k])
    return out


def householder_product(a: Array, tau: Array) -> Array:
    return all_reflections(a, tau)[..., : a.shape[-1]]


def ormqr(a: Array, tau: Array, other: Array, left: bool, transpose: bool) -> Array:
    q = all_reflections(a, tau)
    if transpose:
        q = q.conj().swapaxes(-1, -2)
    return q @ other if left else other @ q


def limits(a: Array, atol: Array | float | None, rtol: Array | float | None) -> tuple[Array, Array]:
    """Singular values, and the one for each matrix up to which they count as zero."""
    s = np.linalg.svd(a, compute_uv=False)
    if rtol is None:
        rtol = 0 if atol is not None and atol > 0 else np.finfo(a.dtype).eps * max(a.shape[-2:])
    top = s.max(-1, initial=0, keepdims=True)
    return s, np.maximum(0 if atol is None else atol, rtol * top)


def pinv(a: Array, atol: Array | float | None, rtol: Array | float | None) -> Array:
    if not a.size:
        return np.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]))
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    most = limits(a, atol, rtol)[1]
    inverse = np.where(s > most, 1 / np.where(s > most, s, 1), 0)
    return (vh.conj().swapaxes(-1, -2) * inverse[..., None, :]) @ u.conj().swapaxes(-1, -2)


def rank(a: Array, atol: Array | float | None, rtol: Array | float | None) -> Array:
    s, most = limits(a, atol, rtol)
    return np.asarray((s > most).sum(-1))


def cond(a: Array, p: float | str | None) -> Array:
    return np.asarray(np.linalg.cond(a, p))


def expm(a: Array) -> Array:
    """By series in 40 digits, for each matrix."""
    out = np.array(a)
    with mp.workdps(40):
        for i in np.ndindex(a.shape[:-2]):
            if a.shape[-1]:
                found = mp.expm(mp.matrix(a[i].tolist())).tolist()
                out[i] = np.array(found).astype(a.dtype)
    return out
