"""Zip archives as torch writes them: stored members, each on a boundary of 64 bytes, sizes after.

    local header | name | padding | data | descriptor: crc, sizes   ... per member
    central directory: name, crc, sizes, place of every member | its own place

Source: PKWARE's APPNOTE.TXT, 4.3 (layout), 4.5.3 (zip64). Nothing is ever extracted to a file.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from facula import _C
from facula.utils._safetensors import crc32, in_parts

__all__ = ["CONTENT_ID", "STORED", "Archive", "Member", "Writer", "content_id"]

# The member that says by checksums of names and checksums what the archive holds.
CONTENT_ID = ".data/serialization_id"
_ALIGNMENT = 64
_MOST_32 = 0xFFFFFFFF
_MOST_16 = 0xFFFF
# Numbers from here on are written in fields of 64 bits, and _MOST_32 in their place.
_LARGE = _MOST_32
_HAS_DESCRIPTOR, _IS_UTF8 = 0x8, 0x800
STORED, _DEFLATED = 0, 8
_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END_64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR = struct.Struct("<4sIQI")
# What inflates beyond this many times the archive's size, and some, is a bomb.
_MOST_INFLATION, _SOME = 16, 1 << 24
_NEAR = 1 << 12  # bytes at the end that hold most directories
_MANY = 1 << 20  # bytes from which on a checksum gets a thread


def content_id(parts: Iterable[tuple[bytes, int]]) -> bytes:
    """What `CONTENT_ID` holds, of names and checksums of all members before it.

    Torch has 40 digits there too, which another function gives.
    """
    columns = zip(*((raw, crc.to_bytes(4, "little")) for raw, crc in parts), strict=True)
    return "".join(f"{zlib.crc32(b''.join(column)):020d}" for column in columns).encode()


class Member(NamedTuple):
    """One file of an archive; `start` is where its bytes are, `packed` their number there."""

    method: int
    crc: int
    packed: int
    size: int
    header: int
    start: int


class Archive:
    """A checked directory of a zip archive in memory.

    Args:
        buffer: the whole file, as `Source` has it.
        fault: makes the error for what is wrong with the file.
    """

    def __init__(self, buffer: Any, fault: Callable[[str], Exception]) -> None:
        self.buffer, self.fault = buffer, fault
        self.inflated = 0
        begin, size, count = self._directory()
        directory = bytes(buffer[begin : begin + size])
        # What is wrong with its entries, and members that overlap, are found there.
        self.members: dict[str, Member] = _C._zip_members(
            getattr(buffer, "number", buffer), directory, begin, count, Member, fault
        )

    def _directory(self) -> tuple[int, int, int]:
        """Place, size and number of entries of the central directory."""
        buffer, end = self.buffer, len(self.buffer)
        buffer[max(0, end - _NEAR) : end]  # what is read of a file is then all that is needed
        place = end - _END.size  # where there is no comment
        if place < 0 or buffer[place : place + 4] != b"PK\x05\x06":
            place = buffer.rfind(b"PK\x05\x06", max(0, end - _END.size - _MOST_16))
        if place < 0 or place + _END.size > end:
            raise self.fault("it is a zip archive that is cut short: its end record is missing")
        *_, count, size, begin, comment = _END.unpack(buffer[place : place + _END.size])
        if place + _END.size + comment != end:
            raise self.fault("it is a zip archive with bytes after its end record")
        last = place
        locator = place - _LOCATOR.size
        if locator >= 0 and buffer[locator : locator + 4] == b"PK\x06\x07":
            _, _, last, _ = _LOCATOR.unpack(buffer[locator:place])
            if last + _END_64.size > locator or buffer[last : last + 4] != b"PK\x06\x06":
                raise self.fault("its zip64 end record is not where it should be")
            *_, count, size, begin = _END_64.unpack(buffer[last : last + _END_64.size])
        if begin + size != last:
            raise self.fault(
                f"its directory of {size} bytes at {begin} does not end where its end record is"
            )
        return begin, size, count

    def read(self, name: str) -> bytes:
        """The bytes of a member, inflated where need be.

        They are compared with its checksum; writers that computed none have left 0 there.
        """
        member = self.members[name]
        data = bytes(self.buffer[member.start : member.start + member.packed])
        if member.method == _DEFLATED:
            data = self._inflate(name, data, member.size)
        checksum = crc32 if len(data) > _MANY else zlib.crc32
        if member.crc and checksum(data) != member.crc:
            raise self._changed(name)
        return data

    def _inflate(self, name: str, data: bytes, size: int) -> bytes:
        self.inflated += size
        if self.inflated > _MOST_INFLATION * len(self.buffer) + _SOME:
            raise self.fault(
                f"its member {name!r} would inflate to {size} bytes, far more than the archive has;"
                " store it uncompressed (zip -0)"
            )
        machine = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            result = machine.decompress(data, size + 1)
        except zlib.error as error:
            raise self.fault(f"its member {name!r} cannot be inflated ({error})") from None
        if len(result) != size:
            raise self.fault(f"its member {name!r} does not inflate to {size} bytes")
        return result

    def check(self) -> None:
        """Compare all members with their checksums, and of `Writer`'s archives all the rest."""
        for name, member in self.members.items():
            if member.size and not member.crc:
                raise self.fault(f"its member {name!r} has no checksum to verify")
            if member.method == _DEFLATED:
                self.read(name)
                continue
            crc, end = 0, member.start + member.packed
            for at in range(member.start, end, 1 << 24):
                crc = zlib.crc32(self.buffer[at : min(at + (1 << 24), end)], crc)
            if crc != member.crc:
                raise self._changed(name)
        if self._is_own():
            self._check_frame()

    def _is_own(self) -> bool:
        """Whether `save` wrote it: then it holds a member that nothing else has."""
        last = next(reversed(self.members), "")
        if not last.endswith("/" + CONTENT_ID) or not self.is_stored(last):
            return False
        parts = [(n.encode(), m.crc) for n, m in self.members.items()][:-1]
        return bool(parts) and self.read(last) == content_id(parts)

    def _check_frame(self) -> None:
        """Compare headers, padding and directory with those that `Writer` makes of the members."""

        def compare(data: bytes) -> None:
            at = writer.position
            if bytes(self.buffer[at : at + len(data)]) != data:
                raise self.fault(
                    f"its {len(data)} bytes at {at}, which are no data, are not those that were"
                    " written"
                )

        writer = Writer(compare)
        for name, member in self.members.items():
            header = writer.position
            writer.begin(name, member.size)
            writer.position += member.size
            writer.end(name, member.crc, member.size, header)
        writer.close()

    def _changed(self, name: str) -> Exception:
        return self.fault(f"its member {name!r} does not match its checksum")

    def is_stored(self, name: str) -> bool:
        return self.members[name].method == STORED


class Writer:
    """Writes an archive to a stream that need not seek.

    Args:
        write: takes a bytes-like object, all of it.
        checksums: whether members have any; 0 stands there otherwise.
    """

    def __init__(self, write: Callable[[Any], Any], checksums: bool = True) -> None:
        self._write, self.checksums = write, checksums
        self.position = 0
        self.directory: list[tuple[bytes, int, int, int]] = []

    def write(self, data: Any) -> None:
        self._write(data)
        self.position += len(data)

    def add(self, name: str, data: Any) -> None:
        """Append a member with the bytes of `data`."""
        view = memoryview(data).cast("B")
        header = self.position
        self.begin(name, len(view))
        self.end(name, self._write_with_crc(view), len(view), header)

    def begin(self, name: str, size: int) -> None:
        """Write what is before the bytes of a member."""
        raw, header = name.encode(), self.position
        large = size >= _LARGE
        # Sizes come after the data; those of 64 bits are announced by an empty zip64 field.
        extra = struct.pack("<HH2Q", 1, 16, 0, 0) if large else b""
        pad = -(header + _LOCAL.size + len(raw) + len(extra) + 4) % _ALIGNMENT
        extra += struct.pack("<2sH", b"FB", pad) + b"Z" * pad
        flags = _IS_UTF8 | _HAS_DESCRIPTOR
        self.write(_LOCAL.pack(b"PK\x03\x04", 45 if large else 20, flags, STORED, 0, 0, 0, 0, 0,
                               len(raw), len(extra)) + raw + extra)  # fmt: skip

    def end(self, name: str, crc: int, size: int, header: int) -> None:
        """Write what is after the bytes of a member whose header is at `header`, and note it."""
        form = "<4sI2Q" if size >= _LARGE else "<4s3I"
        self.write(struct.pack(form, b"PK\x07\x08", crc, size, size))
        self.directory.append((name.encode(), crc, size, header))

    def _write_with_crc(self, view: memoryview) -> int:
        """Write, and compute the checksum meanwhile: neither needs the interpreter."""
        if not self.checksums:
            for part in in_parts(view):
                self.write(part)
            return 0
        if len(view) < _MANY:
            self.write(view)
            return zlib.crc32(view)
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(crc32(view)))
        thread.start()
        try:
            for part in in_parts(view):
                self.write(part)
        finally:
            thread.join()
        return found[0]

    def close(self) -> None:
        """Write the directory."""
        begin = self.position
        for raw, crc, size, header in self.directory:
            large = [n for n in (size, size, header) if n >= _LARGE]
            extra = struct.pack(f"<HH{len(large)}Q", 1, 8 * len(large), *large) if large else b""
            small, place = (n if n < _LARGE else _MOST_32 for n in (size, header))
            version = 45 if large else 20
            flags = _IS_UTF8 | _HAS_DESCRIPTOR
            self.write(_CENTRAL.pack(b"PK\x01\x02", version, version, flags, STORED, 0, 0, crc,
                                     small, small, len(raw), len(extra), 0, 0, 0, 0, place)
                       + raw + extra)  # fmt: skip
        size, count, end = self.position - begin, len(self.directory), self.position
        if begin >= _LARGE or size >= _LARGE or count >= _MOST_16:
            self.write(_END_64.pack(b"PK\x06\x06", _END_64.size - 12, 45, 45, 0, 0, count, count,
                                    size, begin))  # fmt: skip
            self.write(_LOCATOR.pack(b"PK\x06\x07", 0, end, 1))
        few = min(count, _MOST_16)
        begin, size = (n if n < _LARGE else _MOST_32 for n in (begin, size))
        self.write(_END.pack(b"PK\x05\x06", 0, 0, few, few, size, begin, 0))  # fmt: skip
