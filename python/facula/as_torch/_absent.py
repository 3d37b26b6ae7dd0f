"""Devices that torch has names for and this machine has not: they can be named, not used."""

from __future__ import annotations

from facula import _C, backends
from facula.as_torch._spaces import DEVICES

__all__ = ["name_absent_devices"]


class _Absent(backends.Backend):
    """A type of devices of which there are none."""

    flags = 0

    def __init__(self, name: str) -> None:
        self.name = name

    def device_count(self) -> int:
        return 0

    def allocate(self, index: int, nbytes: int, stream: int) -> int:
        raise RuntimeError(f"there is no device of type {self.name!r} on this machine")


def _register(name: str) -> bool:
    if name not in ("cuda", *DEVICES):
        return False
    _C._register_backend(_Absent(name))
    backends._publish(name)
    return True


def name_absent_devices() -> None:
    """Let `torch.device("mps")` be, as torch does, though a tensor cannot be made there."""
    backends._absent = _register
