"""Factorisations that are unique up to phases: by what defines them, with derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.autograd import gradcheck, gradgradcheck

DTYPES = ("float32", "float64", "complex64", "complex128")
WIDE = ("float64", "complex128")
EPS = {d: np.finfo(d).eps for d in DTYPES}


def matrix(*shape: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng([seed, *shape])
    a = rng.standard_normal(shape)
    return (a + 1j * rng.standard_normal(shape) if dtype[0] == "c" else a).astype(dtype)


def adjoint(a: np.ndarray) -> np.ndarray:
    return a.conj().swapaxes(-1, -2)


def hermitian(*shape: int, dtype: str = "float64") -> np.ndarray:
    a = matrix(*shape, shape[-1], dtype=dtype)
    return a + adjoint(a)


def close(got: Any, want: np.ndarray, dtype: str, times: float = 64) -> None:
    got = got.detach().numpy() if isinstance(got, fa.Tensor) else got
    assert got.shape == want.shape
    scale = np.max(np.abs(want), initial=1)
    np.testing.assert_allclose(got, want, rtol=0, atol=times * scale * EPS[dtype])


def unit(q: np.ndarray, dtype: str) -> None:
    """Columns are orthonormal."""
    close(
        adjoint(q) @ q,
        np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], *[q.shape[-1]] * 2)),
        dtype,
    )


def differentiable(function: Callable[..., Any], *arrays: np.ndarray) -> None:
    """To second order, and in both modes."""
    inputs = [fa.tensor(a, requires_grad=True) for a in arrays]
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)
    both_modes(function, inputs)


def inner(a: fa.Tensor, b: fa.Tensor) -> fa.Tensor:
    """The real inner product."""
    product = a * b.conj()
    return (product.real if product.is_complex() else product).sum()


def both_modes(function: Callable[..., Any], inputs: list[fa.Tensor]) -> None:
    from facula.autograd import forward_ad

    fa.manual_seed(1)
    along = [fa.randn(i.shape, dtype=i.dtype) for i in inputs]
    outputs = function(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    weights = [fa.randn(o.shape, dtype=o.dtype) for o in outputs]
    total = sum(inner(o, w) for o, w in zip(outputs, weights, strict=True))
    grads = fa.autograd.grad(total, inputs)
    reverse = sum(float(inner(g, u)) for g, u in zip(grads, along, strict=True))
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(i.detach(), u) for i, u in zip(inputs, along, strict=True)]
        found = function(*duals)
        found = found if isinstance(found, tuple) else (found,)
        tangents = [forward_ad.unpack_dual(o).tangent for o in found]
    forward = sum(
        float(inner(t, w)) for t, w in zip(tangents, weights, strict=True) if t is not None
    )
    assert forward == pytest.approx(reverse, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 5, 3), (3, 4), (0, 3), (3, 0)])
def test_geqrf(shape: tuple[int, ...], dtype: str) -> None:
    a = matrix(*shape, dtype=dtype)
    factors, tau = fa.geqrf(fa.tensor(a))
    k = min(shape[-2:])
    assert tau.shape == (*shape[:-2], k)
    q = fa.linalg.householder_product(factors[..., :k].contiguous(), tau)
    close(q @ factors[..., :k, :].triu(), a, dtype)
    assert fa.orgqr(factors[..., :k], tau).tolist() == q.tolist()
    b = matrix(*shape[:-2], shape[-2], 2, dtype=dtype)
    turned = fa.ormqr(factors[..., :k], tau, fa.tensor(b), True, True)
    close(turned[..., :k, :], adjoint(q.numpy()) @ b, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 5, 3), (3, 4), (0, 3), (3, 0), (0, 3, 2)])
def test_qr(shape: tuple[int, ...], dtype: str) -> None:
    a = matrix(*shape, dtype=dtype)
    m, n = shape[-2:]
    for mode, k in (("reduced", min(m, n)), ("complete", m)):
        q, r = fa.linalg.qr(fa.tensor(a), mode)
        assert q.shape == (*shape[:-2], m, k)
        assert r.shape == (*shape[:-2], k, n)
        close(q @ r, a, dtype)
        unit(q.numpy(), dtype)
        assert (r.tril(-1) == 0).all()
    empty, alone = fa.linalg.qr(fa.tensor(a), "r")
    assert empty.shape == (0,)
    close(alone.abs(), np.abs(fa.linalg.qr(fa.tensor(a)).R.numpy()), dtype)


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 2), (2, 3)])
def test_qr_derivatives(shape: tuple[int, ...], dtype: str) -> None:
    differentiable(lambda a: tuple(fa.linalg.qr(a)), matrix(*shape, dtype=dtype))
    tall = fa.tensor(matrix(4, 2), requires_grad=True)
    for mode in ("complete", "r"):
        with pytest.raises(RuntimeError, match="has no derivative"):
            fa.linalg.qr(tall, mode).R.sum().backward()


@pytest.mark.parametrize("dtype", WIDE)
def test_reflection_derivatives(dtype: str) -> None:
    a, tau, b = matrix(4, 2, dtype=dtype), matrix(2, dtype=dtype), matrix(4, 3, dtype=dtype)
    differentiable(fa.linalg.householder_product, a, tau)
    differentiable(lambda a, t, b: fa.ormqr(a, t, b, transpose=True), a, tau, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4,), (2, 3), (0,), (0, 2), (1,)])
def test_eigh(shape: tuple[int, ...], dtype: str) -> None:
    a = hermitian(*shape, dtype=dtype)
    for uplo in "LU":
        junk = np.tril(a) if uplo == "L" else np.triu(a)
        junk = junk + np.where(junk == 0, np.nan, 0).astype(dtype) * (
            1 - np.eye(shape[-1], dtype=dtype) * 0
        )
        values, vectors = fa.linalg.eigh(fa.tensor(junk.astype(dtype)), uplo)
        assert str(values.dtype) == f"facula.{np.empty(0, dtype).real.dtype}"
        close(values, np.linalg.eigvalsh(a), dtype)
        close(fa.tensor(a) @ vectors, vectors.numpy() * values.numpy()[..., None, :], dtype)
        unit(vectors.numpy(), dtype)


@pytest.mark.parametrize("dtype", WIDE)
def test_eigh_derivatives(dtype: str) -> None:
    def invariant(x: fa.Tensor) -> tuple[fa.Tensor, ...]:
        values, vectors = fa.linalg.eigh((x + x.mH) / 2)
        return values, vectors.abs(), fa.linalg.eigvalsh((x + x.mH) / 2)

    differentiable(invariant, matrix(2, 3, 3, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 5, 3), (3, 4), (0, 3), (3, 0), (0, 3, 2), (20, 30)])
def test_svd(shape: tuple[int, ...], dtype: str) -> None:
    a = matrix(*shape, dtype=dtype)
    m, n = shape[-2:]
    for full in (True, False):
        u, s, vh = (t.numpy() for t in fa.linalg.svd(fa.tensor(a), full))
        k = min(m, n)
        assert u.shape[-2:] == (m, m if full else k)
        assert vh.shape[-2:] == (n if full else k, n)
        close(s, np.linalg.svd(a, compute_uv=False), dtype)
        close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, dtype)
        unit(u, dtype)
        unit(adjoint(vh), dtype)
    by_other = fa.linalg.svd(fa.tensor(a), driver="gesvd")
    close(by_other.S, s, dtype)
    close(fa.linalg.svdvals(fa.tensor(a)), s, dtype)
    old = fa.svd(fa.tensor(a))
    close(old.V.mH, vh, dtype, 1e4)


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 2), (2, 3)])
def test_svd_derivatives(shape: tuple[int, ...], dtype: str) -> None:
    def invariant(x: fa.Tensor) -> tuple[fa.Tensor, ...]:
        u, s, vh = fa.linalg.svd(x, False)
        return u.abs(), s, vh.abs(), u @ vh, fa.linalg.svdvals(x)

    differentiable(invariant, matrix(*shape, dtype=dtype))
    whole = fa.tensor(matrix(*shape, dtype=dtype), requires_grad=True)
    k = min(shape[-2:])
    u, _, vh = fa.linalg.svd(whole)
    got = fa.autograd.grad((u[..., :k] @ vh[..., :k, :]).abs().sum(), whole)[0]
    u, _, vh = fa.linalg.svd(whole, False)
    want = fa.autograd.grad((u @ vh).abs().sum(), whole)[0]
    close(got, want.numpy(), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (0, 0), (0, 2, 2), (1, 1)])
def test_eig(shape: tuple[int, ...], dtype: str) -> None:
    a = matrix(*shape, dtype=dtype)
    values, vectors = fa.linalg.eig(fa.tensor(a))
    assert values.is_complex()
    close(
        fa.tensor(a).to(vectors.dtype) @ vectors,
        vectors.numpy() * values.numpy()[..., None, :],
        dtype,
    )
    lengths = np.linalg.norm(vectors.numpy(), axis=-2)
    close(lengths, np.ones_like(lengths), dtype)
    order = lambda x: np.sort_complex(np.round(x, 3))  # noqa: E731
    close(order(fa.linalg.eigvals(fa.tensor(a)).numpy()), order(values.numpy()), dtype)
    close(order(values.numpy()), order(np.linalg.eigvals(a)), "float32", 1e5)


@pytest.mark.parametrize("dtype", WIDE)
def test_eig_derivatives(dtype: str) -> None:
    def invariant(x: fa.Tensor) -> tuple[fa.Tensor, ...]:
        values, vectors = fa.linalg.eig(x)
        return values, vectors.abs(), fa.linalg.eigvals(x)

    differentiable(invariant, matrix(3, 3, dtype=dtype, seed=3))


@pytest.mark.parametrize("function", [fa.linalg.eigh, fa.linalg.svd, fa.linalg.eig])
def test_gradients_of_phases_are_refused(function: Callable[..., Any]) -> None:
    x = fa.tensor(hermitian(3, dtype="complex128"), requires_grad=True)
    results = function(x)
    vectors = results[1] if len(results) == 2 else results[0]
    with pytest.raises(RuntimeError, match="phase"):
        (vectors.imag.sum() + vectors.real[0].sum()).backward()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss", None])
def test_lstsq(driver: str | None, dtype: str) -> None:
    for m, n in ((5, 3), (3, 3), (3, 5)):
        a, b = matrix(2, m, n, dtype=dtype), matrix(m, 2, dtype=dtype, seed=1)
        x, residuals, rank, values = fa.linalg.lstsq(fa.tensor(a), fa.tensor(b), driver=driver)
        want = [np.linalg.lstsq(one, b, rcond=None) for one in a]
        close(x, np.stack([w[0] for w in want]), dtype, 1e3)
        if m > n and driver in ("gels", "gelsd", "gelss"):
            close(residuals, np.stack([w[1] for w in want]), dtype, 1e3)
        else:
            assert residuals.shape == (0,)
        assert rank.tolist() == ([] if driver == "gels" else [min(m, n)] * 2)
        if driver in ("gelsd", "gelss"):
            close(values, np.stack([w[3] for w in want]), dtype)
        else:
            assert values.numel() == 0
    vector = fa.linalg.lstsq(fa.tensor(a), fa.tensor(b[:, 0]), driver=driver)
    close(vector.solution, x.numpy()[..., 0], dtype, 1e3)


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("shape", [(4, 2), (3, 3), (2, 2, 4)])
def test_lstsq_derivatives(shape: tuple[int, ...], dtype: str) -> None:
    a, b = matrix(*shape, dtype=dtype), matrix(shape[-2], 2, dtype=dtype, seed=1)
    inputs = [fa.tensor(t, requires_grad=True) for t in (a, b)]

    def solved(a: fa.Tensor, b: fa.Tensor) -> tuple[fa.Tensor, ...]:
        x, residuals, *_ = fa.linalg.lstsq(a, b, driver="gelsd")
        return (x, residuals) if residuals.numel() else (x,)

    assert gradcheck(solved, inputs)
    assert gradgradcheck(solved, inputs)
    both_modes(solved, inputs)


@pytest.mark.parametrize("dtype", DTYPES)
def test_lstsq_of_less_than_full_rank(dtype: str) -> None:
    a = matrix(5, 2, dtype=dtype) @ matrix(2, 4, dtype=dtype)
    b = matrix(5, 2, dtype=dtype)
    want = np.linalg.pinv(a, rcond=1e-4) @ b
    for driver in ("gelsy", "gelsd", "gelss"):
        x, residuals, rank, _ = fa.linalg.lstsq(fa.tensor(a), fa.tensor(b), 1e-4, driver=driver)
        close(x, want, dtype, 1e4)
        assert (rank.item(), residuals.numel()) == (2, 0)


@pytest.mark.parametrize("hermite", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_ldl(dtype: str, hermite: bool) -> None:
    a = matrix(2, 4, 4, dtype=dtype)
    a = a + adjoint(a) if hermite else a + a.swapaxes(-1, -2)
    b = matrix(4, 3, dtype=dtype)
    factors, pivots, info = fa.linalg.ldl_factor_ex(fa.tensor(np.tril(a)), hermitian=hermite)
    assert info.tolist() == [0, 0]
    x = fa.linalg.ldl_solve(factors, pivots, fa.tensor(b), hermitian=hermite)
    close(x, np.linalg.solve(a, b), dtype, 1e4)
    assert fa.linalg.ldl_factor(fa.tensor(a), hermitian=hermite).pivots.tolist() == pivots.tolist()
    singular = fa.zeros(2, 2, dtype=fa.tensor(a).dtype)
    assert fa.linalg.ldl_factor_ex(singular, hermitian=hermite).info.item() > 0
    with pytest.raises(fa.linalg.LinAlgError, match="diagonal of D is zero"):
        fa.linalg.ldl_factor_ex(singular, hermitian=hermite, check_errors=True)
    for bad in ([5, 1, 1, 1], [0, 1, 1, 1], [-1, 2, 3, 4], [1, 2, 3, -4]):
        with pytest.raises(IndexError, match="not those of ldl_factor"):
            fa.linalg.ldl_solve(factors, fa.tensor([bad, bad]), fa.tensor(b), hermitian=hermite)
