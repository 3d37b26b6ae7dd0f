"""Attention whose scores a function changes: positions, slopes, masks of any form.

It is a composition, with gradients of any order, of all scores at once: memory grows with queries
times keys, whatever blocks a mask has.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

import facula
from facula.nn.attention._block_mask import (
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    noop_mask,
    or_masks,
    over_places,
    places,
)

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

_DEFAULT_SPARSE_BLOCK_SIZE = 128


class FlexKernelOptions(TypedDict, total=False):
    """Settings of kernels of torch's, of which there are none: they are not looked at."""

    BACKEND: str
    num_warps: int
    num_stages: int
    BLOCK_M: int
    BLOCK_N: int
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    WRITE_DQ: bool
    FORCE_USE_FLEX_ATTENTION: bool


class AuxRequest(NamedTuple):
    """What else is asked for."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What else was asked for: (B, heads, queries) each, or None."""

    lse: Any = None
    max_scores: Any = None


def _identity(score: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    return score


def flex_attention(
    query: Any,
    key: Any,
    value: Any,
    score_mod: Callable[..., Any] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """softmax(score_mod(query @ key.mT * scale)) @ value.

    Args:
        query: (B, heads, queries, E).
        key: (B, heads, keys, E); B may be 1.
        value: (B, heads, keys, V).
        score_mod: (score, batch, head, q_idx, kv_idx) -> score, of one score and one place; tensors
            that it uses have gradients too.
        block_mask: what each query sees, of `create_block_mask`; None for all keys. A query that
            sees none gives zeros.
        scale: 1 / sqrt(E) by default.
        enable_gqa: key and value may have fewer heads, each for a group of the query's.
        return_lse: give the logarithms of the sums of exponentials, (B, heads, queries), too.
        kernel_options: not looked at.
        return_aux: what else to give, in an `AuxOutput`.

    Returns:
        (B, heads, queries, V) of query's dtype; with return_lse or return_aux, that and the rest.

    Raises:
        ValueError: shapes, heads or the mask's lengths do not fit.

    >>> import facula
    >>> from facula.nn.attention.flex_attention import flex_attention
    >>> x = facula.eye(2).view(1, 1, 2, 2)
    >>> first = lambda score, b, h, q, k: facula.where(k == 0, score, -float("inf"))
    >>> flex_attention(x, x, x, first)
    tensor([[[[1., 0.],
              [1., 0.]]]])
    """
    _check(query, key, value, enable_gqa, block_mask)
    B, H, M, E = query.shape
    groups = H // key.size(1)
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    factor = 1 / math.sqrt(E) if scale is None else scale
    wide = query.dtype if query.dtype == facula.float64 else facula.float32
    scores = (query.to(wide) @ key.to(wide).transpose(-2, -1)) * factor
    if score_mod is not None and score_mod is not _identity:
        where = places(B, H, M, key.size(2), query.device)
        scores = over_places(score_mod, True)(scores, *where).to(wide)
    if block_mask is not None:
        scores = scores.masked_fill(~block_mask.elements(), -math.inf)
    most = scores.detach().amax(-1, keepdim=True) if scores.size(-1) else scores.sum(-1, True)
    weights = (scores - most.masked_fill(most == -math.inf, 0)).exp()
    total = weights.sum(-1, keepdim=True)
    none = total == 0
    out = (weights / total.masked_fill(none, 1)) @ value.to(wide)
    out = out.to(query.dtype)
    if not return_lse and return_aux is None:
        return out
    lse = facula.where(none, -math.inf, total.masked_fill(none, 1).log() + most).squeeze(-1)
    if return_aux is None:
        return out, lse
    return out, AuxOutput(
        lse if return_aux.lse else None, most.squeeze(-1) if return_aux.max_scores else None
    )


def _check(query: Any, key: Any, value: Any, gqa: bool, mask: BlockMask | None) -> None:
    for name, t in (("query", query), ("key", key), ("value", value)):
        if t.dim() != 4:
            raise NotImplementedError(
                f"flex_attention(): {name} is {tuple(t.shape)}, expected (B, heads, length, E)"
            )
    if not query.dtype == key.dtype == value.dtype:
        raise ValueError(
            f"flex_attention(): query is {query.dtype}, key {key.dtype}, value {value.dtype}; "
            f"expected one dtype"
        )
    if key.shape[:3] != value.shape[:3] or query.size(-1) != key.size(-1):
        raise ValueError(
            f"flex_attention(): query is {tuple(query.shape)}, key {tuple(key.shape)}, value "
            f"{tuple(value.shape)}; key and value have one length, query and key one E"
        )
    if query.size(0) != key.size(0) and key.size(0) != 1:
        raise ValueError(
            f"flex_attention(): query has {query.size(0)} batches, key {key.size(0)}; expected the "
            f"same, or 1 of key"
        )
    heads, own = query.size(1), key.size(1)
    if heads != own and not gqa:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and "
            f"Hkv={own}. Try setting enable_gqa=True for GQA."
        )
    if heads % own:
        raise ValueError(f"flex_attention(): {heads} heads of query are no groups of {own}")
    if mask is not None and tuple(mask.seq_lengths) != (query.size(2), key.size(2)):
        raise ValueError(
            f"block_mask was created for block_mask.shape={mask.shape} but got "
            f"q_len={query.size(2)} and kv_len={key.size(2)}; create a mask of these lengths, or "
            f"take block_mask._adjust(q_len, kv_len)"
        )
