"""The functional form of multi-head attention."""

from __future__ import annotations

from typing import Any

import facula
from facula import _C

__all__ = ["multi_head_attention_forward"]

_ops = _C._nn_functional
_NAME = "multi_head_attention_forward"


def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Any, Any]:
    """Multi-head attention (Vaswani et al. 2017), sequence first.

    Args:
        query: (L, N, E) or (L, E); key: (S, N, K) or (S, K); value: (S, N, V) or (S, V).
        key_padding_mask: (N, S) or (S,): True, or -inf, where a key is to be ignored.
        attn_mask: (L, S) or (N * num_heads, L, S): True where attention is forbidden, or a
            floating tensor that is added to the scores.
        is_causal: says that attn_mask is the causal mask; without attn_mask it is an error.

    Returns:
        Output (L, N, E) or (L, E), and the weights (N, L, S) or (L, S), not averaged over the
        heads (N, heads, L, S) if so asked, or None without need_weights.
    """
    batched = query.dim() == 3
    if query.dim() not in (2, 3):
        raise ValueError(f"{_NAME}(): query is {tuple(query.shape)}, expected 2 or 3 dims")
    if key.dim() != query.dim() or value.dim() != query.dim():
        raise ValueError(
            f"{_NAME}(): query is {tuple(query.shape)}, key {tuple(key.shape)}, value "
            f"{tuple(value.shape)}; expected as many dims"
        )
    if is_causal and attn_mask is None:
        raise RuntimeError(f"{_NAME}(): is_causal=True is a hint about attn_mask, which is missing")
    if not batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    length, batch, embed = query.shape
    if embed != embed_dim_to_check:
        raise ValueError(f"{_NAME}(): query has {embed} features, expected {embed_dim_to_check}")
    if num_heads < 1 or embed % num_heads:
        raise ValueError(f"{_NAME}(): {embed} features do not divide by num_heads {num_heads}")
    if tuple(key.shape[:2]) != tuple(value.shape[:2]) or key.shape[1] != batch:
        raise ValueError(
            f"{_NAME}(): key is {tuple(key.shape)}, value is {tuple(value.shape)}, query is "
            f"{tuple(query.shape)}; lengths of key and value, and all batch sizes, must agree"
        )

    if use_separate_proj_weight:
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
    else:
        weights = tuple(in_proj_weight.chunk(3))
    biases = (None,) * 3 if in_proj_bias is None else tuple(in_proj_bias.chunk(3))
    if not use_separate_proj_weight and query is key and key is value:
        q, k, v = _ops.linear(query, in_proj_weight, in_proj_bias).chunk(3, -1)
    else:
        q, k, v = (
            _ops.linear(x, w, b)
            for x, w, b in zip((query, key, value), weights, biases, strict=True)
        )

    extra = 0  # keys that no mask speaks of
    if bias_k is not None and bias_v is not None:
        k = facula.cat([k, bias_k.expand(1, batch, embed)])
        v = facula.cat([v, bias_v.expand(1, batch, embed)])
        extra += 1

    head = embed // num_heads

    def split(x: Any) -> Any:  # (T, N, E) -> (N, heads, T, E / heads)
        return x.reshape(x.shape[0], batch, num_heads, head).permute(1, 2, 0, 3)

    q = split(q)
    k = split(k) if static_k is None else static_k.reshape(batch, num_heads, -1, head)
    v = split(v) if static_v is None else static_v.reshape(batch, num_heads, -1, head)
    if add_zero_attn:
        zeros = facula.zeros(batch, num_heads, 1, head, dtype=k.dtype, device=k.device)
        k, v = facula.cat([k, zeros], 2), facula.cat([v, zeros], 2)
        extra += 1
    source = k.shape[2]

    mask = _merge_masks(
        attn_mask, key_padding_mask, batch, num_heads, length, source - extra, q.dtype
    )
    if mask is not None and extra:
        free = facula.zeros(*mask.shape[:-1], extra, dtype=mask.dtype, device=mask.device)
        mask = facula.cat([mask, free], -1)

    dropout = dropout_p if training else 0.0
    if need_weights:
        scores = facula.matmul(q * head**-0.5, k.transpose(-2, -1))
        if mask is not None:
            scores = scores + mask
        attention = _ops.softmax(scores, -1)
        if dropout > 0.0:
            attention = _ops.dropout(attention, p=dropout)
        mixed = facula.matmul(attention, v)
    else:
        attention = None
        mixed = _ops.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
    output = mixed.permute(2, 0, 1, 3).reshape(length, batch, embed)
    output = _ops.linear(output, out_proj_weight, out_proj_bias)
    if attention is not None and average_attn_weights:
        attention = attention.mean(1)
    if not batched:
        output = output.squeeze(1)
        attention = None if attention is None else attention.squeeze(0)
    return output, attention


def _as_additive(mask: Any, name: str, dtype: Any) -> Any:
    if mask.dtype == facula.bool:
        zeros = facula.zeros(mask.shape, dtype=dtype, device=mask.device)
        return zeros.masked_fill(mask, float("-inf"))
    if not mask.is_floating_point():
        raise TypeError(f"{_NAME}(): {name} is {mask.dtype}, expected bool or a floating dtype")
    return mask.to(dtype)


def _merge_masks(
    attn_mask: Any, padding: Any, batch: int, heads: int, length: int, source: int, dtype: Any
) -> Any:
    """One additive mask that broadcasts to (N, heads, L, S), or None."""
    merged = None
    if attn_mask is not None:
        shapes = [(length, source), (batch * heads, length, source)]
        if tuple(attn_mask.shape) not in shapes:
            raise RuntimeError(
                f"{_NAME}(): attn_mask is {tuple(attn_mask.shape)}, expected {shapes[0]} or "
                f"{shapes[1]}"
            )
        merged = _as_additive(attn_mask, "attn_mask", dtype)
        if merged.dim() == 2:
            merged = merged.reshape(1, 1, length, source)
        else:
            merged = merged.reshape(batch, heads, length, source)
    if padding is not None:
        if tuple(padding.shape) != (batch, source):
            raise RuntimeError(
                f"{_NAME}(): key_padding_mask is {tuple(padding.shape)}, expected {(batch, source)}"
            )
        padded = _as_additive(padding, "key_padding_mask", dtype).reshape(batch, 1, 1, source)
        merged = padded if merged is None else merged + padded
    return merged
