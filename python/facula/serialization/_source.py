"""The bytes of a file, mapped or read, and one-dimensional tensors of parts of them."""

from __future__ import annotations

import array
import io
import mmap as mmap_module
import os
import stat
import threading
from collections.abc import Callable, Sequence
from typing import Any

import facula
from facula.serialization._options import get_default_mmap_options
from facula.utils._atomic import note_mapping
from facula.utils._safetensors import Contents, FormatError, take

__all__ = ["Peeked", "Source", "start_of", "swapped"]

_PART = 1 << 24  # bytes that one thread reads at a time
_FEW = 1 << 16  # bytes that are read ahead: many small parts take one call of the system
_MANY = 1 << 23  # bytes from which on several threads read
START = 512  # bytes that tell what a file is: those of a tar archive's first header


class Peeked:
    """A stream whose first bytes have been read already."""

    def __init__(self, stream: Any, name: str) -> None:
        self.stream, self.name = stream, name
        data = bytearray()
        take(stream, Contents(name), data, START)
        self.start = bytes(data)

    def read(self, size: int = -1) -> Any:
        taken, self.start = self.start, b""
        if not taken:
            return self.stream.read(size)
        if 0 <= size < len(taken):
            taken, self.start = taken[:size], taken[size:]
        return taken


def start_of(f: Any) -> tuple[bytes, Any]:
    """The first bytes of a path or a stream, and what to read all of it from."""
    if hasattr(f, "read"):
        name = getattr(f, "name", None)
        stream = Peeked(f, name if isinstance(name, str) else type(f).__name__)
        return stream.start, stream
    path = os.fspath(f)
    file = open(path, "rb", buffering=0)  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        # What comes out of a pipe comes once: it stays open.
        stream = Peeked(io.BufferedReader(file), os.fsdecode(path))
        return stream.start, stream
    with file:
        return file.read(START), path


class _File:
    """A file's bytes, read when they are asked for.

    Not mapped: what others do to the file meanwhile gives an error, not a signal.
    """

    def __init__(self, file: Any, size: int, fault: Callable[[str], FormatError]) -> None:
        self.number, self.size, self.fault = file.fileno(), size, fault
        self.begin, self.window = 0, b""
        self.ahead = 1 << 12  # bytes that are read at a time

    def __len__(self) -> int:
        return self.size

    def _read(self, start: int, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = os.pread(self.number, count - len(data), start + len(data))
            if not part:
                raise self.fault("it became shorter while it was read")
            data += part
        return bytes(data)

    def _near(self, start: int, stop: int) -> int:
        """Have these few bytes in the window: where they are in it."""
        if start < self.begin or stop > self.begin + len(self.window):
            self.begin = start
            self.window = self._read(start, min(max(self.ahead, stop - start), self.size - start))
            self.ahead = min(2 * self.ahead, _FEW)
        return start - self.begin

    def __getitem__(self, where: Any) -> Any:
        if isinstance(where, slice):
            start, stop, _ = where.indices(self.size)
            if stop - start >= _FEW:
                return self._read(start, stop - start)
            at = self._near(start, stop)
            return self.window[at : at + max(0, stop - start)]
        at = self._near(where, where + 1)
        return self.window[at]

    def find(self, what: bytes, start: int) -> int:
        """The next place of one byte."""
        while start < self.size:
            at = self._near(start, start + 1)
            found = self.window.find(what, at)
            if found >= 0:
                return self.begin + found
            start = self.begin + len(self.window)
        return -1

    def rfind(self, what: bytes, start: int) -> int:
        """The last place at or after `start`."""
        found = self._read(start, self.size - start).rfind(what)
        return start + found if found >= 0 else -1


class Source:
    """A file's bytes.

    Args:
        f: a path, or a `Peeked` stream, which is read to its end.
        mmap: with a path, whether tensors lie in the file's pages, private to the process.
    """

    def __init__(self, f: Any, mmap: bool) -> None:
        self.file: Any = None
        # Pages of the file, for tensors: the rest is read, which costs less than new pages.
        self.map: Any = None
        if isinstance(f, Peeked):
            self.path: str = f.name
            self.buffer: Any = bytearray()
            take(f, Contents(f.name), self.buffer, -1)
            return
        self.path = os.fsdecode(f)
        self.file = open(f, "rb", buffering=0)  # noqa: SIM115
        try:
            info = os.fstat(self.file.fileno())
            self.buffer = _File(self.file, info.st_size, self.fault)
            # A file of several names is written in place, under the feet of who maps it.
            if mmap and get_default_mmap_options() != mmap_module.MAP_PRIVATE:
                with open(f, "r+b") as writable:
                    self.map = mmap_module.mmap(writable.fileno(), 0)
            elif mmap and info.st_nlink == 1:
                # Private pages: in-place operations change the process's copy, never the file.
                self.map = mmap_module.mmap(self.file.fileno(), 0, access=mmap_module.ACCESS_COPY)
            if self.map is not None:
                note_mapping(self.map, self.file)
        except BaseException:
            self.file.close()
            raise

    def __len__(self) -> int:
        return len(self.buffer)

    @property
    def is_mapped(self) -> bool:
        """Whether the bytes of tensors come into memory as they are used."""
        return self.map is not None

    def fault(self, what: str) -> FormatError:
        """An error that names the file."""
        return FormatError(f"load(): {self.path!r} cannot be read: {what}")

    def close(self) -> None:
        """No more parts are asked for."""
        if self.file is not None:
            self.file.close()

    def parts(self, places: Sequence[tuple[int, int]]) -> list[Any]:
        """Tensors of uint8 with the bytes at (start, count)."""
        if self.file is None or self.map is not None:
            return [self._view(start, count) for start, count in places]
        tensors = [facula.empty(count, dtype=facula.uint8, device="cpu") for _, count in places]
        tasks = []
        for (start, count), tensor in zip(places, tensors, strict=True):
            if count < _FEW:
                if count:
                    memoryview(tensor)[:] = self.buffer[start : start + count]
                continue
            memory = memoryview(tensor).cast("B")
            tasks += [
                (start + i, memory[i : min(i + _PART, count)]) for i in range(0, count, _PART)
            ]
        self._read(tasks, sum(count for _, count in places))
        return tensors

    def _view(self, start: int, count: int) -> Any:
        if not count:
            return facula.empty(0, dtype=facula.uint8, device="cpu")
        memory = self.buffer if self.map is None else self.map
        return facula.frombuffer(memory, dtype=facula.uint8, count=count, offset=start)

    def _read(self, tasks: list[tuple[int, memoryview]], total: int) -> None:
        """Fill memory from the file, by several threads: half of the time goes to fresh pages."""
        number, pending, failed = self.file.fileno(), iter(tasks), []

        def work() -> None:
            for start, memory in pending_safely():
                while memory.nbytes:
                    got = os.preadv(number, [memory], start)
                    if not got:
                        failed.append(self.fault("it became shorter while it was read"))
                        return
                    start, memory = start + got, memory[got:]

        lock = threading.Lock()

        def pending_safely() -> Any:
            while not failed:
                with lock:
                    task = next(pending, None)
                if task is None:
                    return
                yield task

        count = min(4, os.cpu_count() or 1, len(tasks)) if total >= _MANY else 1
        threads = [threading.Thread(target=work) for _ in range(count - 1)]
        for thread in threads:
            thread.start()
        work()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]


def swapped(data: Any, size: int) -> Any:
    """A tensor of uint8 with the bytes of each `size` in the other order."""
    code = {2: "H", 4: "I", 8: "Q"}.get(size)
    if code is None or not data.numel():
        return data
    items = array.array(code, bytes(memoryview(data)))
    items.byteswap()
    return facula.frombuffer(items, dtype=facula.uint8)
