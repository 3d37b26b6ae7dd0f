"""`facula.Stream` and `facula.Event` of any device; on the CPU work is done when a call returns."""

from __future__ import annotations

import time
from typing import Any

import facula

__all__ = ["DeviceObjType", "Event", "Stream", "StreamObjType"]

DeviceObjType = facula.device


def _device(device: Any) -> Any:
    if device is None:
        return facula.accelerator.current_accelerator() or facula.device("cpu")
    if isinstance(device, int):
        found = facula.accelerator.current_accelerator()
        if found is None:
            raise RuntimeError(f"Stream(): device is {device}, and there is no accelerator")
        return facula.device(found.type, device)
    return facula.device(device)


class _OfDevices(type):
    """Objects of the devices' own classes of that name are instances too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        import sys

        module = sys.modules.get("facula.backends._device_module")
        return module is not None and isinstance(instance, getattr(module, cls.__name__))

    def __call__(cls, device: Any = None, *args: Any, **kwargs: Any) -> Any:
        where = _device(device)
        if where.type == "cpu":
            return type.__call__(cls, where, *args, **kwargs)
        module = getattr(facula, where.type, None)
        made = getattr(module, cls.__name__, None)
        if made is None:
            raise RuntimeError(f"{cls.__name__}(): devices of type '{where.type}' have none")
        if cls.__name__ == "Event":
            return made(*args, **kwargs)
        return made(where, *args, **kwargs)


class Stream(metaclass=_OfDevices):
    """A queue of work of a device: `facula.cuda.Stream` for "cuda".

    On the CPU there is no queue: a call's work is done when it returns, and waiting takes no time.

    Args:
        device: whose; the accelerator's by default, else the CPU's.
        priority: lower ones go first, where the device knows of it.
    """

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self.device, self.priority = device, priority
        self.device_type, self.device_index, self.stream_id = 0, -1, 0

    def synchronize(self) -> None:
        """Waits for its work: nothing, on the CPU."""

    def query(self) -> bool:
        """Is its work done?"""
        return True

    def wait_event(self, event: Any) -> None:
        """Later work waits for an event."""
        event.synchronize()

    def wait_stream(self, stream: Any) -> None:
        """Later work waits for the work that another stream has now."""
        stream.synchronize()

    def record_event(self, event: Any = None) -> Any:
        """An event at the end of its work so far."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return type(other) is Stream

    def __hash__(self) -> int:
        return hash(Stream)

    def __repr__(self) -> str:
        return f"<facula.Stream device={self.device}>"


class Event(metaclass=_OfDevices):
    """A mark in a stream, to wait for or to measure between: `facula.cuda.Event` for "cuda"."""

    def __init__(
        self,
        device: Any = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        self.device = device
        self._timing = enable_timing
        self._at: float | None = None

    def record(self, stream: Any = None) -> None:
        """Mark the end of the stream's work so far."""
        self._at = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        """Let the stream's later work wait for it."""

    def query(self) -> bool:
        """Is the work before it done?"""
        return True

    def synchronize(self) -> None:
        """Waits for the work before it: nothing, on the CPU."""

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another.

        Raises:
            ValueError: they were not made with enable_timing=True, or not recorded.
        """
        if not (self._timing and end_event._timing):
            raise ValueError("elapsed_time(): make both events with enable_timing=True")
        if self._at is None or end_event._at is None:
            raise ValueError("elapsed_time(): both events must have been recorded")
        return (end_event._at - self._at) * 1e3

    def __repr__(self) -> str:
        return f"<facula.Event device={self.device}>"


StreamObjType = Stream
