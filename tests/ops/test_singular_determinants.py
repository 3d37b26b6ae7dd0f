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
