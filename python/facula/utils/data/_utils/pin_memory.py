"""Copy a batch to page-locked memory."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import facula
from facula import backends

__all__ = ["device_to_pin_for", "pin_memory"]


def device_to_pin_for(device: str = "") -> Any:
    """The device that copies in the background; None without one: then pinning does nothing."""
    device = device or backends.current_accelerator()
    return device if device and backends.info(facula.device(device).type)["pins"] else None


def pin_memory(data: Any, device: Any = None) -> Any:
    """`data` with its tensors on the CPU in page-locked memory, and what has `pin_memory()`."""
    if isinstance(data, facula.Tensor):
        return data.pin_memory(device) if data.device.type == "cpu" else data
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        pinned = {key: pin_memory(value, device) for key, value in data.items()}
        if isinstance(data, MutableMapping):
            clone = copy.copy(data)
            clone.update(pinned)
            return clone
        return type(data)(pinned)  # type: ignore[call-arg]
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pin_memory(d, device) for d in data))
    if isinstance(data, Sequence):
        entries = [pin_memory(d, device) for d in data]
        if isinstance(data, MutableSequence):
            clone = copy.copy(data)
            for i, entry in enumerate(entries):
                clone[i] = entry
            return clone
        try:
            return type(data)(entries)  # type: ignore[call-arg]
        except TypeError:
            return entries
    return data
