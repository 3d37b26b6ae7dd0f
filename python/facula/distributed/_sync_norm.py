"""Means and variances of batch norm over the processes of a group."""

from __future__ import annotations

from typing import Any

import facula
from facula import Tensor
from facula.distributed import _group
from facula.distributed.nn.functional import all_reduce
from facula.nn.modules.batchnorm import SyncBatchNorm


def statistics(input: Tensor, group: Any) -> tuple[Tensor, Tensor, float] | None:
    """Mean and biased variance of each channel over all processes, and of how many values."""
    if not _group.is_initialized():
        return None
    chosen = _group.resolved("SyncBatchNorm", group)
    if chosen is None or chosen.size() == 1:
        return None
    dims = [d for d in range(input.dim()) if d != 1]
    wide = input.to(facula.float32) if input.element_size() < 4 else input
    channels = input.size(1)
    mine = input.numel() // max(channels, 1)
    # The count goes with the sums, in one message.
    sums = facula.cat([wide.sum(dims), wide.new_full((1,), mine)])
    total = all_reduce(sums, group=chosen)
    count = float(total[channels].item())
    if count < 2:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got {count:g} over all"
            " processes"
        )
    mean = total[:channels] / count
    shape = [1, -1] + [1] * (input.dim() - 2)
    squares = (wide - mean.view(shape)).square().sum(dims)
    return mean, all_reduce(squares, group=chosen) / count, count


SyncBatchNorm._statistics = staticmethod(statistics)
