"""Autocast's switches under a name for each type of device, as older programs ask for them."""

from __future__ import annotations

from typing import Any

from facula import _C

__all__ = [
    "get_autocast_cpu_dtype",
    "get_autocast_gpu_dtype",
    "get_autocast_xla_dtype",
    "is_autocast_cpu_enabled",
    "is_autocast_xla_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_gpu_dtype",
    "set_autocast_xla_dtype",
    "set_autocast_xla_enabled",
]


def is_autocast_cpu_enabled() -> bool:
    """Is autocasting on for the CPU?"""
    return bool(_C.is_autocast_enabled("cpu"))


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Switch autocasting on or off for the CPU."""
    _C.set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> Any:
    """The dtype of autocasting on the CPU."""
    return _C.get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: Any) -> None:
    """The dtype of autocasting on the CPU: bfloat16 or float16."""
    _C.set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> Any:
    """The dtype of autocasting on a GPU."""
    return _C.get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: Any) -> None:
    """The dtype of autocasting on a GPU: bfloat16 or float16."""
    _C.set_autocast_dtype("cuda", dtype)


def is_autocast_xla_enabled() -> bool:
    """False: there are no such devices."""
    return False


def get_autocast_xla_dtype() -> Any:
    """bfloat16, which such devices would use."""
    return _C.bfloat16


def set_autocast_xla_enabled(enabled: bool) -> None:
    """Raises RuntimeError where it is switched on: there are no such devices."""
    if enabled:
        raise RuntimeError("set_autocast_xla_enabled(): facula has no devices of type 'xla'")


def set_autocast_xla_dtype(dtype: Any) -> None:
    """Raises RuntimeError: there are no such devices."""
    raise RuntimeError("set_autocast_xla_dtype(): facula has no devices of type 'xla'")
