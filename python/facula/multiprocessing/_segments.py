"""Memory that processes share: segments without a name, that go with the last who map them."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import secrets
import sys
import tempfile
from typing import Any

import facula
from facula._weak_table import WeakTable

__all__ = ["STRATEGIES", "Segment", "SharedMemoryError", "bytes_of", "find", "new_fd"]

DIRECTORY = "/dev/shm"
STRATEGIES = ("file_descriptor", "file_system")
if sys.platform != "linux" or not os.path.isdir(DIRECTORY):
    STRATEGIES = STRATEGIES[:1]
strategy = STRATEGIES[0]


class SharedMemoryError(RuntimeError):
    """The system has no shared memory left, or no descriptor for it."""


def new_fd(size: int) -> int:
    """A descriptor of `size` bytes of memory without a name: nothing is left of it after a crash.

    The pages are reserved at once: a lack of memory is an error here, and not a signal later.
    """
    try:
        if hasattr(os, "memfd_create"):
            fd = os.memfd_create("facula", os.MFD_CLOEXEC)
        else:
            fd, path = tempfile.mkstemp(prefix="facula-")
            os.unlink(path)
    except OSError as error:
        raise _lack(error, size) from error
    try:
        _reserve(fd, size)
    except OSError as error:
        raise _lack(error, size) from error
    return fd


def _reserve(fd: int, size: int) -> None:
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, size)
        else:
            os.ftruncate(fd, size)
    except OSError:
        os.close(fd)
        raise


def new_name() -> str:
    """A name in /dev/shm that is removed when the program ends, also when it is killed."""
    from multiprocessing import resource_tracker

    name = f"/facula-{os.getpid()}-{secrets.token_hex(8)}"
    # The tracker, a process of its own, knows it before there is a file.
    resource_tracker.register(name, "shared_memory")
    return name


def remove(name: str) -> None:
    """Take a name away; the memory stays with those who have mapped it."""
    from multiprocessing import resource_tracker

    with contextlib.suppress(FileNotFoundError):
        os.unlink(DIRECTORY + name)
    resource_tracker.unregister(name, "shared_memory")


def _lack(error: OSError, size: int) -> SharedMemoryError:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return SharedMemoryError(
            f"no file descriptor is left for {size} bytes of shared memory ({error.strerror}): "
            "raise the limit (ulimit -n), or let go of tensors that other processes sent"
        )
    return SharedMemoryError(
        f"{size} bytes of shared memory cannot be had ({error.strerror}): give the machine or the "
        "container more of it (docker --shm-size, the memory limit), or share less at a time "
        "(of a DataLoader lower batch_size, prefetch_factor or num_workers)"
    )


# A mapping needs no descriptor of its own, but has one before Python 3.13.
_OPTIONS: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}


class Segment(mmap.mmap):
    """`size` bytes mapped from the descriptor `fd`, writable by all who map them."""

    fd: int = -1
    name: str | None = None

    def __new__(cls, fd: int, size: int) -> Segment:
        try:
            return super().__new__(cls, fd, size, **_OPTIONS)
        except OSError as error:
            raise _lack(error, size) from error

    @classmethod
    def create(cls, size: int) -> Segment:
        """New memory, zeros, whose descriptor it keeps to hand on."""
        size = max(size, 1)
        if strategy != "file_system":
            return cls.of_fd(new_fd(size), size)
        name = new_name()
        try:
            fd = os.open(DIRECTORY + name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            _reserve(fd, size)
        except OSError as error:
            remove(name)
            raise _lack(error, size) from error
        self = cls.of_fd(fd, size)
        self.keep_name(name)
        return self

    @classmethod
    def of_fd(cls, fd: int, size: int) -> Segment:
        """Map what another process made; the descriptor is the segment's from here on."""
        try:
            self = cls(fd, size)
        except BaseException:
            os.close(fd)
            raise
        self.fd = fd
        status = os.fstat(fd)
        _by_file[status.st_dev, status.st_ino] = self
        return self

    @classmethod
    def received(cls, fd: int, size: int) -> Segment:
        """As `of_fd`; one that this process has mapped already is given again."""
        status = os.fstat(fd)
        known = _by_file.get((status.st_dev, status.st_ino))
        if known is None:
            return cls.of_fd(fd, size)
        os.close(fd)
        return known

    def keep_name(self, name: str) -> None:
        """Its file in /dev/shm goes with it, or with this process."""
        from multiprocessing import util

        self.name = name
        # After the threads that still send what is in queues.
        util.Finalize(self, remove, (name,), exitpriority=-100)

    def release_fd(self) -> None:
        """Close the descriptor: the memory stays, but cannot be handed on."""
        if self.fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        self.release_fd()


# By device and inode: one mapping for one segment.
_by_file = WeakTable()
# By the address of the first byte: how a tensor is known to be in shared memory.
_by_address = WeakTable()


def bytes_of(segment: Segment) -> Any:
    """The segment as a tensor of uint8."""
    whole = facula.frombuffer(segment, dtype=facula.uint8)
    _by_address[whole.data_ptr()] = segment
    return whole


def find(tensor: Any) -> Segment | None:
    """The segment that the tensor's storage is."""
    segment = _by_address.get(tensor.untyped_storage().data_ptr())
    return segment if segment is not None and segment.fd >= 0 else None
