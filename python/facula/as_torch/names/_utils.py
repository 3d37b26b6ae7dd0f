"""`torch._utils`: the few of its names that programs use."""

from __future__ import annotations

from typing import Any

import facula

__all__: list[str] = []


def _get_available_device_type() -> str | None:
    """The type of the accelerator in use, None without one."""
    found = facula.accelerator.current_accelerator()
    return None if found is None else str(found.type)


def _get_device_module(device_type: str) -> Any:
    """The namespace of a type of devices.

    Raises:
        RuntimeError: there is none.
    """
    module = getattr(facula, device_type, None)
    if module is None:
        raise RuntimeError(f"there is no namespace of devices of type {device_type!r}")
    return module


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a device: of an integer, a text such as "cuda:1", or a device."""
    if isinstance(device, int):
        return device
    if device is None:
        if optional:
            return int(facula.accelerator.current_device_index())
        raise ValueError("_get_device_index(): expected a device with an index, got None")
    found = facula.device(device)
    if found.type == "cpu" and allow_cpu:
        return -1
    if found.index is None:
        if optional:
            return int(facula.accelerator.current_device_index())
        raise ValueError(f"_get_device_index(): expected a device with an index, got {device!r}")
    return int(found.index)


def _flatten_dense_tensors(tensors: Any) -> Any:
    """All elements in one tensor."""
    return facula.cat([t.contiguous().view(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Any, tensors: Any) -> tuple[Any, ...]:
    """Parts of `flat` with the shapes of `tensors`."""
    parts = flat.split([t.numel() for t in tensors])
    return tuple(part.view_as(t) for part, t in zip(parts, tensors, strict=True))
