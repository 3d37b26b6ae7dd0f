"""Replace a file by a new one, whole or not at all.

The new one is written beside the old under a name of its own, which a lock marks as in use, and
moved there once it is on disk. What a killed process left behind has no lock: the next writer
removes it.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Callable
from typing import IO, Any

try:
    import fcntl
except ImportError:  # not a POSIX system: nothing is locked and nothing cleared
    fcntl = None  # type: ignore[assignment]

__all__ = ["write_file"]

_MOST_BYTES_OF_A_NAME = 255


def write_file(path: str, write: Callable[[IO[bytes]], None]) -> None:
    """Call `write` with a file open for writing; `path` gets its bytes once all are on disk.

    A symbolic link stays one: the file that it leads to is replaced. Mode and owner of a file that
    was there are kept. What is no regular file (a pipe, a device) is written to directly.
    """
    try:
        old = os.stat(path)
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        if stat.S_ISDIR(old.st_mode):
            raise IsADirectoryError(f"{path!r} is a directory, expected the path of a file")
        with open(path, "wb") as file:
            write(file)
        return
    path = os.path.realpath(path)
    folder, name = os.path.split(path)
    _clear(folder, name)
    file, temporary = _open_beside(folder, name, old)
    try:
        with file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
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


def _prefix(name: str) -> str:
    # The name's end gives way where the file system allows no longer one.
    while len(os.fsencode(name)) > _MOST_BYTES_OF_A_NAME - len(".0123456789ab.tmp"):
        name = name[:-1]
    return name


def _open_beside(folder: str, name: str, old: os.stat_result | None) -> tuple[IO[bytes], str]:
    """A new locked file and its path, which has the mode and the owner of the old one."""
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
                    _take_over(file, temporary, old)
                return file, temporary
        except BaseException:
            file.close()
            os.unlink(temporary)
            raise
        file.close()


def _take_over(file: IO[bytes], path: str, old: os.stat_result) -> None:
    if hasattr(os, "fchown"):
        now = os.fstat(file.fileno())
        try:
            if (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid):
                os.fchown(file.fileno(), old.st_uid, old.st_gid)
        except PermissionError:
            pass  # only the administrator gives files away
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
