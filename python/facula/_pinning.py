"""Host memory that devices copy from and to in the background, and work on several streams."""

from __future__ import annotations

from typing import Any

from facula import _C


def pin_memory(self: Any, device: Any = None) -> Any:
    """A copy in page-locked host memory, for `non_blocking=True`; itself if it is there.

    Args:
        device: the kind of device to copy from and to; the first one registered by default.
    """
    from facula import backends

    if device is None:
        device = backends.current_accelerator()
        if device is None:
            raise RuntimeError(
                "pin_memory(): no device is registered that host memory could be pinned for"
            )
    return _C._pin(self, _C.device(device).type)


def is_pinned(self: Any, device: Any = None) -> bool:
    """Is it in page-locked host memory?"""
    return _C._is_pinned(self)


def record_stream(self: Any, stream: Any) -> None:
    """Tell that `stream` uses it: its memory serves no one else before that work is done."""
    from facula.backends._device_module import Stream, expect

    expect("record_stream", stream, Stream)
    _C._record_stream(self, stream.device, stream.handle)
