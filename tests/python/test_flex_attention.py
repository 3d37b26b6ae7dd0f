"""Attention with functions of scores and masks by blocks, against NumPy."""

from __future__ import annotations

import math

import facula as fa
import numpy as np
import pytest
from facula.nn.attention import bias
from facula.nn.attention import flex_attention as flex
from facula.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    create_block_mask,
    create_mask,
    flex_attention,
)


def inputs(B=2, H=2, M=5, N=7, E=4, V=3, own=None, dtype=np.float64):
    random = np.random.default_rng(5)
    own = own or H
    sizes = ((B, H, M, E), (B, own, N, E), (B, own, N, V))
    return [random.normal(size=size).astype(dtype) for size in sizes]


def oracle(q, k, v, change=None, seen=None, scale=None):
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat(groups, 1), v.repeat(groups, 1)
    scores = q @ k.swapaxes(-2, -1) * (scale or 1 / math.sqrt(q.shape[-1]))
    places = np.ix_(*(range(n) for n in scores.shape))
    if change is not None:
        scores = change(scores, *places)
    if seen is not None:
        scores = np.where(seen(*places), scores, -np.inf)
    weights = np.exp(scores)
    total = weights.sum(-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        out = np.where(total > 0, weights / total, 0) @ v
        return out, np.log(total[..., 0])


def test_plain_attention():
    q, k, v = inputs()
    got, lse = flex_attention(*map(fa.from_numpy, (q, k, v)), return_lse=True)
    want, sums = oracle(q, k, v)
    np.testing.assert_allclose(got.numpy(), want)
    np.testing.assert_allclose(lse.numpy(), sums)
    got = flex_attention(*map(fa.from_numpy, (q, k, v)), scale=0.3)
    np.testing.assert_allclose(got.numpy(), oracle(q, k, v, scale=0.3)[0])


def test_functions_of_scores():
    q, k, v = inputs()
    slopes = np.array([0.5, 0.25])
    table = np.random.default_rng(6).normal(size=(2, 12))

    def change(score, b, h, m, n):
        return (
            fa.tanh(score) + fa.from_numpy(slopes)[h] * (m - n) + fa.from_numpy(table)[b][m - n + 6]
        )

    want = oracle(
        q, k, v, lambda s, b, h, m, n: np.tanh(s) + slopes[h] * (m - n) + table[b, m - n + 6]
    )[0]
    np.testing.assert_allclose(flex_attention(*map(fa.from_numpy, (q, k, v)), change).numpy(), want)


def test_gradients_reach_what_a_score_uses():
    q, k, v = (fa.from_numpy(x) for x in inputs(1, 2, 3, 3, 2, 2))
    slope = fa.tensor([0.5, 0.25], dtype=fa.float64)

    def attend(q, k, v, slope):
        mask = create_block_mask(lambda b, h, m, n: m >= n, None, None, 3, 3)
        return flex_attention(q, k, v, lambda s, b, h, m, n: s + slope[h] * (m - n), mask)

    assert fa.autograd.gradcheck(attend, [t.requires_grad_() for t in (q, k, v, slope)])


def test_masks_of_blocks_leave_out_what_is_not_seen():
    q, k, v = inputs(2, 2, 5, 7)
    documents = np.array([[0, 0, 1, 1, 2, 2, 2], [0, 1, 1, 1, 1, 2, 3]])

    def seen(b, h, m, n):
        return (documents[b, m] == documents[b, n]) & ((m >= n) | (h == 1))

    kinds = fa.from_numpy(documents)

    def mask(b, h, m, n):
        return (kinds[b][m] == kinds[b, n]) & ((m >= n) | (h == 1))

    for size in (128, 2, (1, 3)):
        blocks = create_block_mask(mask, 2, 2, 5, 7, BLOCK_SIZE=size)
        got = flex_attention(*map(fa.from_numpy, (q, k, v)), block_mask=blocks)
        np.testing.assert_allclose(got.numpy(), oracle(q, k, v, seen=seen)[0], atol=1e-12)
    grid = np.broadcast_to(seen(*np.ix_(range(2), range(2), range(5), range(7))), (2, 2, 5, 7))
    np.testing.assert_array_equal(create_mask(mask, 2, 2, 5, 7).numpy(), grid)


def test_queries_that_see_nothing_give_zeros():
    q, k, v = map(fa.from_numpy, inputs())
    blocks = create_block_mask(lambda b, h, m, n: (m > 2) & (n < 3), None, None, 5, 7)
    out, aux = flex_attention(
        q.requires_grad_(), k, v, block_mask=blocks, return_aux=AuxRequest(lse=True)
    )
    assert (out[:, :, :3] == 0).all() and (aux.lse[:, :, :3] == -math.inf).all()
    assert aux.max_scores is None
    out.sum().backward()
    assert q.grad.isfinite().all()


def test_groups_of_heads():
    q, k, v = inputs(H=4, own=2)
    got = flex_attention(*map(fa.from_numpy, (q, k, v)), enable_gqa=True)
    np.testing.assert_allclose(got.numpy(), oracle(q, k, v)[0])


def test_halves_are_summed_in_float32():
    q, k, v = inputs(dtype=np.float16)
    got = flex_attention(*map(fa.from_numpy, (q, k, v)))
    assert got.dtype == fa.float16
    want = oracle(*(x.astype(np.float64) for x in (q, k, v)))[0]
    np.testing.assert_allclose(got.numpy(), want, rtol=2e-3, atol=2e-3)


def test_blocks():
    mask = create_block_mask(lambda b, h, m, n: m >= n, None, None, 300, 260)
    assert mask.shape == (1, 1, 300, 260) and mask.numel() == 78000
    assert mask.to_dense()[0, 0].tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 3]]]
    assert mask.full_kv_num_blocks.tolist() == [[[0, 1, 0]]]
    assert mask.q_indices[0, 0].tolist() == [[0, 2, 1], [1, 2, 0], [2, 0, 1]]
    assert mask.sparsity() == pytest.approx(100 * (1 - 6 * 128 * 128 / 78000))
    assert "##" in str(mask) and "sparsity" in repr(mask)
    last = mask[:, :, 2]
    assert last.kv_num_blocks.tolist() == [[[3]]]
    small = mask._adjust(256, 256)
    assert small.seq_lengths == (256, 256) and small.to_dense()[0, 0].tolist() == [[1, 0], [1, 1]]
    again = BlockMask(mask.seq_lengths, *mask.as_tuple()[2:10], mask.BLOCK_SIZE, mask.mask_mod)
    assert fa.equal(again.to_dense(), mask.to_dense())


def test_blocks_by_hand():
    counts = fa.tensor([[[1, 2]]], dtype=fa.int32)
    indices = fa.tensor([[[[1, 0], [0, 1]]]], dtype=fa.int32)
    mask = BlockMask.from_kv_blocks(counts, indices, BLOCK_SIZE=2)
    assert mask.elements()[0, 0].to(fa.int64).tolist() == [
        [0, 0, 1, 1],
        [0, 0, 1, 1],
        [1, 1, 1, 1],
        [1, 1, 1, 1],
    ]


def test_masks_together():
    def causal(b, h, m, n):
        return m >= n

    def near(b, h, m, n):
        return m - n < 2

    both = create_mask(flex.and_masks(causal, near), None, None, 4, 4)[0, 0].numpy()
    either = create_mask(flex.or_masks(causal, near), None, None, 4, 4)[0, 0].numpy()
    m, n = np.ix_(range(4), range(4))
    np.testing.assert_array_equal(both, (m >= n) & (m - n < 2))
    np.testing.assert_array_equal(either, np.ones((4, 4), bool))
    assert create_mask(flex.noop_mask, None, None, 2, 2).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"key": fa.ones(2, 1, 7, 4), "value": fa.ones(2, 1, 7, 3)}, "enable_gqa"),
        ({"value": fa.ones(2, 2, 6, 3)}, "one length"),
        ({"query": fa.ones(2, 2, 5, 4, dtype=fa.float64)}, "one dtype"),
        ({"block_mask": create_block_mask(flex.noop_mask, None, None, 9, 7)}, "was created for"),
    ],
)
def test_what_does_not_fit(change, said):
    given = {"query": fa.ones(2, 2, 5, 4), "key": fa.ones(2, 2, 7, 4), "value": fa.ones(2, 2, 7, 3)}
    with pytest.raises(ValueError, match=said):
        flex_attention(**{**given, **change})


def test_triangles_from_either_corner():
    upper, lower = bias.causal_upper_left(2, 4), bias.causal_lower_right(2, 4)
    assert (upper & True).tolist() == np.tril(np.ones((2, 4), bool)).tolist()
    assert (lower & True).tolist() == np.tril(np.ones((2, 4), bool), 2).tolist()
    q = fa.ones(1, 1, 2, 4)
    k = fa.arange(16.0).view(1, 1, 4, 4)
    out = fa.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=lower)
    want = fa.nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=(lower & True))
    assert type(out) is fa.Tensor and fa.equal(out, want)
