"""`multiprocessing` whose queues, pipes and pools send tensors by shared memory.

A drop-in for Python's module: the same names, with what torch adds. A tensor that is in shared
memory (`share_memory_()`) is the same memory at the receiver: what either writes the other reads.
Another is copied to shared memory once, and the copy is the receiver's. No memory has a name unless
the sharing strategy says so, and so none is left over, however a process ends.
"""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing import *  # noqa: F403
from typing import Any

from facula.multiprocessing import _reductions as _reductions
from facula.multiprocessing import _segments
from facula.multiprocessing._segments import SharedMemoryError
from facula.multiprocessing._sharing import is_shared, share_memory_
from facula.multiprocessing.spawn import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    *multiprocessing.__all__,  # type: ignore[attr-defined]
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SharedMemoryError",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "is_shared",
    "set_sharing_strategy",
    "share_memory_",
    "spawn",
    "start_processes",
]


def get_all_sharing_strategies() -> set[str]:
    """Ways by which memory reaches another process; `set_sharing_strategy` says what they are."""
    return set(_segments.STRATEGIES)


def get_sharing_strategy() -> str:
    """The way by which this process sends tensors."""
    return _segments.strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose how this process sends tensors from now on.

    Args:
        new_strategy: "file_descriptor" (the default): the receiver takes a descriptor from the
            sender, which must still run then. Nothing can be left over. "file_system": what is
            shared from then on has a file in /dev/shm, and another one on its way to a receiver;
            the sender may have ended before that opens it. Files that nobody removed go when the
            program ends, or when all its processes are killed.

    Raises:
        ValueError: another name, or "file_system" on a system without /dev/shm.
    """
    if new_strategy not in _segments.STRATEGIES:
        raise ValueError(
            f"set_sharing_strategy(): got {new_strategy!r}, expected one of "
            f"{sorted(_segments.STRATEGIES)}"
        )
    _segments.strategy = new_strategy


def __getattr__(name: str) -> Any:
    # What Python's module has without naming it in __all__.
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    if name in sys.modules[__name__].__dict__:
        return sys.modules[__name__].__dict__[name]
    try:
        return getattr(multiprocessing, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name) from None
