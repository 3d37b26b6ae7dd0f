"""Connectionist temporal classification (Graves et al. 2006)."""

from __future__ import annotations

from typing import Any

import facula
from facula import _C

__all__ = ["ctc_loss"]


def _lengths(name: str, given: Any, batch: int, most: int) -> list[int]:
    found = given.tolist() if isinstance(given, facula.Tensor) else given
    lengths = [found] if isinstance(found, int) else [int(n) for n in found]
    if len(lengths) != batch:
        raise RuntimeError(
            f"ctc_loss(): {name} must be of size batch_size {batch}, not {len(lengths)}"
        )
    for n in lengths:
        if n < 0:
            raise RuntimeError(f"ctc_loss(): {name} must not be negative, one is {n}")
        if n > most:
            raise RuntimeError(f"ctc_loss(): {name} must be at most {most}, one is {n}")
    return lengths


def _padded(targets: Any, lengths: list[int], blank: int) -> Any:
    """Targets as (batch, longest), from a batch of rows or one after the other."""
    longest = max(lengths, default=0)
    if targets.dim() == 2:
        if targets.shape[0] != len(lengths) or targets.shape[1] < longest:
            raise RuntimeError(
                f"ctc_loss(): targets are {tuple(targets.shape)}; for {len(lengths)} rows of up to "
                f"{longest} they must be at least ({len(lengths)}, {longest})"
            )
        # What lies beyond a row's length may be anything.
        places = facula.arange(longest, device=targets.device)
        ends = facula.tensor(lengths, device=targets.device).reshape(-1, 1)
        return facula.where(places < ends, targets[:, :longest], blank)
    if targets.dim() != 1 or targets.shape[0] < sum(lengths):
        raise RuntimeError(
            f"ctc_loss(): targets are {tuple(targets.shape)}; they must be (batch, length), or "
            f"({sum(lengths)},), one row after the other"
        )
    rows, start = [], 0
    for n in lengths:
        row = targets[start : start + n]
        rows.append(facula.constant_pad_nd(row, [0, longest - n], blank))
        start += n
    return facula.stack(rows) if rows else targets.reshape(0, 0)


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """Minus the log-probability that a sequence of labels is read off, all alignments together.

    Args:
        log_probs: (T, N, C) or (T, C), logarithms of probabilities.
        targets: (N, S) or one row after the other, integers from 0 to C - 1 without `blank`.
        input_lengths: (N,), how many of the T steps each sequence has.
        target_lengths: (N,), how many labels it has.
        blank: the label of no label.
        reduction: "none", "sum", or "mean", of losses divided by the lengths of targets.
        zero_infinity: losses of targets that fit no alignment are 0, with no gradient.

    Returns:
        (N,) or a number. Gradients are those by `log_probs` itself: minus the probabilities with
        which labels are used.

    Raises:
        RuntimeError: shapes or lengths do not fit, or the dtype is not a floating-point one.
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if log_probs.dim() not in (2, 3) or not log_probs.is_floating_point():
        raise RuntimeError(
            f"ctc_loss(): log_probs must be floats of (T, N, C) or (T, C), "
            f"not {tuple(log_probs.shape)} of {log_probs.dtype}"
        )
    if targets.is_floating_point() or targets.dtype == facula.bool:
        raise RuntimeError(f"ctc_loss(): targets must be integers, not {targets.dtype}")
    batched = log_probs.dim() == 3
    probs = log_probs if batched else log_probs.unsqueeze(1)
    steps, batch, classes = probs.shape
    if not 0 <= blank < classes:
        raise RuntimeError(
            f"ctc_loss(): blank must be in label range 0 to {classes - 1}, not {blank}"
        )
    inputs = _lengths("input_lengths", input_lengths, batch, steps)
    outputs = _lengths("target_lengths", target_lengths, batch, 1 << 40)
    if not batched and targets.dim() == 0:
        targets = targets.reshape(1)
    labels = _padded(targets, outputs, blank).to(facula.int64)
    half = probs.dtype in (facula.float16, facula.bfloat16)
    lengths = [facula.tensor(n, dtype=facula.int64, device=probs.device) for n in (inputs, outputs)]
    losses = _C._ops._ctc_loss(probs.float() if half else probs, labels, *lengths, blank)[0]
    losses = losses.to(log_probs.dtype)
    if zero_infinity:
        losses = facula.where(losses == facula.inf, 0, losses)
    if reduction == "mean":
        sizes = facula.tensor(
            [max(n, 1) for n in outputs], dtype=losses.dtype, device=losses.device
        )
        return (losses / sizes).mean()
    if reduction == "sum":
        return losses.sum()
    return losses if batched else losses[0]
