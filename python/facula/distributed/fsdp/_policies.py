"""What `fully_shard` is told about dtypes and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["CPUOffloadPolicy", "MixedPrecisionPolicy", "OffloadPolicy"]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Which dtypes are computed with, and sent.

    Args:
        param_dtype: of the whole parameters in forward and backward; shards, which the optimizer
            sees, keep theirs. None: the same.
        reduce_dtype: in which gradients are averaged; None: that of the gradients.
        output_dtype: of what forward gives; None: as it is.
        cast_forward_inputs: floating inputs of forward become param_dtype.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass(frozen=True)
class OffloadPolicy:
    """Shards stay on the device that computes."""


@dataclass(frozen=True)
class CPUOffloadPolicy(OffloadPolicy):
    """Shards, their gradients and what optimizers keep are in the CPU's memory.

    Whole parameters are on the mesh's device; where that is the CPU nothing is different.

    Args:
        pin_memory: shards are in memory from which copies to the device are faster.
    """

    pin_memory: bool = True
