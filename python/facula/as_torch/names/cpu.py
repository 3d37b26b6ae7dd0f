"""`torch.cpu`: the CPU by the functions that devices have. Source: torch/cpu/__init__.py."""

from __future__ import annotations

import contextlib
from typing import Any

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "device_count",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


class Stream:
    """There is one, in which work is done when it is called."""

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        """Nothing to wait for."""

    def record_event(self) -> None:
        """Nothing to record."""

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for."""


class Event:
    """What has happened already."""

    def query(self) -> bool:
        """True."""
        return True

    def record(self, stream: Any = None) -> None:
        """Nothing to record."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for."""


_default = Stream()
_current: Any = _default


class StreamContext(contextlib.AbstractContextManager[None]):
    """Within it the stream is the current one."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        global _current
        self._before = _current
        if self.stream is not None:
            _current = self.stream

    def __exit__(self, *_: Any) -> None:
        global _current
        _current = self._before


def stream(stream: Any) -> StreamContext:
    """A context in which the stream is the current one."""
    return StreamContext(stream)


def current_stream(device: Any = None) -> Any:
    """The stream of the innermost `stream(...)`."""
    return _current


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """The device's name."""
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing to choose."""


def synchronize(device: Any = None) -> None:
    """Nothing to wait for."""
