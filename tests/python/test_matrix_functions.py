"""lobpcg, vander and norms of matrices by older names, beside NumPy and SciPy; storages."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest
import scipy.linalg

GENERATOR = np.random.default_rng(2)
A = GENERATOR.normal(size=(30, 30))
A = A + A.T
B = GENERATOR.normal(size=(30, 30))
B = B @ B.T + np.eye(30)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_lobpcg(largest: bool, weighted: bool) -> None:
    fa.manual_seed(0)
    b = B if weighted else None
    values, vectors = fa.lobpcg(
        fa.tensor(A), 3, None if b is None else fa.tensor(b), largest=largest, tol=1e-10
    )
    every = scipy.linalg.eigh(A, b, eigvals_only=True)
    np.testing.assert_allclose(values.numpy(), every[::-1][:3] if largest else every[:3], rtol=1e-9)
    v = vectors.numpy()
    right = v if b is None else b @ v
    np.testing.assert_allclose(A @ v, right * values.numpy(), atol=1e-6)


def test_gradients_of_lobpcg() -> None:
    fa.manual_seed(0)
    x = fa.tensor(A, requires_grad=True)
    values, vectors = fa.lobpcg(x, 2, tol=1e-12)
    (got,) = fa.autograd.grad(values.sum(), x)
    v = vectors.detach().numpy()
    np.testing.assert_allclose(got.numpy(), v @ v.T, atol=1e-8)


def test_lobpcg_errors() -> None:
    with pytest.raises(ValueError, match="m at least 3 n"):
        fa.lobpcg(fa.eye(5), 2)
    with pytest.raises(RuntimeError, match="square matrices"):
        fa.lobpcg(fa.ones(4, 3), 1)
    with pytest.raises(ValueError, match="method must be"):
        fa.lobpcg(fa.eye(9), 1, method="power")


def test_vander_and_norms() -> None:
    x = np.array([2, 3, 5])
    for n in (None, 0, 1, 2, 4):
        for increasing in (False, True):
            got = fa.vander(fa.tensor(x), n, increasing)
            np.testing.assert_array_equal(got.numpy(), np.vander(x, n, increasing))
    with pytest.raises(RuntimeError, match="x must be a vector"):
        fa.vander(fa.ones(2, 2))
    m = fa.tensor(A[:3, :4])
    np.testing.assert_allclose(fa.frobenius_norm(m).item(), np.linalg.norm(A[:3, :4]))
    np.testing.assert_allclose(fa.frobenius_norm(m, 1).numpy(), np.linalg.norm(A[:3, :4], axis=1))
    np.testing.assert_allclose(fa.nuclear_norm(m).item(), np.linalg.norm(A[:3, :4], "nuc"))
    np.testing.assert_allclose(
        fa.norm_except_dim(m, 2, 1).numpy(), np.linalg.norm(A[:3, :4], axis=0, keepdims=True)
    )


def test_storages() -> None:
    x = fa.arange(6.0).reshape(2, 3)
    memory = x[1].storage()
    assert memory.tolist() == [0, 1, 2, 3, 4, 5] and len(memory) == 6 and memory.dtype == fa.float32
    memory[0] = 9
    assert x[0, 0] == 9 and next(iter(memory)) == 9 and memory[1:3].tolist() == [1, 2]
    y = fa.zeros(1)
    y.set_(memory, 1, (2, 2), (2, 1))
    assert y.tolist() == [[1, 2], [3, 4]] and y.is_set_to(x.as_strided((2, 2), (2, 1), 1))
    y.set_(x)
    assert y.is_set_to(x) and y.set_().shape == (0,)
    with pytest.raises(RuntimeError, match=r"source is .*float32, the tensor"):
        fa.zeros(1, dtype=fa.int64).set_(x)
    with pytest.raises(TypeError, match="bytes have no dtype"):
        y.set_(x.untyped_storage())
