"""Matrices with orthonormal columns, from triangular ones: reflections, exponential, Cayley's map.

Sources: Householder 1958; Lezcano-Casado & Martinez-Rubio 2019 (exponential and trivializations);
Higham 2005 (scaling and squaring).
"""

from __future__ import annotations

import math
from typing import Any

import facula
from facula.autograd._levels import drawn_into

__all__ = ["MAPS", "OrthogonalMap", "geqrf", "householder_product", "matrix_exp"]

MAPS = ("matrix_exp", "cayley", "householder")
# Terms of the series for arguments of norm at most 1/2: the next is below 2**-60.
_TERMS = 14


def householder_product(a: Any, tau: Any) -> Any:
    """The first n columns of H_1 H_2 ... H_n for `a` (*, m, n), tau (*, n).

    H_i is 1 - tau_i v v^H; v has zeros before its place i, there 1, then what a has below it.
    """
    m, n = a.shape[-2:]
    q = facula.eye(m, n, dtype=a.dtype, device=a.device).expand(a.shape)
    below = a.tril(-1) + facula.eye(m, n, dtype=a.dtype, device=a.device)
    for i in reversed(range(n)):
        v = below[..., i : i + 1]
        q = q - tau[..., i : i + 1, None] * (v @ (v.mH @ q))
    return q


def geqrf(a: Any) -> tuple[Any, Any]:
    """QR by reflections, as LAPACK keeps it: R in the upper triangle, the reflections below it."""
    a = a.clone()
    m, n = a.shape[-2:]
    tau = a.new_zeros((*a.shape[:-2], min(m, n)))
    for i in range(min(m, n)):
        x = a[..., i:, i]
        alpha = x[..., 0]
        rest = facula.linalg.vector_norm(x[..., 1:], 2, -1)
        norm = facula.sqrt(rest**2 + alpha.abs() ** 2)
        real = alpha.real if alpha.is_complex() else alpha
        beta = facula.where(real < 0, norm, -norm)
        plain = rest == 0  # nothing below the diagonal: no reflection
        if alpha.is_complex():
            plain = plain & (alpha.imag == 0)
        beta = facula.where(plain, real, beta)
        safe = facula.where(plain, facula.ones_like(beta), beta)
        own = facula.where(plain, facula.zeros_like(alpha), (safe - alpha) / safe)
        scale = facula.where(plain, facula.ones_like(alpha), alpha - safe)
        v = x / scale.unsqueeze(-1)
        v[..., 0] = 1
        rows = a[..., i:, i + 1 :]
        v = v.unsqueeze(-1)
        # H^H on what is to the right.
        factor = own.conj()[..., None, None]
        a[..., i:, i + 1 :] = rows - factor * (v @ (v.mH @ rows))
        a[..., i + 1 :, i] = facula.where(plain.unsqueeze(-1), x[..., 1:], v[..., 1:, 0])
        a[..., i, i] = beta
        tau[..., i] = own
    return a, tau


def matrix_exp(a: Any) -> Any:
    """The exponential of square matrices (*, n, n): a series of a / 2^s, squared s times."""
    with facula.no_grad():
        norm = float(a.detach().abs().sum(-1).max()) if a.numel() else 0.0
    if not math.isfinite(norm):
        raise ValueError("matrix_exp(): the matrix has values that are not finite")
    squarings = max(0, math.ceil(math.log2(norm / 0.5))) if norm > 0.5 else 0
    a = a / 2.0**squarings
    one = facula.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    result = one + a / _TERMS
    for k in range(_TERMS - 1, 0, -1):
        result = one + (a @ result) / k
    for _ in range(squarings):
        result = result @ result
    return result


def _solve(a: Any, b: Any) -> Any:
    solve = getattr(facula.linalg, "solve", None)
    if solve is None:
        raise NotImplementedError(
            "orthogonal(): the map 'cayley' needs facula.linalg.solve, which facula does not have "
            "yet; use orthogonal_map='matrix_exp' or 'householder'"
        )
    return solve(a, b)


def _orthonormal(a: Any) -> Any:
    """Q of `a` = Q R with a positive diagonal of R."""
    packed, tau = geqrf(a)
    q = householder_product(packed, tau)
    diagonal = packed.diagonal(dim1=-2, dim2=-1).unsqueeze(-2)
    real = diagonal.real if a.is_complex() else diagonal
    return q * facula.where(real < 0, -1.0, 1.0).to(q.dtype)


def _is_orthonormal(q: Any) -> bool:
    n = q.shape[-1]
    eps = 10 * q.shape[-2] * float(facula.finfo(q.dtype).eps)
    one = facula.eye(n, dtype=q.dtype, device=q.device)
    return bool(((q.mH @ q - one).abs() < eps).all())


class OrthogonalMap:
    """One of `MAPS` between triangular matrices and orthogonal ones of a shape.

    Wide matrices have orthonormal rows. A base is kept by who calls: what the map gives is then
    base @ map(x), so that any orthogonal matrix can be reached from x = 0.
    """

    def __init__(self, shape: tuple[int, ...], name: str) -> None:
        if name not in MAPS:
            raise ValueError(f"orthogonal_map has to be one of {', '.join(MAPS)}. Got: {name}")
        self.shape, self.name = tuple(shape), name

    def forward(self, x: Any, base: Any) -> Any:
        n, k = x.shape[-2:]
        transposed = n < k
        if transposed:
            x, n, k = x.mT, k, n
        if self.name == "householder":
            a = x.tril(-1)
            tau = 2.0 / (1.0 + (a * a.conj()).sum(-2))
            q = householder_product(a, tau)
            # The diagonal holds signs, which nothing trains.
            diagonal = x.detach().diagonal(dim1=-2, dim2=-1).unsqueeze(-2)
            q = q * facula.where(diagonal < 0, -1.0, 1.0).to(q.dtype)
        else:
            x = x.tril()
            if n != k:
                x = facula.cat([x, x.new_zeros((*x.shape[:-2], n, n - k))], -1)
            a = x - x.mH
            if self.name == "matrix_exp":
                q = matrix_exp(a)
            else:
                one = facula.eye(n, dtype=a.dtype, device=a.device).expand(a.shape)
                q = _solve(one - 0.5 * a, one + 0.5 * a)
            q = q[..., :k]
        if base is not None:
            q = base @ q
        return q.mT if transposed else q

    def inverse(self, q: Any) -> Any:
        """An x that gives the orthogonal `q` without a base; householder's alone has one."""
        if self.name != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        transposed = q.shape[-2] < q.shape[-1]
        a, tau = geqrf(q.mT if transposed else q)
        diagonal = a.diagonal(dim1=-2, dim2=-1)
        # R of an orthogonal matrix has +-1 there; a reflection that is left out flips the sign.
        sign = facula.where(diagonal < 0, -facula.ones_like(diagonal), facula.ones_like(diagonal))
        diagonal.copy_(facula.where(tau == 0, -sign, sign))
        return a.mT if transposed else a

    def base_for(self, q: Any) -> tuple[Any, Any]:
        """(base, x) that give `q`, or the orthogonal matrix of its QR if it is none."""
        n, k = q.shape[-2:]
        transposed = n < k
        if transposed:
            q, n, k = q.mT, k, n
        if n == k:
            base = q.clone() if _is_orthonormal(q) else _orthonormal(q)
        else:
            more = drawn_into((*q.shape[:-2], n, n - k), q.dtype, q.device).normal_()
            base = _orthonormal(facula.cat([q, more], -1))
        # The reflections of a zero matrix are -1 each; a skew matrix has no diagonal.
        x = facula.zeros_like(q)
        x.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return base, x.mT.contiguous() if transposed else x
