"""Move a tensor to shared memory, and ask whether it is there."""

from __future__ import annotations

import math
from typing import Any

from facula.multiprocessing import _segments

__all__ = ["is_shared", "share_memory_"]


def is_shared(tensor: Any) -> bool:
    """Is the tensor in memory that other processes can map? On other devices than the CPU: True."""
    return tensor.device.type != "cpu" or _segments.find(tensor) is not None


def share_memory_(tensor: Any) -> Any:
    """Move the tensor to shared memory, if it is not there; returns the tensor.

    It keeps its values, shape and strides, and is the same object. Views that were made of it
    before keep the old memory: share a tensor before taking views of it.

    Raises:
        SharedMemoryError: the system has none left.
        RuntimeError: the tensor is a view; or it requires grad and was computed (detach() first).
    """
    if is_shared(tensor):
        return tensor
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "share_memory_(): the tensor requires grad and was computed, and its graph does not "
            "leave this process; call detach() first"
        )
    if tensor._base is not None:
        raise RuntimeError(
            "share_memory_(): the tensor is a view, whose memory is another tensor's: share that "
            "one before taking views of it, or share a clone()"
        )
    tensor.data = shared_copy(tensor.detach())
    return tensor


def shared_copy(tensor: Any) -> Any:
    """A copy of a detached tensor in a segment of its own, with its strides if it is dense."""
    shape, stride, size = tuple(tensor.shape), tuple(tensor.stride()), tensor.element_size()
    count = math.prod(shape)
    segment = _segments.Segment.create(count * size)
    if not count:
        # It has no elements to share, but is in shared memory by name.
        whole = _segments.bytes_of(segment)[:0].view(tensor.dtype)
        return whole.reshape(shape)
    whole = _segments.bytes_of(segment).view(tensor.dtype)
    copy = whole.as_strided(shape, stride) if _is_dense(shape, stride) else whole.reshape(shape)
    copy.copy_(tensor)
    return copy


def _is_dense(shape: tuple[int, ...], stride: tuple[int, ...]) -> bool:
    """Do the elements fill their memory, each in a place of its own?"""
    step = 1
    for s, n in sorted((s, n) for n, s in zip(shape, stride, strict=True) if n != 1):
        if s != step:
            return False
        step *= n
    return True
