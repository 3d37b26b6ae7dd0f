"""Lookups in a table: single rows, and bags of rows reduced to one."""

from __future__ import annotations

from typing import Any

import facula

__all__ = ["embedding", "embedding_bag"]

# Elements of rows that a bag looks up at a time, where that is more than the tables themselves.
_MANY = 1 << 22


def _row(padding_idx: int | None, rows: int, name: str) -> int | None:
    """`padding_idx` counted from the start."""
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise ValueError(f"{name}(): padding_idx {padding_idx} is not a row of {rows}")
    return padding_idx % rows


def embedding_renorm_(input: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """Scale the rows that `indices` name down to the norm `max_norm`, in place."""
    with facula.no_grad():
        taken = facula.unique(indices)
        input[taken] = facula.renorm(input[taken], norm_type, 0, max_norm)
    return input


def _shorten(weight: Any, index: Any, max_norm: float | None, norm_type: float) -> None:
    if max_norm is not None:
        embedding_renorm_(weight, index, max_norm, norm_type)


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Rows of weight (num_embeddings, dim) at integer indices: (*) to (*, dim).

    Args:
        padding_idx: row that gets no gradient; counted from the end when negative.
        max_norm: rows that are looked up are first scaled, in place, to at most this norm.
        norm_type: p of that norm.
        scale_grad_by_freq: divide a row's gradient by how often it occurs in `input`.
        sparse: weight gets a gradient of layout sparse_coo, of the rows looked up alone, which
            `scale_grad_by_freq` does not go with. Its optimizers are SGD, Adagrad and SparseAdam.
    """
    if sparse and scale_grad_by_freq:
        raise RuntimeError("embedding(): sparse=True does not go with scale_grad_by_freq=True")
    padding_idx = _row(padding_idx, weight.shape[0], "embedding")
    _shorten(weight, input, max_norm, norm_type)
    last = -1 if padding_idx is None else padding_idx
    if sparse and weight.requires_grad and facula.is_grad_enabled():
        from facula.sparse._rows import rows_of

        return rows_of(weight, input, last)
    return facula.embedding(weight, input, last, scale_grad_by_freq)


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """The sum, mean or largest elements of the rows in each bag of indices: (bags, dim).

    Args:
        input: integer indices, (bags, n); or (total,) with `offsets`.
        weight: (num_embeddings, dim).
        offsets: where each bag starts in a 1-d `input`; the first at 0.
        mode: "sum", "mean" or "max". A bag without rows gives zeros.
        per_sample_weights: of input's shape; factors of the rows, for the mode "sum".
        include_last_offset: `offsets` has one more entry, the end of the last bag.
        padding_idx: row that does not count and gets no gradient.
        max_norm, norm_type, scale_grad_by_freq, sparse: as for `embedding`.
    """
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag(): mode is {mode!r}, expected 'sum', 'mean' or 'max'")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            f"embedding_bag(): per_sample_weights goes with mode 'sum', not {mode!r}"
        )
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ValueError(
            f"embedding_bag(): per_sample_weights is {tuple(per_sample_weights.shape)}, "
            f"input {tuple(input.shape)}; expected the same shape"
        )
    count, bags = _bags(input, offsets, include_last_offset)
    index = input.reshape(-1)
    factors = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    padding_idx = _row(padding_idx, weight.shape[0], "embedding_bag")
    if padding_idx is not None:
        counted = index != padding_idx
        index, bags = index[counted], bags[counted]
        factors = None if factors is None else factors[counted]
    _shorten(weight, index, max_norm, norm_type)
    width = weight.shape[1]
    most = max(_MANY, weight.numel(), count * width)  # of what is there anyway
    if len(index) * width > most and not (scale_grad_by_freq or sparse):
        if mode != "max":
            step = max(1, most // width)
            return _summed(index, weight, bags, count, factors, mode == "mean", step)
        # What occurs twice in a bag is no larger.
        pairs = facula.unique(bags * len(weight) + index)
        index, bags = pairs % len(weight), pairs // len(weight)
    rows = embedding(index, weight, None, None, norm_type, scale_grad_by_freq, sparse)
    if factors is not None:
        rows = rows * factors.unsqueeze(1)
    if mode == "mean" and input.dim() == 2 and padding_idx is None and input.shape[1] > 0:
        return rows.reshape(count, input.shape[1], weight.shape[1]).mean(1)
    zeros = facula.zeros(count, weight.shape[1], dtype=weight.dtype, device=weight.device)
    if mode != "max":
        total = zeros.index_add(0, bags, rows)
        if mode == "sum":
            return total
        mean = total / facula.bincount(bags, minlength=count).clamp_min(1).unsqueeze(1)
        # A sum may leave the range though the mean does not; that one is slower.
        if bool(mean.detach().isfinite().all()):
            return mean
    places = bags.unsqueeze(1).expand_as(rows)
    if mode == "max":
        return _largest(rows, places, zeros)
    return zeros.scatter_reduce(0, places, rows, "mean", include_self=False)


def _largest(rows: Any, places: Any, zeros: Any) -> Any:
    """The largest number of each bag and column, of equals the first one; NaN is above all."""
    if rows.shape[0] == 0:
        return zeros + rows.sum()
    with facula.no_grad():
        most = zeros.scatter_reduce(0, places, rows, "amax", include_self=False).gather(0, places)
        there = (rows == most) | (rows.isnan() & most.isnan())
        numbers = facula.arange(len(rows), device=rows.device).unsqueeze(1)
        numbers = facula.where(there, numbers, len(rows))
        none = facula.full(zeros.shape, len(rows), dtype=facula.int64, device=rows.device)
        first = none.scatter_reduce(0, places, numbers, "amin")
    found = rows.gather(0, first.clamp(max=len(rows) - 1))
    return facula.where(first < len(rows), found, zeros)


def _summed(
    index: Any, weight: Any, bags: Any, count: int, factors: Any, mean: bool, step: int
) -> Any:
    """Sums or means of the rows in each bag, of which `step` are looked up at a time."""
    if mean:
        # of numbers divided before, so that no sum leaves the range
        factors = facula.bincount(bags, minlength=count).to(weight.dtype).reciprocal()[bags]
    total: Any = 0
    for start in range(0, len(index), step):
        part = slice(start, start + step)
        rows = facula.embedding(weight, index[part], -1, False)
        if factors is not None:
            rows = rows * factors[part].unsqueeze(1)
        zeros = facula.zeros(count, weight.shape[1], dtype=rows.dtype, device=rows.device)
        total = total + zeros.index_add(0, bags[part], rows)
    return total


def _bags(input: Any, offsets: Any, include_last_offset: bool) -> tuple[int, Any]:
    """The number of bags, and the bag of each index."""
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError("embedding_bag(): offsets goes with a 1-d input, this one is 2-d")
        numbers = facula.arange(len(input), device=input.device)
        return len(input), numbers.repeat_interleave(input.shape[1])
    if input.dim() != 1 or offsets is None or offsets.dim() != 1:
        raise ValueError(
            f"embedding_bag(): input is {tuple(input.shape)}, expected (bags, n), or (total,) "
            "with 1-d offsets"
        )
    if include_last_offset:
        starts, ends = offsets[:-1], offsets[1:]
    else:
        end = facula.tensor([len(input)], dtype=offsets.dtype, device=offsets.device)
        starts, ends = offsets, facula.cat([offsets[1:], end])
    inside = len(starts) == 0 or (int(ends.min()) >= 0 and int(ends.max()) <= len(input))
    lengths = ends - starts
    if not inside or (len(starts) and (int(starts[0]) != 0 or int(lengths.min()) < 0)):
        raise ValueError(
            f"embedding_bag(): offsets must begin with 0 and not fall, nor pass the {len(input)} "
            f"indices of input, got {offsets.tolist()}"
        )
    numbers = facula.arange(len(starts), device=input.device)
    bags = numbers.repeat_interleave(lengths)
    if len(bags) != len(input):
        raise ValueError(
            f"embedding_bag(): the bags of offsets hold {len(bags)} indices, input has {len(input)}"
        )
    return len(starts), bags
