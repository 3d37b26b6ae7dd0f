"""Batches between processes: pickles whose tensors and arrays lie in memory that both have.

A worker owns its segments. It packs each batch into one of them and sends the segment's number, and
its descriptor the first time. The main process reads tensors where they lie; when the last of a
batch is gone it gives the segment back, so that after a few batches nobody maps new memory.
"""

from __future__ import annotations

import collections
import io
import math
import os
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import facula
from facula.multiprocessing._segments import Segment, new_fd

__all__ = ["Incoming", "Outgoing"]

_ALIGN = 64
_INLINE_PICKLE = 4096  # a longer pickle goes through shared memory too
_SMALL_TENSOR = 2048  # collated elsewhere and copied: cheaper than a tensor in a segment
_COPY_OUT = 32 << 10  # a smaller batch is copied on arrival, and its segment is free at once
_MOST_HELD = 128  # batches of a loader that may stay in shared memory; those beyond are copied
_SPARE = 8  # segments that a worker keeps for later


def _aligned(n: int) -> int:
    return -(-n // _ALIGN) * _ALIGN


_local = threading.local()  # the buffers of what this thread unpacks


def _rebuild_tensor(part: int, dtype: Any, shape: Any, requires_grad: bool) -> Any:
    count, buffer = math.prod(shape), _local.buffers[part]
    if count == 0:
        tensor = facula.empty(shape, dtype=dtype, device="cpu")
    else:
        tensor = facula.frombuffer(buffer, dtype=dtype, count=count)
        if len(shape) != 1:
            tensor = tensor.reshape(shape)
    return tensor.requires_grad_() if requires_grad else tensor


class _Pickler(pickle.Pickler):
    """Leaves the elements of tensors and arrays out, as buffers or as places in the segment."""

    def __init__(self, stream: io.BytesIO, outgoing: Outgoing) -> None:
        # No method of its own: it would keep itself, and the batch, until the next collection.
        super().__init__(stream, 5, buffer_callback=outgoing.add_buffer)
        self.outgoing = outgoing

    def reducer_override(self, value: Any) -> Any:
        if type(value) is not facula.Tensor or value.device.type != "cpu":
            return NotImplemented
        if value.requires_grad and not value.is_leaf:
            raise RuntimeError(
                "a batch holds a tensor that requires grad and was computed: its graph does not "
                "leave the worker. Call detach() in the dataset or in collate_fn"
            )
        tensor = value.detach() if value.requires_grad else value
        if not tensor.is_contiguous():
            tensor = tensor.contiguous()
        part = self.outgoing.add_tensor(tensor)
        return _rebuild_tensor, (part, value.dtype, tuple(value.shape), value.requires_grad)


class _Held:
    """A segment of a worker, and where in it the next tensor goes."""

    def __init__(self, number: int, size: int) -> None:
        self.number, self.size = number, size
        self.fd = new_fd(size)
        try:
            self.map = Segment(self.fd, size)
        except BaseException:
            self.close_fd()
            raise
        self.use()

    def use(self) -> None:
        self.end = 0
        self.memory = memoryview(facula.frombuffer(self.map, dtype=facula.uint8))
        self.lease = self.memory.obj  # lives as long as any part of this memory is looked at
        self.start = self.lease.data_ptr()

    def stop(self) -> bool:
        """Is no tensor left of those that lie in it?"""
        gone = weakref.ref(self.lease)
        del self.lease, self.memory
        return gone() is None

    def take(self, size: int) -> int | None:
        if self.end + size > self.size:
            return None
        at, self.end = self.end, _aligned(self.end + size)
        return at

    def close_fd(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Outgoing:
    """The worker's end."""

    def __init__(self) -> None:
        self.numbers = 0
        self.sent: dict[int, _Held] = {}
        self.spare: list[_Held] = []
        self.forgotten: list[int] = []
        self.current: _Held | None = None
        self.expected = 0  # bytes of a batch, as the last ones were
        self.parts: list[Any] = []
        self.buffers: list[Any] = []

    # While a batch is made.

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An empty tensor where the main process will read it, or None."""
        count = math.prod(shape)
        size = count * dtype.itemsize
        if size < _SMALL_TENSOR:
            return None
        if self.current is None:
            self.current = self._segment(max(size, self.expected))
        at = self.current.take(size)
        if at is None:
            return None
        memory = self.current.memory[at : at + size]
        return facula.frombuffer(memory, dtype=dtype, count=count).reshape(shape)

    # While it is packed.

    def add_tensor(self, tensor: Any) -> int:
        """Note a contiguous tensor; returns its number."""
        size = tensor.numel() * tensor.element_size()
        held, at = self.current, -1
        if held is not None and size:
            at = tensor.data_ptr() - held.start
        if held is not None and 0 <= at < held.size:
            self.parts.append((at, size))
        else:
            flat = tensor.reshape(-1).view(facula.uint8) if size else None
            self.parts.append(memoryview(flat) if flat is not None else memoryview(b""))
        return len(self.parts) - 1

    def add_buffer(self, buffer: pickle.PickleBuffer) -> bool:
        """Note the memory of an array; returns: is it to be pickled instead?"""
        try:
            self.buffers.append(buffer.raw())
        except BufferError:  # not contiguous
            return True
        return False

    def pack(self, value: Any) -> tuple[Any, list[int]]:
        """What to send of a batch, and the descriptors that go with it."""
        stream = io.BytesIO()
        try:
            _Pickler(stream, self).dump(value)
            if stream.tell() > _INLINE_PICKLE:
                self.buffers.append(stream.getbuffer())
                return self._place(None)
            return self._place(stream.getvalue())
        finally:
            self.parts, self.buffers = [], []

    def _place(self, data: bytes | None) -> tuple[Any, list[int]]:
        held = self.current
        used: list[_Held] = [] if held is None else [held]
        parts = [*self.parts, *self.buffers]
        total = sum(_aligned(p.nbytes) for p in parts if not isinstance(p, tuple))
        room = held
        if total and (room is None or room.end + total > room.size):
            room = self._segment(total if held is not None else max(total, self.expected))
            used.append(room)
            if held is None:
                self.current = room
        spans: list[tuple[int, int, int]] = []
        for part in parts:
            if isinstance(part, tuple):
                assert held is not None
                spans.append((held.number, *part))
            elif part.nbytes == 0:
                spans.append((-1, 0, 0))
            else:
                assert room is not None
                at = room.take(part.nbytes)
                assert at is not None
                room.memory[at : at + part.nbytes] = part
                spans.append((room.number, at, part.nbytes))
        # Somewhat larger than needed: batches differ in length.
        needed = sum(h.end for h in used)
        self.expected = max(needed, self.expected - self.expected // 16)
        new, fds = [], []
        for h in used:
            if h.fd >= 0:
                new.append((h.number, h.size))
                fds.append(h.fd)
            self.sent[h.number] = h
        numbers = [h.number for h in used]
        forgotten, self.forgotten = self.forgotten, []
        self.current = None
        return (new, forgotten, numbers, spans, len(self.parts), data), fds

    def descriptors_sent(self, message: Any) -> None:
        """What is mapped stays without its descriptor."""
        for number, _ in message[0]:
            self.sent[number].close_fd()

    def _segment(self, size: int) -> _Held:
        fitting = [h for h in self.spare if h.size >= size]
        if fitting:
            held = min(fitting, key=lambda h: h.size)
            self.spare.remove(held)
            held.use()
            return held
        if len(self.spare) >= 2:
            # Too small for what comes now.
            self._forget(self.spare.pop(0))
        self.numbers += 1
        return _Held(self.numbers, -(-(size + size // 16) // 4096) * 4096)

    def _forget(self, held: _Held) -> None:
        held.close_fd()
        self.forgotten.append(held.number)

    def abandon(self) -> None:
        """The batch that was being made comes to nothing."""
        held, self.current = self.current, None
        if held is not None:
            self._returned(held)

    def returned(self, numbers: list[int], lost: list[int]) -> None:
        """The main process is done with these; with the lost ones another process may not be."""
        for number in numbers:
            self._returned(self.sent.pop(number))
        for number in lost:
            self._forget(self.sent.pop(number))

    def _returned(self, held: _Held) -> None:
        if held.fd >= 0 or not held.stop() or len(self.spare) >= _SPARE:
            # The dataset keeps a tensor in it, or it never arrived.
            self._forget(held)
        else:
            self.spare.append(held)


class Incoming:
    """The main process's end of one worker."""

    def __init__(self, leases: dict[tuple[int, int], Any]) -> None:
        self.maps: dict[int, Segment] = {}
        self.leases = leases  # of all workers of a loader
        self.free: collections.deque[int] = collections.deque()
        self.lost: collections.deque[int] = collections.deque()
        self.forks = [0]

    def unpack(self, message: Any, fds: list[int]) -> Any:
        """The batch of a message of `Outgoing.pack`."""
        new, forgotten, numbers, spans, tensors, data = message
        try:
            for (number, size), fd in zip(new, fds, strict=True):
                self.maps[number] = Segment(fd, size)
        finally:
            for fd in fds:
                os.close(fd)
        for number in forgotten:
            self.maps.pop(number, None)
        total = sum(size for _, _, size in spans)
        buffers: list[Any]
        if total <= _COPY_OUT or len(self.leases) >= _MOST_HELD:
            buffers = [bytearray(self._slice(self.maps, span)) for span in spans]
            self.free.extend(numbers)
        else:
            memory = {}
            for number in numbers:
                memory[number] = memoryview(
                    facula.frombuffer(self.maps[number], dtype=facula.uint8)
                )
                lease: Any = memory[number].obj  # as long as any part of this memory is looked at
                self.leases[id(self), number] = weakref.ref(lease, self._end_of(number))
            buffers = [self._slice(memory, span) for span in spans]
        if data is None:
            data = buffers.pop()
        _local.buffers = buffers
        try:
            return pickle.loads(data, buffers=buffers[tensors:])
        finally:
            _local.buffers = None

    @staticmethod
    def _slice(memory: Any, span: tuple[int, int, int]) -> Any:
        number, at, size = span
        return memoryview(memory[number])[at : at + size] if size else b""

    def _end_of(self, number: int) -> Callable[[Any], None]:
        # Of what it needs alone: a lease may outlive the loader.
        leases, free, lost, forks = self.leases, self.free, self.lost, self.forks
        before, key = forks[0], (id(self), number)

        def ended(_: Any) -> None:
            leases.pop(key, None)
            # A child that was forked meanwhile may read it: then it is not written again.
            (free if forks[0] == before else lost).append(number)

        return ended

    def to_return(self) -> tuple[list[int], list[int]]:
        """Numbers of the segments to give back: to be used again, and not to be."""
        found: tuple[list[int], list[int]] = ([], [])
        for queue, into in zip((self.free, self.lost), found, strict=True):
            while queue:
                into.append(queue.popleft())
        return found
