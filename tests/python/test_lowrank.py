"""Approximate singular values and principal components, and `lu` with its choice of results."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest


def low_rank(*shape: int, rank: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    *lead, m, n = shape
    return rng.standard_normal((*lead, m, rank)) @ rng.standard_normal((*lead, rank, n))


@pytest.mark.parametrize("shape", [(20, 12), (12, 20), (3, 15, 15)])
def test_svd_lowrank_of_low_rank(shape: tuple[int, ...]) -> None:
    fa.manual_seed(0)
    a = low_rank(*shape, rank=4)
    u, s, v = fa.svd_lowrank(fa.tensor(a), q=5)
    assert (u.shape[-1], s.shape[-1], v.shape[-1]) == (5, 5, 5)
    np.testing.assert_allclose(((u * s.unsqueeze(-2)) @ v.mH).numpy(), a, atol=1e-10)
    want = np.linalg.svd(a, compute_uv=False)[..., :5]
    np.testing.assert_allclose(s.numpy(), want, atol=1e-10)


def test_svd_lowrank_iterations_help() -> None:
    rng = np.random.default_rng(1)
    a = rng.standard_normal((60, 40)) * 0.3 + low_rank(60, 40, rank=3)
    want = np.linalg.svd(a, compute_uv=False)[:4]
    errors = []
    for niter in (0, 4):
        fa.manual_seed(0)
        s = fa.svd_lowrank(fa.tensor(a), 4, niter)[1]
        errors.append(abs(s.numpy() - want).max())
    assert errors[1] < errors[0] / 3


@pytest.mark.parametrize("center", [True, False])
def test_pca_lowrank(center: bool) -> None:
    fa.manual_seed(0)
    a = low_rank(30, 8, rank=3) + 5
    u, s, v = fa.pca_lowrank(fa.tensor(a), center=center)
    assert (u.shape, s.shape, v.shape) == ((30, 6), (6,), (8, 6))
    b = a - a.mean(0) if center else a
    np.testing.assert_allclose(((u * s) @ v.mT).numpy(), b, atol=1e-10)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: fa.svd_lowrank(fa.zeros(3)), "matrix"),
        (lambda: fa.svd_lowrank(fa.zeros(3, 3), 4), "q is 4"),
        (lambda: fa.svd_lowrank(fa.zeros(3, 3), 2, -1), "niter"),
        (lambda: fa.pca_lowrank(fa.zeros(3)), "matrix"),
    ],
)
def test_bad_arguments(call, match) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=match):
        call()


def test_lu() -> None:
    a = fa.tensor([[1.0, 2.0], [3.0, 4.0]])
    factors, pivots = fa.lu(a)
    assert factors.tolist()[0] == [3.0, 4.0]
    assert pivots.tolist() == [2, 2]
    assert [t.tolist() for t in a.lu(get_infos=True)] == [factors.tolist(), [2, 2], 0]
    singular = fa.ones(2, 2)
    assert fa.lu(singular, get_infos=True)[2].item() == 2
    with pytest.raises(fa.linalg.LinAlgError, match="singular"):
        fa.lu(singular)
    outs = (fa.empty(0), fa.empty(0, dtype=fa.int32))
    assert fa.lu(a, out=outs)[0] is outs[0]
    assert outs[1].tolist() == [2, 2]
    with pytest.raises(TypeError, match="2 results"):
        fa.lu(a, out=(fa.empty(0),))
