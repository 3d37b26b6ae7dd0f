"""Gradients of determinants where matrices are singular, or their determinants out of range.

The gradient is the matrix of cofactors, which mpmath computes minor by minor; derivatives of it are
those of a polynomial, differences of which mpmath takes in fifty digits.
"""

from __future__ import annotations

from typing import Any

import facula as fa
import mpmath as mp
import numpy as np
import pytest

DTYPES = {"float64": (1.0, 1e-200, 1e-90, 1e100), "float32": (1.0, 1e-20, 1e-12, 1e10)}


def cofactors(A: np.ndarray) -> np.ndarray:
    n = len(A)
    found = np.ones((n, n), complex if np.iscomplexobj(A) else float)
    with mp.workdps(40):
        M = mp.matrix(A.tolist())
        for i in range(n):
            for j in range(n):
                rows, columns = [r for r in range(n) if r != i], [c for c in range(n) if c != j]
                if n > 1:
                    minor = mp.matrix([[M[r, c] for c in columns] for r in rows])
                    found[i, j] = (-1) ** (i + j) * mp.det(minor)
    return found


def of_rank(n: int, rank: int, dtype: str, size: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    whole = rng.integers(-4, 5, (n, rank)) @ rng.integers(-4, 5, (rank, n))
    return whole.astype(dtype) * np.dtype(dtype).type(size)


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_gradient(n: int, dtype: str, graph: bool) -> None:
    info = np.finfo(dtype)
    for rank in range(n + 1):
        for size in DTYPES[dtype]:
            A = of_rank(n, rank, dtype, size)
            x = fa.tensor(A, requires_grad=True)
            (got,) = fa.autograd.grad(fa.linalg.det(x), x, create_graph=graph)
            with np.errstate(over="ignore"):
                want = cofactors(A)
                terms = max(np.abs(want).max(), (np.abs(A).max() * 2.0) ** (n - 1))
            if terms > float(info.max):
                continue
            room = 100 * float(info.eps) * terms + 4 * float(info.smallest_subnormal)
            off = np.abs(got.detach().numpy() - want).max()
            assert off <= room, (rank, size, got.tolist(), want.tolist())


def along(A: np.ndarray, *directions: np.ndarray) -> Any:
    """The derivative of det along each of the directions, by central differences."""
    with mp.workdps(80):
        step, total = mp.mpf(10) ** -20, mp.mpf(0)
        for signs in np.ndindex(*(2,) * len(directions)):
            M = mp.matrix(A.tolist())
            for s, d in zip(signs, directions, strict=True):
                M += (step if s else -step) * mp.matrix(d.tolist())
            total += (-1) ** (len(signs) - sum(signs)) * mp.det(M)
        return total / (2 * step) ** len(directions)


@pytest.mark.parametrize(("dtype", "room"), [("float64", 1e-11), ("float32", 5e-3)])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_second_and_third_derivative(n: int, dtype: str, room: float) -> None:
    rng = np.random.default_rng(n)
    for rank in range(n + 1):
        A = of_rank(n, rank, dtype, 1.0, n)
        E, F, G = (rng.integers(-3, 4, (n, n)).astype(dtype) for _ in range(3))
        x = fa.tensor(A, requires_grad=True)
        value, got = fa.linalg.det(x), []
        for d in (E, F, G):
            (grad,) = fa.autograd.grad(value, x, create_graph=True)
            value = (grad * fa.tensor(d)).sum()
            got.append(value.item())
            if not value.requires_grad:
                value = (x * 0).sum()
        terms = np.abs(A).max() + 4
        for order, g in enumerate(got, 1):
            want = along(A, *(E, F, G)[:order])
            size = max(abs(want), terms ** max(n - order, 0) * 3**order)
            assert abs(g - want) <= room * size, (rank, order, g, want)


def test_batch_of_all_ranks() -> None:
    A = np.stack([of_rank(3, r, "float64", 1.0) for r in range(4)])
    want = np.stack([cofactors(a) for a in A])
    x = fa.tensor(A, requires_grad=True)
    for graph in (False, True):
        (got,) = fa.autograd.grad(fa.linalg.det(x).sum(), x, create_graph=graph)
        np.testing.assert_allclose(got.detach().numpy(), want, atol=1e-12 * np.abs(want).max())
    mapped = fa.func.vmap(fa.func.grad(fa.linalg.det))(fa.tensor(A))
    np.testing.assert_allclose(mapped.numpy(), want, atol=1e-12 * np.abs(want).max())


def test_nan_stays_where_it_is() -> None:
    A = np.stack([np.ones((2, 2)), np.array([[np.nan, 1.0], [1.0, 2.0]])])
    for graph in (False, True):
        x = fa.tensor(A, requires_grad=True)
        (got,) = fa.autograd.grad(fa.linalg.det(x).sum(), x, create_graph=graph)
        np.testing.assert_allclose(got[0].tolist(), [[1, -1], [-1, 1]], rtol=1e-14)
        assert got[1].isnan().any()


def test_complex() -> None:
    Z = np.array([[1 + 1j, 2, 3j], [2 + 2j, 4, 6j], [1, 1j, 0]])
    x = fa.tensor(Z, requires_grad=True)
    for graph in (False, True):
        (got,) = fa.autograd.grad(fa.linalg.det(x).real, x, create_graph=graph)
        np.testing.assert_allclose(got.detach().numpy(), cofactors(Z).conj(), atol=1e-13)
    assert fa.autograd.gradgradcheck(fa.linalg.det, x)


@pytest.mark.parametrize(("dtype", "size"), [("float64", 1e-200), ("float32", 1e-30)])
def test_logarithms_at_any_scale(dtype: str, size: float) -> None:
    A = of_rank(4, 4, dtype, 1.0, 3)
    inverse = np.linalg.inv(A.astype(np.float64)).T
    x = fa.tensor(A * np.dtype(dtype).type(size), requires_grad=True)
    _, value = fa.linalg.slogdet(x)
    (got,) = fa.autograd.grad(value, x)
    np.testing.assert_allclose(
        got.numpy() * np.float64(size), inverse, rtol=1e-3 if size > 1e-100 else 1e-10
    )
    assert value.item() == pytest.approx(np.linalg.slogdet(A)[1] + 4 * np.log(size), rel=1e-5)


def of_scales(M: np.ndarray, rows: float, columns: float) -> tuple[np.ndarray, np.ndarray]:
    """M with rows and columns of other sizes, and the factors of its cofactors by that."""
    n = len(M)
    p, q = np.round(np.linspace(-0.5, 0.5, n) * np.log2([[rows], [columns]]))
    p, q = p[:, None], q[::-1]
    return np.ldexp(M, (p + q).astype(int)), 2.0 ** (p.sum() - p + q.sum() - q)


SCALES = {"float64": (1e5, 1e20, 1e150), "float32": (1e2, 1e4, 1e12)}


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("dtype", SCALES)
@pytest.mark.parametrize("n", [2, 3, 5])
def test_rows_and_columns_of_other_scales(n: int, dtype: str, beside: bool, graph: bool) -> None:
    """Alone, and beside a matrix of zeros: small cofactors have digits beside large ones."""
    info, tried = np.finfo(dtype), 0
    for rank in {n, n - 1, max(n - 2, 1)}:
        for seed in (2 * n, 2 * n + 1):
            M = of_rank(n, rank, "float64", 1.0, seed)
            for whole in (M, np.diag(np.diag(M)), np.triu(M)):
                if not (whole.any(0).all() and whole.any(1).all()):
                    continue  # of what size its zeros are nobody knows
                terms, exact = np.abs(whole).max() ** (n - 1), cofactors(whole)
                for scale in SCALES[dtype]:
                    for sides in ((scale, 1.0), (1.0, scale), (scale, scale), (scale, 1 / scale)):
                        A, factors = of_scales(whole, *sides)
                        A = A.astype(dtype)
                        x = fa.tensor(np.stack([A, 0 * A]) if beside else A[None])
                        x.requires_grad_()
                        (got,) = fa.autograd.grad(fa.linalg.det(x).sum(), x, create_graph=graph)
                        fits = terms * factors < float(info.max) / 1e3
                        want = exact * np.where(fits, factors, 0)
                        off = np.abs(got[0].detach().double().numpy() - want)
                        room = float(info.eps) * terms * factors + float(info.smallest_subnormal)
                        assert (~fits | (off <= 100 * room)).all(), (sides, rank, A, got)
                        tried += 1
    assert tried > 20


def test_a_diagonal_of_three_scales() -> None:
    for graph in (False, True):
        x = fa.diag(fa.tensor([1e8, 1.0, 1e-8], dtype=fa.float64)).requires_grad_()
        (got,) = fa.autograd.grad(fa.linalg.det(x), x, create_graph=graph)
        np.testing.assert_allclose(got.diagonal().tolist(), [1e-8, 1, 1e8], rtol=1e-15)


@pytest.mark.parametrize("scale", [1e4, 1e30])
def test_derivatives_of_other_scales(scale: float) -> None:
    """Along directions that are scaled alike, so that all terms count."""
    rng = np.random.default_rng(1)
    for n in (2, 3, 4):
        for rank in (n, n - 1, n - 2):
            p = 2.0 ** np.round(np.linspace(-0.5, 0.5, n) * np.log2(scale))
            sides = p[:, None] * p[::-1]
            A = of_rank(n, rank, "float64", 1.0, n) * sides
            E, G = (rng.integers(-3, 4, (n, n)) * sides for _ in range(2))
            x = fa.tensor(A, requires_grad=True)
            value, got = fa.linalg.det(x), []
            for d in (E, G):
                (grad,) = fa.autograd.grad(value, x, create_graph=True)
                value = (grad * fa.tensor(d)).sum()
                got.append(value.item())
            whole = np.prod(p) ** 2 * (np.abs(A / sides).max() + 4) ** n
            with mp.workdps(200):
                for order, g in enumerate(got, 1):
                    M, steps = mp.matrix(A.tolist()), [E, G][:order]
                    want, h = mp.mpf(0), mp.mpf(10) ** -60
                    for signs in np.ndindex(*(2,) * order):
                        N = M.copy()
                        for s, d in zip(signs, steps, strict=True):
                            N += (h if s else -h) * mp.matrix(d.tolist())
                        want += (-1) ** (order - sum(signs)) * mp.det(N)
                    assert abs(g - want / (2 * h) ** order) <= 1e-11 * whole, (n, rank, order)
