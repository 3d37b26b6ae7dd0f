"""Linear algebra beyond the samples: complex numbers, broadcasting, errors, what is not finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula as fa
import numpy as np
import pytest
import scipy.linalg
from facula.autograd import gradcheck, gradgradcheck
from harness import run_python
from linalg_reference import lu_factor

DTYPES = ("float32", "float64", "complex64", "complex128")
LinAlgError = fa.linalg.LinAlgError


def random(*shape: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng([seed, *shape])
    a = rng.standard_normal(shape)
    return (a + 1j * rng.standard_normal(shape) if dtype[0] == "c" else a).astype(dtype)


def positive(*shape: int, dtype: str = "float64") -> np.ndarray:
    a = random(*shape, shape[-1], dtype=dtype)
    return (a @ a.conj().swapaxes(-1, -2) + shape[-1] * np.eye(shape[-1])).astype(dtype)


def close(got: fa.Tensor, want: Any, dtype: str, times: float = 256) -> None:
    found, want = got.detach().numpy(), np.asarray(want)
    assert found.shape == want.shape
    scale = np.max(np.abs(want), initial=1)
    np.testing.assert_allclose(found, want, rtol=0, atol=times * scale * np.finfo(dtype).eps)


# name -> what is called, what NumPy says, and the arguments' makers
CASES: dict[
    str, tuple[Callable[..., Any], Callable[..., Any], Callable[[str], tuple[Any, ...]]]
] = {
    "cholesky": (fa.linalg.cholesky, np.linalg.cholesky, lambda d: (positive(2, 3, dtype=d),)),
    "cholesky upper": (
        lambda a: fa.linalg.cholesky(a, upper=True),
        lambda a: np.linalg.cholesky(a, upper=True),
        lambda d: (positive(2, 3, dtype=d),),
    ),
    "cholesky_inverse": (
        lambda a: fa.cholesky_inverse(fa.linalg.cholesky(a)),
        np.linalg.inv,
        lambda d: (positive(2, 3, dtype=d),),
    ),
    "cholesky_solve": (
        lambda a, b: fa.cholesky_solve(b, fa.linalg.cholesky(a, upper=True), True),
        np.linalg.solve,
        lambda d: (positive(2, 3, dtype=d), random(3, 2, dtype=d)),
    ),
    "solve_triangular": (
        lambda a, b: fa.linalg.solve_triangular(a, b, upper=True),
        lambda a, b: np.linalg.solve(np.triu(a), b),
        lambda d: (positive(2, 3, dtype=d), random(3, 2, dtype=d)),
    ),
    "solve": (
        fa.linalg.solve,
        np.linalg.solve,
        lambda d: (random(2, 3, 3, dtype=d), random(3, 2, dtype=d)),
    ),
    "inv": (fa.linalg.inv, np.linalg.inv, lambda d: (random(2, 3, 3, dtype=d),)),
    "lu": (lambda a: fa.linalg.lu(a), scipy.linalg.lu, lambda d: (random(4, 3, dtype=d),)),
    "lu wide": (lambda a: fa.linalg.lu(a), scipy.linalg.lu, lambda d: (random(2, 4, dtype=d),)),
    "lu_solve": (
        lambda a, b: fa.linalg.lu_solve(*fa.linalg.lu_factor(a), b, adjoint=True),
        lambda a, b: np.linalg.solve(a.conj().swapaxes(-1, -2), b),
        lambda d: (random(2, 3, 3, dtype=d), random(3, 2, dtype=d)),
    ),
    "lu_solve right": (
        lambda a, b: fa.linalg.lu_solve(*fa.linalg.lu_factor(a), b, left=False),
        lambda a, b: b @ np.linalg.inv(a),
        lambda d: (random(2, 3, 3, dtype=d), random(2, 3, dtype=d)),
    ),
    "lu_factor without pivots": (
        lambda a: fa.linalg.lu_factor(a, pivot=False)[0],
        lambda a: lu_factor(a, False)[0],
        lambda d: (positive(2, 3, dtype=d),),
    ),
    "det": (fa.linalg.det, np.linalg.det, lambda d: (random(2, 3, 3, dtype=d),)),
    "slogdet": (
        lambda a: tuple(fa.linalg.slogdet(a)),
        lambda a: tuple(np.linalg.slogdet(a)),
        lambda d: (random(2, 3, 3, dtype=d),),
    ),
    "pinv": (fa.linalg.pinv, np.linalg.pinv, lambda d: (random(2, 4, 3, dtype=d),)),
    "matrix_exp": (
        fa.linalg.matrix_exp,
        scipy.linalg.expm,
        lambda d: (random(2, 3, 3, dtype=d),),
    ),
    "matrix_power": (
        lambda a: fa.linalg.matrix_power(a, -3),
        lambda a: np.linalg.matrix_power(a, -3),
        lambda d: (random(3, 3, dtype=d),),
    ),
    "matrix_norm": (
        lambda a: fa.linalg.matrix_norm(a, "nuc") + fa.linalg.matrix_norm(a, 2),
        lambda a: np.linalg.norm(a, "nuc") + np.linalg.norm(a, 2),
        lambda d: (random(4, 3, dtype=d),),
    ),
    "vander": (
        fa.linalg.vander,
        lambda x: np.vander(x, increasing=True),
        lambda d: (random(4, dtype=d),),
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, dtype: str) -> None:
    call, want, make = CASES[name]
    arrays = make(dtype)
    got = call(*map(fa.tensor, arrays))
    results = [got] if isinstance(got, fa.Tensor) else list(got)
    wanted = want(*(a.astype(np.promote_types(dtype, np.float64)) for a in arrays))
    for g, w in zip(results, wanted if isinstance(wanted, tuple) else [wanted], strict=True):
        close(g, w, dtype, 2000)


@pytest.mark.parametrize("name", CASES)
def test_complex_derivatives(name: str) -> None:
    call, _, make = CASES[name]
    inputs = [fa.tensor(a, requires_grad=True) for a in make("complex128")]

    def function(*args: fa.Tensor) -> Any:
        first = args[0]
        if name.startswith("cholesky"):
            first = (first + first.mH) / 2
        got = call(first, *args[1:])
        results = [got] if isinstance(got, fa.Tensor) else list(got)
        return tuple(results[name.startswith("lu") and len(results) == 3 :])  # without P

    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", [1, 2, 30, 200, 700])
def test_larger_matrices(n: int, dtype: str) -> None:
    """Beyond the sizes from which work is shared."""
    a, b = positive(n, dtype=dtype), random(n, 3, dtype=dtype)
    x = fa.linalg.solve(fa.tensor(a), fa.tensor(b))
    close(fa.tensor(a) @ x, b, dtype, 64 * n)
    factor = fa.linalg.cholesky(fa.tensor(a))
    close(factor @ factor.mT, a, dtype, 64)
    assert (factor.triu(1) == 0).all()
    general = random(n, n, dtype=dtype)
    for pivot in (True, False):
        given = general if pivot else general + 3 * n * np.eye(n, dtype=dtype)
        p, low, up = fa.linalg.lu(fa.tensor(given), pivot=pivot)
        close(p @ low @ up if pivot else low @ up, given, dtype, 64 * n)
    close(fa.linalg.solve_triangular(factor, factor @ x, upper=False), x.numpy(), dtype, 64 * n)


def test_batches_broadcast() -> None:
    a, b = random(5, 1, 3, 3), random(4, 3, 2)
    close(fa.linalg.solve(fa.tensor(a), fa.tensor(b)), np.linalg.solve(a, b), "float64")
    expanded = fa.tensor(a[0, 0]).expand(2, 3, 3)
    close(fa.linalg.inv(expanded), np.linalg.inv(np.stack([a[0, 0]] * 2)), "float64")
    vectors = random(5, 3)
    got = fa.linalg.solve(fa.tensor(a[:, 0]), fa.tensor(vectors))
    close(got, np.linalg.solve(a[:, 0], vectors[..., None])[..., 0], "float64")


SINGULAR = fa.tensor([[1.0, 2.0], [2.0, 4.0]])


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda a: fa.linalg.cholesky(a - 3 * fa.eye(2)), "not positive definite.*order 1"),
        (lambda a: fa.linalg.cholesky_ex(a, check_errors=True), "not positive definite.*order 2"),
        (fa.linalg.inv, "singular: element 2"),
        (lambda a: fa.linalg.solve(a, fa.ones(2, 1)), "singular"),
        (lambda a: fa.linalg.lu_factor_ex(a, check_errors=True), "singular"),
        (lambda a: fa.linalg.tensorinv(a, 1), "singular"),
        (lambda a: fa.linalg.matrix_power(a, -1), "singular"),
        (lambda a: fa.linalg.eigh(a * fa.inf), "not finite"),
        (lambda a: fa.linalg.svdvals(a * fa.nan), "not finite"),
        (lambda a: fa.linalg.eigvals(a * fa.nan), "not finite"),
        (lambda a: fa.linalg.lstsq(a * fa.nan, fa.ones(2, 1)), "not finite"),
        (lambda a: fa.linalg.cholesky(a * fa.nan), "not positive definite"),
    ],
)
def test_values_without_a_result(call: Callable[[fa.Tensor], Any], match: str) -> None:
    with pytest.raises(LinAlgError, match=match) as caught:
        call(SINGULAR)
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.kind == "linalg"
    batch = fa.stack([fa.tensor([[2.0, 1.0], [1.0, 3.0]]) + 3 * fa.eye(2), SINGULAR])
    if "tensorinv" not in str(caught.value):
        with pytest.raises(LinAlgError, match=r"\(Batch element [01]\)"):
            call(batch)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: fa.linalg.cholesky(fa.ones(2, 3)), RuntimeError, "square"),
        (lambda: fa.linalg.cholesky(fa.ones(2)), RuntimeError, "batch of matrices"),
        (lambda: fa.linalg.cholesky(fa.ones(2, 2, dtype=fa.int64)), RuntimeError, "int64"),
        (lambda: fa.linalg.inv(fa.ones(2, 2, dtype=fa.float16)), RuntimeError, "float16"),
        (lambda: fa.linalg.solve(fa.ones(2, 2), fa.ones(3, 1)), RuntimeError, "do not fit"),
        (
            lambda: fa.linalg.solve(fa.ones(2, 2), fa.ones(2, 1, dtype=fa.float64)),
            RuntimeError,
            "dtype",
        ),
        (lambda: fa.linalg.solve(fa.ones(3, 2, 2), fa.ones(4, 2, 1)), RuntimeError, "broadcast"),
        (lambda: fa.linalg.qr(fa.ones(2, 2), "full"), ValueError, "reduced"),
        (lambda: fa.linalg.eigh(fa.ones(2, 2), "X"), ValueError, "UPLO"),
        (lambda: fa.linalg.lstsq(fa.ones(2, 2), fa.ones(2), driver="x"), RuntimeError, "driver"),
        (lambda: fa.linalg.tensorinv(fa.ones(2, 3, 4), 1), RuntimeError, "as many elements"),
        (
            lambda: fa.linalg.tensorsolve(fa.ones(2, 3), fa.ones(2)),
            RuntimeError,
            "as many elements",
        ),
        (lambda: fa.linalg.vander(fa.ones(2), N=0), RuntimeError, "positive"),
        (lambda: fa.linalg.householder_product(fa.ones(2, 3), fa.ones(2)), RuntimeError, "rows"),
        (lambda: fa.linalg.matrix_norm(fa.ones(2, 2), 3), RuntimeError, "ord"),
        (lambda: fa.cdist(fa.ones(2, 3), fa.ones(2, 4)), RuntimeError, "columns"),
        (lambda: fa.cdist(fa.ones(2, 3), fa.ones(2, 3), -1.0), ValueError, "p"),
        (lambda: fa.cdist(fa.ones(2, 3), fa.ones(2, 3), 2.0, "x"), ValueError, "compute_mode"),
        (
            lambda: fa.lu_unpack(fa.eye(2), fa.tensor([3, 1], dtype=fa.int32)),
            IndexError,
            "from 1 to 2",
        ),
        (
            lambda: fa.linalg.lu_solve(fa.eye(2), fa.tensor([0, 1], dtype=fa.int32), fa.ones(2, 1)),
            IndexError,
            "from 1 to 2",
        ),
    ],
)
def test_bad_arguments(call: Callable[[], Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()


def test_nan_goes_through_what_does_not_iterate() -> None:
    a = fa.full((40, 40), fa.nan)
    assert fa.linalg.solve_ex(a, fa.ones(40, 2)).result.isnan().all()
    assert fa.linalg.det(a).isnan()
    assert fa.linalg.matrix_exp(a).isnan().all()
    fa.linalg.qr(a)
    fa.linalg.lu_factor(a * fa.inf)
    fa.geqrf(a)


def test_sizes_beyond_memory_raise() -> None:
    run_python(
        """
import facula as fa
big = fa.ones(1, 1).expand(2**31 - 8, 2**31 - 8)
thin = fa.empty(0, 1).expand(0, 2**62)
la = fa.linalg
for call in (la.inv, la.cholesky, la.eigvalsh, la.svdvals, la.det,
             la.qr, la.lu, la.eigvals, la.pinv, la.matrix_exp,
             lambda a: fa.cdist(a, a), lambda a: la.lstsq(a, a)):
    for a in (big, thin, thin.mT):
        try:
            call(a)
        except (RuntimeError, ValueError, MemoryError):
            pass
"""
    )


def test_determinant_of_singular_matrices() -> None:
    """The gradient is the adjugate's transpose: https://dlmf.nist.gov/1.3, of minors."""
    rng = np.random.default_rng(0)
    for rank in (3, 2, 1, 0):
        a = rng.standard_normal((4, rank)) @ rng.standard_normal((rank, 4))
        if rank == 2:
            a = np.diag([1.0, 2.0, 0.0, 0.0])
        minors = np.array(
            [
                [
                    (-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1))
                    for j in range(4)
                ]
                for i in range(4)
            ]
        )
        for graph in (False, True):
            x = fa.tensor(a, requires_grad=True)
            (got,) = fa.autograd.grad(fa.linalg.det(x), x, create_graph=graph)
            np.testing.assert_allclose(got.detach().numpy(), minors, atol=1e-6 if graph else 1e-12)
    exact = fa.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], dtype=fa.float64)
    assert gradgradcheck(fa.linalg.det, exact.requires_grad_(), atol=1e-4)


def test_distances_keep_their_digits() -> None:
    far = fa.tensor([[1e200, 1e200], [1e-200, 1e-200]], dtype=fa.float64)
    got = fa.cdist(far, fa.zeros(1, 2, dtype=fa.float64)).tolist()
    assert got == [[pytest.approx(2**0.5 * 1e200)], [pytest.approx(2**0.5 * 1e-200)]]
    assert fa.cdist(far, far, 3.0).diagonal().tolist() == [0, 0]
    nan = fa.tensor([[1.0, fa.nan]])
    for p in (1.0, 2.0, 3.0, fa.inf):
        assert fa.cdist(nan, fa.ones(70, 2), p).isnan().all()
        assert fa.cdist(fa.tensor([[fa.inf, 0.0]]), fa.ones(3, 2), p).tolist() == [[fa.inf] * 3]


@pytest.mark.parametrize("mode", ["use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"])
def test_modes_of_distances(mode: str) -> None:
    a, b = random(2, 40, 7), random(33, 7)
    want = np.linalg.norm(a[:, :, None] - b, axis=-1)
    close(fa.cdist(fa.tensor(a), fa.tensor(b), compute_mode=mode), want, "float64")
    huge = fa.cdist(fa.tensor(a * 1e200), fa.tensor(b * 1e200), compute_mode=mode)
    np.testing.assert_allclose(huge.numpy(), want * 1e200)
    x = fa.tensor(a, requires_grad=True)
    assert gradcheck(lambda x: fa.cdist(x, fa.tensor(b), compute_mode=mode)[:, :3, :3], x)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, float("inf")])
@pytest.mark.parametrize(("m", "n", "d"), [(4, 5, 0), (0, 5, 3), (4, 0, 3), (0, 0, 0)])
def test_distances_of_nothing(m: int, n: int, d: int, p: float) -> None:
    """Points of no dims are at a distance of zero, in each order; gradients are zero or empty."""
    x, y = (fa.ones(rows, d, dtype=fa.float64, requires_grad=True) for rows in (m, n))
    found = fa.cdist(x, y, p)
    assert found.shape == (m, n) and not found.any()
    for grad, of in zip(fa.autograd.grad(found.sum(), (x, y)), (x, y), strict=True):
        assert grad.shape == of.shape and not grad.any()
    tangent = fa.func.jvp(lambda a: fa.cdist(a, y.detach(), p), (x.detach(),), (x.detach(),))[1]
    assert tangent.shape == (m, n) and not tangent.any()


@pytest.mark.parametrize("dtype", [fa.float64, fa.complex128])
def test_upper_cholesky_reads_the_upper_triangle_alone(dtype: fa.dtype) -> None:
    fa.manual_seed(0)
    half = fa.randn(2, 4, 4, dtype=dtype)
    a = half @ half.mH + 4 * fa.eye(4, dtype=dtype)
    junk = fa.full((4, 4), 1e9, dtype=dtype)
    u = fa.linalg.cholesky(a.triu() + junk.tril(-1), upper=True)
    np.testing.assert_allclose((u.mH @ u).numpy(), a.numpy(), rtol=1e-12)
    assert not u.tril(-1).abs().any()
    for upper in (False, True):
        assert fa.autograd.gradcheck(
            lambda s, upper=upper: fa.linalg.cholesky(s + s.mH + 20 * fa.eye(4), upper=upper),
            half.detach().requires_grad_(),
            check_forward_ad=True,
        )
