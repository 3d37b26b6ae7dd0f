"""The accelerator of this machine, whatever its type, by the names of torch.accelerator.

It is `cuda` where there is one, else the first registered device that is available.
"""

from __future__ import annotations

from typing import Any

import facula
from facula import backends

__all__ = [
    "current_accelerator",
    "current_device_index",
    "current_stream",
    "device_count",
    "empty_cache",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_device_index",
    "set_stream",
    "synchronize",
]


def current_accelerator(check_available: bool = False) -> Any:
    """Its device type, as a device without an index; None where there is none.

    `check_available` is taken as torch takes it: only what is available is looked at.
    """
    return backends.current_accelerator()


def is_available() -> bool:
    """Is there one?"""
    return current_accelerator() is not None


def device_count() -> int:
    """How many there are of its type; 0 without one."""
    return _module().device_count() if is_available() else 0


def current_device_index() -> int:
    """The index that is meant where none is said, in this thread."""
    return _module().current_device()


def _module() -> Any:
    found = current_accelerator()
    if found is None:
        raise RuntimeError("facula.accelerator: no accelerator is available")
    return getattr(facula, found.type)


def _function(name: str, own: str | None = None) -> Any:
    """The function of that name of the accelerator's module."""

    def function(*args: Any, **kwargs: Any) -> Any:
        return getattr(_module(), name)(*args, **kwargs)

    function.__name__ = function.__qualname__ = own or name
    function.__doc__ = f"`{name}` of the accelerator's module, such as `facula.cuda.{name}`."
    return function


set_device_index = _function("set_device", "set_device_index")
synchronize = _function("synchronize")
current_stream = _function("current_stream")
set_stream = _function("set_stream")
empty_cache = _function("empty_cache")
memory_stats = _function("memory_stats")
memory_allocated = _function("memory_allocated")
max_memory_allocated = _function("max_memory_allocated")
memory_reserved = _function("memory_reserved")
max_memory_reserved = _function("max_memory_reserved")
reset_peak_memory_stats = _function("reset_peak_memory_stats")
