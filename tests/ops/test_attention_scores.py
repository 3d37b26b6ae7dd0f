"""Attention of large scores, many keys, masks of the least number, beside softmax in float64."""

import facula as fa
import numpy as np
import pytest

F = fa.nn.functional


def right(q, k, v, mask=None, scale=1.0):
    s = q @ np.swapaxes(k, -1, -2) * scale
    if mask is not None:
        s = s + mask
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True), s


def slopes(p, q, k, v, scale):
    """Of the sum of what attention gives."""
    dp = np.broadcast_to(v.sum(-1)[..., None, :], p.shape)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * scale
    dv = np.broadcast_to(p.sum(-2)[..., None], v.shape)
    return ds @ k, np.swapaxes(ds, -1, -2) @ q, dv


@pytest.mark.parametrize("level", [0.3, 10.3, 100.3, 1000.7, 1e4, 1e6, -1e4, 1e30])
@pytest.mark.parametrize("keys", [5, 4096, 20_000])
def test_equal_scores_have_equal_weights(keys, level):
    q = fa.ones(1, 1, 9, 4, requires_grad=True)
    k = fa.full((1, 1, keys, 4), level / 4)
    v = fa.linspace(0, 1, keys).view(1, 1, keys, 1).repeat(1, 1, 1, 4).requires_grad_()
    out = F.scaled_dot_product_attention(q, k, v, scale=1.0)
    np.testing.assert_allclose(out.detach().numpy(), 0.5, 2e-6)
    (dv,) = fa.autograd.grad(out.sum(), v)
    np.testing.assert_allclose(dv.numpy(), 9 / keys, 6e-6)


@pytest.mark.parametrize("dtype", [fa.float32, fa.float64])
@pytest.mark.parametrize("size", [1, 30, 300, 3000])
@pytest.mark.parametrize("causal", [False, True])
def test_large_scores(size, dtype, causal):
    """Whole numbers, so that scores are exact; those that lie near each other share the weight."""
    rng = np.random.default_rng(size)
    n = 70
    q, k = rng.integers(-3, 4, (2, 2, n, 8)), rng.integers(-3, 4, (2, 2, n, 8))
    q, k = q * 1.0, k * 1.0
    q[..., 0], k[..., 0] = size, size  # the same large part in each score
    v = rng.integers(-4, 5, (2, 2, n, 8)) / 4
    mask = np.where(np.tri(n) == 1, 0, -np.inf) if causal else None
    p, _ = right(q, k, v, mask)
    given = [fa.from_numpy(t).to(dtype).requires_grad_() for t in (q, k, v)]
    out = F.scaled_dot_product_attention(*given, is_causal=causal, scale=1.0)
    grads = fa.autograd.grad(out.sum(), given)
    eps = 3e-5 if dtype == fa.float32 else 1e-12
    np.testing.assert_allclose(out.detach().numpy(), p @ v, eps, eps)
    for got, want in zip(grads, slopes(p, q, k, v, 1.0), strict=True):
        np.testing.assert_allclose(got.numpy(), want, eps, eps * max(np.abs(want).max(), size))


@pytest.mark.parametrize("dtype", [fa.float32, fa.float64, fa.bfloat16, fa.float16])
def test_masks_of_the_least_number(dtype):
    """A row masked throughout has equal weights; others leave out what is masked."""
    least = fa.finfo(dtype).min
    fa.manual_seed(0)
    q, k, v = (fa.randn(1, 2, 20, 8).to(dtype).requires_grad_() for _ in range(3))
    mask = fa.zeros(20, 20, dtype=dtype)
    mask[:7] = least
    mask[7:, 10:] = least
    out = F.scaled_dot_product_attention(q, k, v, mask)
    assert fa.isfinite(out).all()
    if dtype != fa.float16:  # where the least number and a score have a sum of its own
        want = v.double().mean(2, keepdim=True).expand(1, 2, 7, 8)
        assert fa.allclose(out[:, :, :7].double(), want, atol=4 * fa.finfo(dtype).eps)
    shown = F.scaled_dot_product_attention(q[:, :, 7:], k[:, :, :10], v[:, :, :10])
    assert fa.allclose(out[:, :, 7:], shown, atol=4 * fa.finfo(dtype).eps)
    for grad in fa.autograd.grad(out.sum(), (q, k, v)):
        assert fa.isfinite(grad).all()


def test_rows_that_see_nothing_stay_zero():
    fa.manual_seed(0)
    q, k, v = (fa.randn(1, 1, 12, 8, requires_grad=True) for _ in range(3))
    mask = fa.ones(12, 12, dtype=fa.bool)
    mask[3:5] = False
    with fa.no_grad():
        q *= 1000
    out = F.scaled_dot_product_attention(q, k, v, mask)
    assert (out[0, 0, 3:5] == 0).all()
    grads = fa.autograd.grad(out.sum(), (q, k, v))
    assert all(fa.isfinite(g).all() for g in grads) and (grads[0][0, 0, 3:5] == 0).all()
