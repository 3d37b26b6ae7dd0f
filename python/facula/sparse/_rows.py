"""Rows of a table whose gradient has those rows alone."""

from __future__ import annotations

from typing import Any

import facula
from facula.autograd.function import Function
from facula.sparse._tensor import COO, build

__all__ = ["rows_of"]


class _Rows(Function):
    @staticmethod
    def forward(ctx: Any, weight: Any, index: Any, padding_idx: int) -> Any:
        ctx.save_for_backward(index)
        ctx.size, ctx.padding_idx = tuple(weight.shape), padding_idx
        return facula.embedding(weight, index, padding_idx)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (index,) = ctx.saved_tensors
        place = index.reshape(1, -1).to(facula.int64)
        values = grad.reshape(place.shape[1], ctx.size[1])
        if ctx.padding_idx >= 0:
            kept = facula.nonzero(place[0] != ctx.padding_idx).reshape(-1)
            place, values = place.index_select(1, kept), values.index_select(0, kept)
        return build(ctx.size, COO, values, (place,)), None, None


def rows_of(weight: Any, index: Any, padding_idx: int) -> Any:
    """`embedding`; the gradient of weight is sparse, without row `padding_idx` unless it is -1."""
    return _Rows.apply(weight, index, padding_idx)
