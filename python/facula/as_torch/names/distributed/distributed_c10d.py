"""`torch.distributed.distributed_c10d`: the file of the functions, and what packages ask of it."""

from __future__ import annotations

from typing import Any

from facula import distributed as _distributed
from facula.distributed import *  # noqa: F403

__all__ = [*_distributed.__all__, "_get_default_group", "_get_default_store"]


def _get_default_group() -> Any:
    """The group of all processes."""
    _distributed.get_rank()  # raises before a job begins
    return _distributed.group.WORLD


def _get_default_store() -> Any:
    """The store of the job."""
    return _get_default_group().job.store
