"""Masks of attention by name: the lower triangle from either corner."""

from __future__ import annotations

import enum
from typing import Any

import facula

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """Which corner the triangle goes from where there are not as many queries as keys."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(facula.Tensor):
    """A mask for `scaled_dot_product_attention`, bool (queries, keys): True where it is seen."""

    @staticmethod
    def __new__(
        cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int, device: Any = None
    ) -> CausalBias:
        if not isinstance(variant, CausalVariant):
            raise TypeError(f"CausalBias(): variant is {variant!r}, no CausalVariant")
        shift = seq_len_kv - seq_len_q if variant == CausalVariant.LOWER_RIGHT else 0
        mask = facula.ones(seq_len_q, seq_len_kv, dtype=facula.bool, device=device).tril(shift)
        made = mask.as_subclass(cls)
        made.variant, made.seq_len_q, made.seq_len_kv = variant, seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant == CausalVariant.LOWER_RIGHT:
            import warnings

            warnings.warn(
                "Lower right causal bias will produce NaNs in the output when seq_len_q > "
                "seq_len_kv!",
                stacklevel=3,
            )
        return made  # type: ignore[no-any-return]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Results of functions are plain tensors."""
        plain = [a.as_subclass(facula.Tensor) if isinstance(a, cls) else a for a in args]
        named = {
            k: v.as_subclass(facula.Tensor) if isinstance(v, cls) else v
            for k, v in (kwargs or {}).items()
        }
        with facula.overrides.DisableTorchFunctionSubclass():
            return func(*plain, **named)

    def _materialize(self, device: Any = None) -> Any:
        return self.as_subclass(facula.Tensor).to(device or self.device)


def causal_upper_left(*size: int) -> CausalBias:
    """The lower triangle from the upper left corner: query i sees keys up to i."""
    if len(size) != 2:
        raise ValueError(f"causal_upper_left(): expected (queries, keys), got {size}")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size: int) -> CausalBias:
    """The lower triangle to the lower right corner: the last query sees all keys."""
    if len(size) != 2:
        raise ValueError(f"causal_lower_right(): expected (queries, keys), got {size}")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
