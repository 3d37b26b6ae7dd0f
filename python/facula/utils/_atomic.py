"""Replace a file by a new one, whole or not at all.

The new one is written beside the old under a name of its own, which a lock marks as in use, and
moved there once it is on disk. What a killed process left behind has no lock: the next writer
removes it.

A move would part a file of several names (hard links) from the others. Such a file keeps its place,
and gets the bytes of the new one once these are on disk: the one case where a kill leaves a file
half-written, with the whole one beside it. A file that may not be written is left to its other
names, and so is one that this process has mapped: who overwrites that changes, or takes away, the
memory of tensors.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import threading
from collections.abc import Callable
from typing import IO, Any

from facula._weak_table import WeakTable

try:
    import fcntl
except ImportError:  # not a POSIX system: nothing is locked and nothing cleared
    fcntl = None  # type: ignore[assignment]

__all__ = ["note_mapping", "write_file"]

_MOST_BYTES_OF_A_NAME = 255


_lock_of_mappings = threading.Lock()
# (device and number of a file, id of a mapping) -> the mapping
_mappings = WeakTable()


def note_mapping(mapping: Any, file: IO[bytes]) -> None:
    """That the file is mapped as long as `mapping` lives."""
    info = os.fstat(file.fileno())
    with _lock_of_mappings:
        _mappings[info.st_dev, info.st_ino, id(mapping)] = mapping


def _is_mapped(file: tuple[int, int]) -> bool:
    """Whether a mapping of it lives."""
    return any(key[:2] == file for key in _mappings.keys())  # noqa: SIM118


def write_file(path: str, write: Callable[[IO[bytes]], None]) -> None:
    """Call `write` with a file open for writing; `path` gets its bytes once all are on disk.

    A symbolic link stays one: the file that it leads to is replaced. Mode, owner, extended
    attributes and other names of a file that was there are kept. What is no regular file (a pipe,
    a device) is written to directly.

    Raises:
        OSError: with `path` as its file name.
    """
    try:
        try:
            old = os.stat(path)
        except FileNotFoundError:
            old = None
        if old is None or stat.S_ISREG(old.st_mode):
            _replace(os.path.realpath(path), old, write)
        elif stat.S_ISDIR(old.st_mode):
            raise IsADirectoryError(errno.EISDIR, "is a directory, not the path of a file", path)
        else:
            with open(path, "wb") as file:
                write(file)
    except OSError as error:
        # Who saves knows the path that he gave, not the names of files on the way there.
        if error.errno is not None:
            error.filename, error.filename2 = path, None
        raise


def _replace(path: str, old: os.stat_result | None, write: Callable[[IO[bytes]], None]) -> None:
    folder, name = os.path.split(path)
    _clear(folder, name)
    file, temporary = _open_beside(folder, name, path, old)
    try:
        with file:
            write(_Early(file))  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
            if old is not None and _keeps_its_place(path, old):
                _overwrite(path, file)
                os.unlink(temporary)
            else:
                # Moved before it is closed: until then the lock tells other writers to leave it.
                os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
    if os.name == "posix":
        # The move itself is durable only once the folder is.
        directory = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


_EARLY = 1 << 25  # bytes after which the disk is told to begin
_START_WRITING = 2  # SYNC_FILE_RANGE_WRITE of Linux


def _starter() -> Callable[..., Any] | None:
    """The system's call that begins to write a range of a file to disk, and waits for nothing."""
    try:
        import ctypes

        call = ctypes.CDLL(None).sync_file_range
        call.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    except (ImportError, OSError, AttributeError):
        return None  # not Linux: the disk begins when it is asked to be done
    return call


class _Early:
    """A file whose bytes go to disk while the next ones are written, not at the end alone."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.written, self.begun = file, 0, 0
        self.start: Callable[..., Any] | None = None

    def write(self, data: Any) -> int:
        count = self.file.write(data)
        self.written += count
        if self.written - self.begun >= _EARLY:
            if self.begun == 0:
                self.start = _starter()
            self.file.flush()
            if self.start is not None:
                # What goes wrong here is met again, and told, by the wait at the end.
                self.start(
                    self.file.fileno(), self.begun, self.written - self.begun, _START_WRITING
                )
            self.begun = self.written
        return count

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def _keeps_its_place(path: str, old: os.stat_result) -> bool:
    if old.st_nlink == 1 or not os.access(path, os.W_OK):
        return False
    with _lock_of_mappings:
        return not _is_mapped((old.st_dev, old.st_ino))


def _overwrite(path: str, source: IO[bytes]) -> None:
    source.seek(0)
    with open(path, "r+b") as file:
        if fcntl is not None:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        shutil.copyfileobj(source, file, 1 << 24)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())


def _prefix(name: str) -> str:
    # The name's end gives way where the file system allows no longer one.
    while len(os.fsencode(name)) > _MOST_BYTES_OF_A_NAME - len(".0123456789ab.tmp"):
        name = name[:-1]
    return name


def _open_beside(
    folder: str, name: str, path: str, old: os.stat_result | None
) -> tuple[IO[bytes], str]:
    """A new locked file and its path, with mode, owner and attributes of the old one at `path`."""
    while True:
        temporary = os.path.join(folder, f"{_prefix(name)}.{secrets.token_hex(6)}.tmp")
        # Nobody may read in between what the old file's mode hides.
        mode = 0o666 if old is None else 0o600
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        file = os.fdopen(os.open(temporary, flags, mode), "w+b")
        try:
            # Another writer may have taken it for a leftover before it was locked.
            if _lock(file) and _is_at(file, temporary):
                if old is not None:
                    _take_over(file, temporary, path, old)
                return file, temporary
        except BaseException:
            file.close()
            os.unlink(temporary)
            raise
        file.close()


def _take_over(file: IO[bytes], path: str, source: str, old: os.stat_result) -> None:
    if hasattr(os, "fchown"):
        now = os.fstat(file.fileno())
        try:
            if (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid):
                os.fchown(file.fileno(), old.st_uid, old.st_gid)
        except PermissionError:
            pass  # only the administrator gives files away
    if hasattr(os, "listxattr"):
        # Some are the system's own, and not every file system takes them: what can be kept is.
        with contextlib.suppress(OSError):
            for attribute in os.listxattr(source):
                with contextlib.suppress(OSError):
                    os.setxattr(path, attribute, os.getxattr(source, attribute))
    os.chmod(path, stat.S_IMODE(old.st_mode))


def _lock(file: Any) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks
    return True


def _is_at(file: Any, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _clear(folder: str, name: str) -> None:
    """Remove what writers of this path left behind when they were killed."""
    if fcntl is None:
        return
    pattern = re.compile(re.escape(_prefix(name)) + r"\.[0-9a-f]{12}\.tmp")
    try:
        found = [n for n in os.listdir(folder) if pattern.fullmatch(n)]
    except OSError:
        return  # a folder that may be written but not listed
    for leftover in found:
        path = os.path.join(folder, leftover)
        try:
            with open(path, "rb") as file:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
        except OSError:
            continue  # in use, gone, or another's
