"""How tensors travel through queues and pipes: by the segment that they lie in."""

from __future__ import annotations

import os
from multiprocessing import reduction
from multiprocessing.context import get_spawning_popen
from typing import Any

import facula
from facula.multiprocessing import _device_memory, _segments
from facula.multiprocessing._segments import Segment
from facula.multiprocessing._sharing import shared_copy

_FEW_BYTES = 1 << 20

# ---- a segment


def _reduce_segment(segment: Segment) -> Any:
    size = len(segment)
    if _segments.strategy == "file_system" and segment.name is not None:
        # A second file on its way, as the sender may remove its own before it is received.
        name = _segments.new_name()
        os.link(_segments.DIRECTORY + segment.name, _segments.DIRECTORY + name)
        return _open_named, (name, size)
    popen = get_spawning_popen()
    if popen is not None:
        # The child takes the descriptor over when it has started: it must be open until then.
        popen.facula_segments = [*getattr(popen, "facula_segments", ()), segment]
    return _open_fd, (reduction.DupFd(segment.fd), size, os.getpid())


def started(process: Any) -> None:
    """The process has started: it has what was sent with its arguments."""
    process._popen.facula_segments = ()


def _open_fd(duplicate: Any, size: int, sender: int) -> Segment:
    try:
        fd = duplicate.detach()
    except (ConnectionError, FileNotFoundError, EOFError) as error:
        raise RuntimeError(
            f"a tensor was received whose sender (pid {sender}) has ended, and its memory with it: "
            "let the sender wait until its tensors are received, or call "
            "facula.multiprocessing.set_sharing_strategy('file_system') there"
        ) from error
    return Segment.received(fd, size)


def _open_named(name: str, size: int) -> Segment:
    try:
        fd = os.open(_segments.DIRECTORY + name, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise RuntimeError(
            f"a tensor was received whose memory {_segments.DIRECTORY}{name} is gone: the program "
            "that sent it has ended, or it was received before"
        ) from error
    segment = Segment.received(fd, size)
    if segment.name is None:
        segment.keep_name(name)  # to send it on
    else:
        _segments.remove(name)
    return segment


# ---- tensors


def _rebuild(
    segment: Segment,
    dtype: Any,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int,
    requires_grad: bool,
) -> Any:
    whole = _segments.bytes_of(segment)
    size = dtype.itemsize
    whole = whole[: whole.numel() // size * size].view(dtype)
    tensor = whole.as_strided(shape, stride, offset)
    return tensor.requires_grad_() if requires_grad else tensor


def _reduce_tensor(tensor: Any) -> Any:
    on_cpu = tensor.device.type == "cpu"
    if not on_cpu and not (tensor.device.type != "meta" and _device_memory.shares(tensor.device)):
        return tensor.__reduce_ex__(2)
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "a tensor that requires grad and was computed cannot be sent to another process: its "
            "graph does not go with it. Call detach() first"
        )
    if not on_cpu:
        return _device_memory.reduce_tensor(tensor)
    plain = tensor.detach()
    segment = _segments.find(plain)
    popen = get_spawning_popen()
    if segment is None and popen is not None and plain.numel() * plain.element_size() < _FEW_BYTES:
        # With the arguments of a new process: not a descriptor each, of which there are 250.
        return tensor.__reduce_ex__(2)
    if segment is None:
        # A copy: other tensors may have this one's memory, which could not move with it.
        plain = shared_copy(plain)
        segment = _segments.find(plain)
    offset = plain.storage_offset()
    shape, stride = tuple(plain.shape), tuple(plain.stride())
    return _rebuild, (segment, plain.dtype, shape, stride, offset, tensor.requires_grad)


# Parameters are pickled as tensors within, which come here too.
reduction.ForkingPickler.register(facula.Tensor, _reduce_tensor)
reduction.ForkingPickler.register(Segment, _reduce_segment)
