"""What `save` and `load` take for granted, and programs may set, under torch's names."""

from __future__ import annotations

import enum
import mmap
from typing import Any

__all__ = [
    "LoadEndianness",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
]


class LoadEndianness(enum.Enum):
    """The order of bytes of a file that does not say its own."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_order: LoadEndianness | None = None
_writes_crc32 = True
_mmap_flags: int = getattr(mmap, "MAP_PRIVATE", 2)


def get_default_load_endianness() -> LoadEndianness | None:
    """What was set by `set_default_load_endianness`; None means little."""
    return _order


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Say in which order bytes stand in zip archives without a member "byteorder".

    Raises:
        TypeError: it is neither a LoadEndianness nor None.
    """
    global _order
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError(f"Invalid argument type in function set_default_load_endianness: "
                        f"{endianness!r}; expected a LoadEndianness or None")  # fmt: skip
    _order = endianness


def get_crc32_options() -> bool:
    """Whether `save` computes checksums."""
    return _writes_crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Say whether `save` computes the checksums of what it writes in torch's form.

    Without them `load(verify=True)` finds nothing to compare, and zip tools call members damaged.
    """
    global _writes_crc32
    _writes_crc32 = bool(compute_crc32)


def get_default_mmap_options() -> int:
    """The flags of `load(mmap=True)`: `mmap.MAP_PRIVATE` or `mmap.MAP_SHARED`."""
    return _mmap_flags


class set_default_mmap_options:
    """Set the flags of `load(mmap=True)`, for good, or within a `with`.

    With `mmap.MAP_SHARED` what is written to tensors is written to the file.

    Raises:
        ValueError: other flags than `mmap.MAP_PRIVATE` and `mmap.MAP_SHARED`.
    """

    def __init__(self, flags: int) -> None:
        global _mmap_flags
        known = (mmap.MAP_PRIVATE, mmap.MAP_SHARED)
        if flags not in known:
            raise ValueError(
                f"Invalid argument in function set_default_mmap_options: expected "
                f"mmap.MAP_PRIVATE or mmap.MAP_SHARED, but got {flags}"
            )
        self._before, _mmap_flags = _mmap_flags, flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        global _mmap_flags
        _mmap_flags = self._before
