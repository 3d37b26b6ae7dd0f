"""Masks of attention by blocks: which blocks of queries and keys have an element at all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import facula

__all__ = ["BlockMask", "and_masks", "create_block_mask", "create_mask", "noop_mask", "or_masks"]

_SIZE = 128  # rows and columns of a block


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """A mask that lets every query see every key."""
    return batch.new_ones(size=(), dtype=facula.bool)


def _joined(mask_mods: tuple[Callable[..., Any], ...], how: str) -> Callable[..., Any]:
    if not all(callable(m) for m in mask_mods):
        raise RuntimeError(f"{how}_masks(): all arguments must be functions, not {mask_mods}")

    def mask(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        found = b.new_full((), how == "and", dtype=facula.bool)
        for m in mask_mods:
            found = (
                found & m(b, h, q_idx, kv_idx) if how == "and" else found | m(b, h, q_idx, kv_idx)
            )
        return found

    return mask


def and_masks(*mask_mods: Callable[..., Any]) -> Callable[..., Any]:
    """A mask of what all of several masks let through."""
    return _joined(mask_mods, "and")


def or_masks(*mask_mods: Callable[..., Any]) -> Callable[..., Any]:
    """A mask of what any of several masks lets through."""
    return _joined(mask_mods, "or")


def over_places(function: Callable[..., Any], first: bool = False) -> Callable[..., Any]:
    """A function of one place, (batch, head, query, key), as one of all; with `first`, a function
    of a score too, which comes first."""
    before = (0,) if first else ()
    none = (None,) if first else ()
    for dims in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None)):
        function = facula.vmap(function, in_dims=before + dims)
    return facula.vmap(function, in_dims=(before or none) + (0, None, None, None))


def places(B: int, H: int, M: int, N: int, device: Any) -> tuple[Any, ...]:
    """The numbers of batches, heads, queries and keys."""
    return tuple(facula.arange(n, device=device) for n in (B, H, M, N))


def create_mask(
    mod_fn: Callable[..., Any],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
) -> Any:
    """The elements of a mask, bool (B, H, Q_LEN, KV_LEN).

    Args:
        mod_fn: (batch, head, q_idx, kv_idx) -> is it seen; or (score, batch, head, q_idx, kv_idx)
            -> score, which is -inf where it is not.
        B: batches; None for one that serves all.
        H: heads; None for one that serves all.
        Q_LEN: queries.
        KV_LEN: keys.
        device: of the mask; the CPU, or the default device.
    """
    import inspect

    size = (B or 1, H or 1, Q_LEN, KV_LEN)
    where = places(*size, device)
    takes = sum(
        p.default is p.empty and p.kind is not p.VAR_POSITIONAL
        for p in inspect.signature(mod_fn).parameters.values()
    )
    with facula.no_grad():
        if takes == 5:
            scores = facula.zeros(size, device=device)
            return over_places(mod_fn, True)(scores, *where) != -math.inf
        mask = over_places(mod_fn)(*where)
    return mask.to(facula.bool).expand(size)


def _ordered(blocks: Any) -> tuple[Any, Any]:
    """How many blocks each row has, and their columns first among all."""
    as_int = blocks.to(facula.int32)
    order = facula.argsort(as_int, dim=-1, descending=True, stable=True)
    return as_int.sum(-1).to(facula.int32), order.to(facula.int32).contiguous()


def _dense(counts: Any, indices: Any) -> Any:
    """Blocks as 0 and 1, of their numbers and columns."""
    columns = indices.size(-1)
    listed = facula.arange(columns, device=counts.device) < counts.unsqueeze(-1)
    found = facula.zeros(*indices.shape, dtype=facula.int32, device=counts.device)
    return found.scatter(-1, indices.long(), listed.to(facula.int32))


class BlockMask:
    """Which blocks of keys each block of queries sees, in part or whole, and the mask within.

    Attributes:
        kv_num_blocks: int32 (B, H, rows), how many blocks of a row are seen in part.
        kv_indices: int32 (B, H, rows, columns), their columns first.
        full_kv_num_blocks: of those that are seen whole, or None.
        full_kv_indices: their columns, or None.
        q_num_blocks, q_indices, full_q_num_blocks, full_q_indices: the same by columns.
        BLOCK_SIZE: queries and keys in a block.
        mask_mod: (batch, head, q_idx, kv_idx) -> is it seen, within blocks seen in part.
        seq_lengths: queries and keys.
    """

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Any,
        kv_indices: Any,
        full_kv_num_blocks: Any,
        full_kv_indices: Any,
        q_num_blocks: Any,
        q_indices: Any,
        full_q_num_blocks: Any,
        full_q_indices: Any,
        BLOCK_SIZE: tuple[int, int],
        mask_mod: Callable[..., Any],
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask: kv_indices must have at least 2 dims")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices go together")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE, self.mask_mod = BLOCK_SIZE, mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Any,
        kv_indices: Any,
        full_kv_num_blocks: Any = None,
        full_kv_indices: Any = None,
        BLOCK_SIZE: int | tuple[int, int] = _SIZE,
        mask_mod: Callable[..., Any] | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """A mask of the blocks that each row of blocks sees; those by columns follow.

        Raises:
            RuntimeError: kv_indices has fewer than 2 dims.
        """
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
        columns: list[Any] = [None] * 4
        if compute_q_blocks:
            columns[:2] = _ordered(_dense(kv_num_blocks, kv_indices).transpose(-2, -1))
            if full_kv_num_blocks is not None:
                whole = _dense(full_kv_num_blocks, full_kv_indices)
                columns[2:] = _ordered(whole.transpose(-2, -1))
        if seq_lengths is None:
            seq_lengths = (kv_indices.size(-2) * size[0], kv_indices.size(-1) * size[1])
        return cls(
            seq_lengths,
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            *columns,
            size,
            mask_mod or noop_mask,
        )

    _TENSORS = (
        "kv_num_blocks kv_indices full_kv_num_blocks full_kv_indices q_num_blocks q_indices"
        " full_q_num_blocks full_q_indices"
    ).split()

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """Its parts, as the constructor takes them; lengths and sizes as numbers of their own."""
        tensors = [getattr(self, name) for name in self._TENSORS]
        lengths: Any = self.seq_lengths if flatten else (self.seq_lengths,)
        sizes: Any = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        return (*lengths, *tensors, *sizes, self.mask_mod)

    def _with(self, change: Callable[[Any], Any]) -> BlockMask:
        parts = [getattr(self, name) for name in self._TENSORS]
        changed = [None if t is None else change(t) for t in parts]
        return BlockMask(self.seq_lengths, *changed, self.BLOCK_SIZE, self.mask_mod)

    def to(self, device: Any) -> BlockMask:
        """The mask with its blocks on a device."""
        return self._with(lambda t: t.to(device))

    def __getitem__(self, index: Any) -> BlockMask:
        """The mask of some batches, heads or rows of blocks; `mask_mod` stays what it is."""
        index = index if isinstance(index, tuple) else (index,)
        kept = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in index)
        kv = [
            None if t is None else t[kept]
            for t in (
                self.kv_num_blocks,
                self.kv_indices,
                self.full_kv_num_blocks,
                self.full_kv_indices,
            )
        ]
        rows = kv[1].size(-2)
        same = rows == self.kv_indices.size(-2)
        length = self.seq_lengths[0] if same else rows * self.BLOCK_SIZE[0]
        return BlockMask.from_kv_blocks(
            *kv,
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=self.mask_mod,
            seq_lengths=(length, self.seq_lengths[1]),
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """(B, H, queries, keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """How many elements the mask has."""
        return math.prod(self.shape)

    def to_dense(self) -> Any:
        """int32 (B, H, rows, columns): 1 for blocks that are seen, in part or whole."""
        partial = _dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is None:
            return partial
        return partial | _dense(self.full_kv_num_blocks, self.full_kv_indices)

    def sparsity(self) -> float:
        """Which part, in percent, of the elements lies in blocks that are not computed."""
        seen = int(self.kv_num_blocks.sum())
        if self.full_kv_num_blocks is not None:
            seen += int(self.full_kv_num_blocks.sum())
        return 100 * (1 - seen * math.prod(self.BLOCK_SIZE) / self.numel())

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The upper left part of the mask, or the mask with blocks more that are not seen."""
        rows = math.ceil(new_q_len / self.BLOCK_SIZE[0])
        columns = math.ceil(new_kv_len / self.BLOCK_SIZE[1])

        def part(counts: Any, indices: Any) -> tuple[Any, Any]:
            if counts is None:
                return None, None
            blocks = _dense(counts, indices)
            more = (max(0, columns - blocks.size(-1)), max(0, rows - blocks.size(-2)))
            padded = facula.nn.functional.pad(blocks, (0, more[0], 0, more[1]))
            return _ordered(padded[..., :rows, :columns])

        partial = part(self.kv_num_blocks, self.kv_indices)
        whole = part(self.full_kv_num_blocks, self.full_kv_indices)
        return BlockMask.from_kv_blocks(
            *partial,
            *whole,
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=self.mask_mod,
            seq_lengths=(new_q_len, new_kv_len),
        )

    def elements(self) -> Any:
        """bool (B, H, queries, keys): what `mask_mod` and the blocks let through."""
        Q, KV = self.seq_lengths
        B, H = self.kv_indices.shape[:2] if self.kv_indices.dim() == 4 else (1, 1)
        mask = create_mask(self.mask_mod, B, H, Q, KV, self.kv_indices.device)
        mask = mask & self._spread(_dense(self.kv_num_blocks, self.kv_indices))
        if self.full_kv_num_blocks is not None:
            mask = mask | self._spread(_dense(self.full_kv_num_blocks, self.full_kv_indices))
        return mask

    def _spread(self, blocks: Any) -> Any:
        wide = blocks.repeat_interleave(self.BLOCK_SIZE[0], -2)
        wide = wide.repeat_interleave(self.BLOCK_SIZE[1], -1)
        return wide[..., : self.seq_lengths[0], : self.seq_lengths[1]].to(facula.bool)

    def to_string(self, grid_size: tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """Its blocks as a picture, of the first batches and heads."""
        blocks = self.to_dense()
        blocks = blocks.reshape(-1, *blocks.shape[-2:])[:limit]
        lines = []
        for picture in blocks.tolist():
            step = max(1, math.ceil(len(picture) / grid_size[0]))
            across = max(1, math.ceil(len(picture[0]) / grid_size[1]))
            lines += [
                "".join("##"[: 2 * b] or "  " for b in row[::across]) for row in picture[::step]
            ]
            lines.append("")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"

    def __str__(self) -> str:
        return (
            f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%,\n{self.to_string()})"
        )


def create_block_mask(
    mask_mod: Callable[..., Any],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _SIZE,
    _compile: bool = False,
) -> BlockMask:
    """The blocks of a mask.

    Args:
        mask_mod: (batch, head, q_idx, kv_idx) -> is it seen; each a tensor of one number.
        B: batches; None where the mask is the same for all.
        H: heads; None where the mask is the same for all.
        Q_LEN: queries.
        KV_LEN: keys.
        device: of the mask.
        BLOCK_SIZE: queries and keys in a block.

    >>> from facula.nn.attention.flex_attention import create_block_mask
    >>> create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256).to_dense()
    tensor([[[[1, 0],
              [1, 1]]]], dtype=facula.int32)
    """
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    rows, columns = (math.ceil(n / s) for n, s in zip((Q_LEN, KV_LEN), size, strict=True))
    more = (0, columns * size[1] - KV_LEN, 0, rows * size[0] - Q_LEN)
    padded = facula.nn.functional.pad(mask.to(facula.int32), more)
    counts = padded.view(*mask.shape[:2], rows, size[0], columns, size[1]).sum((-3, -1))
    whole = counts == size[0] * size[1]
    partial = (counts > 0) & ~whole
    return BlockMask.from_kv_blocks(
        *_ordered(partial),
        *_ordered(whole),
        BLOCK_SIZE=size,
        mask_mod=mask_mod,
        seq_lengths=(Q_LEN, KV_LEN),
    )
