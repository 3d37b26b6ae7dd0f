"""Attention over any dims before those of tokens, by its definition."""

from __future__ import annotations

import facula as fa
import numpy as np
from facula.nn import functional as F


def test_attention_of_many_batches() -> None:
    """More dims than heads and batch, each a batch; and keys that serve all batches."""
    fa.manual_seed(1)
    q, k, v = (fa.randn(2, 3, 2, n, 4, dtype=fa.float64) for n in (5, 6, 6))
    got = F.scaled_dot_product_attention(q, k, v)
    each = F.scaled_dot_product_attention(*(t.flatten(0, 1) for t in (q, k, v)))
    assert got.shape == (2, 3, 2, 5, 4)
    fa.testing.assert_close(got.flatten(0, 1), each)
    weights = np.exp(q.numpy() @ k.numpy().swapaxes(-1, -2) / 2)
    want = weights / weights.sum(-1, keepdims=True) @ v.numpy()
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-10)
    shared = F.scaled_dot_product_attention(q[0], k[0, :1], v[0, :1])
    np.testing.assert_allclose(
        shared.numpy(),
        F.scaled_dot_product_attention(
            q[0], k[0, :1].expand(3, 2, 6, 4), v[0, :1].expand(3, 2, 6, 4)
        ).numpy(),
        rtol=1e-10,
    )


def test_attention_masks_of_more_dims_than_the_queries() -> None:
    fa.manual_seed(2)
    q, k, v = (fa.randn(2, n, 4, dtype=fa.float64) for n in (5, 6, 6))
    for lead in ((1,), (3,)):
        mask = fa.randn(*lead, 2, 5, 6, dtype=fa.float64)
        got = F.scaled_dot_product_attention(q, k, v, mask)
        weights = np.exp(q.numpy() @ k.numpy().swapaxes(-1, -2) / 2 + mask.numpy())
        want = weights / weights.sum(-1, keepdims=True) @ v.numpy()
        assert got.shape == (*lead, 2, 5, 4)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-10)
