"""Connectionist temporal classification (Graves et al. 2006)."""

from __future__ import annotations

from typing import Any

import facula

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
    losses = _losses(probs.float() if half else probs, labels, inputs, outputs, blank)
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


def _losses(probs: Any, labels: Any, inputs: list[int], outputs: list[int], blank: int) -> Any:
    """For each row minus the logarithm of the forward variable at the end (equations 5 to 8)."""
    steps, batch, _ = probs.shape
    device = probs.device
    # Blanks before, between and after the labels.
    path = facula.full((batch, 2 * labels.shape[1] + 1), blank, dtype=facula.int64, device=device)
    path[:, 1::2] = labels
    width = path.shape[1]
    scores = probs.gather(2, path.unsqueeze(0).expand(steps, batch, width))
    never = facula.full((batch, width), -facula.inf, dtype=probs.dtype, device=device)
    # From two places before only to a label that differs from the one there.
    differs = facula.zeros(batch, width, dtype=facula.bool, device=device)
    differs[:, 2:] = (path[:, 2:] != path[:, :-2]) & (path[:, 2:] != blank)
    first = facula.arange(width, device=device) < 2
    count = facula.tensor(inputs, device=device).unsqueeze(1)
    ends = facula.tensor(outputs, device=device).unsqueeze(1) * 2
    alpha = facula.where(first & (count > 0), scores[0] if steps else never, never)
    if min(inputs, default=1) == 0:  # no step reads off nothing
        alpha = facula.where((count == 0) & (facula.arange(width, device=device) == 0), 0, alpha)
    for t in range(1, steps):
        one = facula.cat([never[:, :1], alpha[:, :-1]], 1)
        reached = facula.logaddexp(alpha, one)
        if width > 2:
            two = facula.cat([never[:, :2], alpha[:, :-2]], 1)
            reached = facula.logaddexp(reached, facula.where(differs, two, never))
        alpha = facula.where(count > t, reached + scores[t], alpha)
    last = alpha.gather(1, ends).squeeze(1)
    before = alpha.gather(1, (ends - 1).clamp(min=0)).squeeze(1)
    before = facula.where(ends.squeeze(1) > 0, before, -facula.inf)
    return -facula.logaddexp(last, before)
