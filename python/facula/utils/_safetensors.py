"""The safetensors format: a length, a JSON header, and the tensors' bytes.

    u64 little-endian: n | n bytes of JSON | data
    JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
           "__metadata__": {"key": "text"}}

Source: https://github.com/huggingface/safetensors#format. Every rule that it states is checked:
header at most 100 MB, no duplicate names, offsets in range that cover the data without holes.
"""

from __future__ import annotations

import io
import json
import math
import mmap as mmap_module
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from facula.utils._atomic import note_mapping

__all__ = [
    "ITEM_BITS",
    "Contents",
    "Entry",
    "FormatError",
    "header",
    "parse_json",
    "read",
    "take",
]

MAX_HEADER = 100_000_000

ITEM_BITS = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "I64": 64,
    "U64": 64,
    "F64": 64,
    "C64": 64,
}


def header(parts: list[tuple[str, str, list[int], memoryview]], metadata: dict[str, str]) -> bytes:
    """The bytes before the data, for (name, dtype code, shape, bytes) in the order of the data."""
    table: dict[str, Any] = {"__metadata__": metadata}
    begin = 0
    for name, code, shape, buffer in parts:
        end = begin + buffer.nbytes
        table[name] = {"dtype": code, "shape": shape, "data_offsets": [begin, end]}
        begin = end
    try:
        text = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the name of a tensor holds {error.object[error.start]!r}, which UTF-8 cannot encode"
        ) from None
    # Spaces are allowed at the end: they align the data for any vector load.
    text += b" " * (-(8 + len(text)) % 64)
    if len(text) > MAX_HEADER:
        raise ValueError(f"the header would have {len(text)} bytes, the format allows {MAX_HEADER}")
    return len(text).to_bytes(8, "little") + text


# A header may hold the CRC-32 of itself, computed with zeros in its place.
_SEAL = "header_crc32"
_ZEROS = "0" * 8
UNSEALED = {_SEAL: _ZEROS}
_SEAL_PATTERN = re.compile(rb'"%s":"([0-9a-f]{8})"' % _SEAL.encode())


def seal(header: bytes) -> bytes:
    """Fill in the checksum of a header that was made with `UNSEALED` in its metadata."""
    (start, end) = _only_match(header).span(1)  # type: ignore[union-attr]
    return header[:start] + b"%08x" % zlib.crc32(header) + header[end:]


def _only_match(header: bytes) -> re.Match[bytes] | None:
    found = list(_SEAL_PATTERN.finditer(header))
    return found[0] if len(found) == 1 else None


class Entry(NamedTuple):
    """One tensor in a file; begin and end count from the start of the data."""

    code: str
    shape: tuple[int, ...]
    begin: int
    end: int


class FormatError(ValueError):
    """A file is not what its format says; the message names the file and the fault."""


class Contents:
    """A checked file: its entries, its metadata, and access to its bytes."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.entries: dict[str, Entry] = {}
        self.metadata: dict[str, str] = {}
        self.data_start = 0
        self.buffer: Any = b""

    def fault(self, what: str) -> FormatError:
        """An error that names the file."""
        return FormatError(f"load(): {self.path!r} cannot be read: {what}")

    def buffer_of(self, name: str) -> tuple[Any, int]:
        """A writable buffer and the offset in it at which the tensor's bytes start."""
        entry = self.entries[name]
        offset = self.data_start + entry.begin
        if offset % max(1, ITEM_BITS[entry.code] // 8) == 0:
            return self.buffer, offset
        # Other writers need not align; a tensor must be.
        return bytearray(memoryview(self.buffer)[offset : self.data_start + entry.end]), 0

    def is_sealed(self) -> bool:
        """Whether the header holds a checksum of itself that is right."""
        header = bytes(memoryview(self.buffer)[: self.data_start])
        match = _only_match(header)
        if match is None:
            return False
        start, end = match.span(1)
        cleared = header[:start] + _ZEROS.encode() + header[end:]
        return match[1] == b"%08x" % zlib.crc32(cleared)

    def crc32(self) -> int:
        """CRC-32 of the data."""
        return crc32(memoryview(self.buffer)[self.data_start :])


def in_parts(buffer: Any) -> Iterator[memoryview]:
    """The bytes of a buffer, a part at a time: Python sees signals between calls alone."""
    view = memoryview(buffer).cast("B")
    for start in range(0, len(view), 1 << 26):
        yield view[start : start + (1 << 26)]


def crc32(buffer: Any, crc: int = 0) -> int:
    """CRC-32 of a buffer, going on from that of what comes before it."""
    for part in in_parts(buffer):
        crc = zlib.crc32(part, crc)
    return crc


def parse_json(text: str | bytes, fault: Callable[[str], FormatError]) -> Any:
    """Read JSON strictly: no duplicate keys, no NaN, no surrogates that UTF-8 cannot hold."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [k for k, _ in pairs]
            twice = next(k for k in names if names.count(k) > 1)
            raise fault(f"the name {twice!r} occurs twice")
        return found

    def refuse(constant: str) -> Any:
        raise fault(f"its JSON contains {constant}")

    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        return json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    except UnicodeDecodeError as error:
        raise fault(f"its header is not UTF-8 ({error.reason} at byte {error.start})") from error
    except json.JSONDecodeError as error:
        raise fault(f"its header is not JSON ({error.msg} at character {error.pos})") from error
    except RecursionError as error:
        raise fault("its JSON is nested too deeply") from error
    except FormatError:
        raise
    except ValueError as error:
        raise fault(f"its JSON is malformed ({error})") from error


def _guess(start: bytes | bytearray) -> str | None:
    """What a file that is not of this format seems to be."""
    if start[:4] == b"PK\x03\x04":
        return "it is a zip archive, probably written by torch.save or numpy.savez"
    if start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "it is a pickle, probably written by torch.save; pickles can run code"
    if start[:6] == b"\x93NUMPY":
        return "it is a NumPy array (.npy)"
    if start[:8] == b"\x89HDF\r\n\x1a\n":
        return "it is an HDF5 file"
    if start[:4] == b"GGUF":
        return "it is a GGUF file"
    return None


def read(source: Any, mmap: bool = True) -> Contents:
    """Read and check a file, named by its path or open for reading bytes.

    The data of a path is mapped copy-on-write, or read into memory; an open file, a pipe or a
    device is read to its end.

    Raises:
        FormatError: naming the file and what is wrong with it. OSError: it cannot be opened.
    """
    if hasattr(source, "read"):
        name = getattr(source, "name", None)
        return _read_stream(
            source, Contents(name if isinstance(name, str) else type(source).__name__)
        )
    contents = Contents(source)
    with open(source, "rb") as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode):  # a pipe or a device has no size
            return _read_stream(file, contents)
        size = info.st_size
        _read_header(contents, file, size)
        # A file of several names is written in place, under the feet of who maps it.
        if mmap and info.st_nlink == 1:
            # Private pages: in-place operations change the process's copy, never the file.
            contents.buffer = mmap_module.mmap(file.fileno(), size, access=mmap_module.ACCESS_COPY)
            note_mapping(contents.buffer, file)
        else:
            file.seek(0)
            contents.buffer = bytearray(size)
            if sum(file.readinto(part) for part in in_parts(contents.buffer)) != size:
                raise contents.fault("it became shorter while it was read")
    return contents


def _read_stream(stream: Any, contents: Contents) -> Contents:
    """Read a stream, which need not seek, to its end; one that is no such file to its header's."""
    data = bytearray()
    take(stream, contents, data, 16)
    if len(data) == 16 and _guess(data) is None:
        length = int.from_bytes(data[:8], "little")
        if length <= MAX_HEADER:
            # An endless stream has no header: it is not read for ever.
            take(stream, contents, data, max(0, 8 + length - 16))
            if len(data) >= 8 + length:
                parse_json(bytes(memoryview(data)[8 : 8 + length]), contents.fault)
                take(stream, contents, data, -1)
    _read_header(contents, io.BytesIO(data), len(data))
    contents.buffer = data
    return contents


def take(stream: Any, contents: Contents, data: bytearray, count: int) -> None:
    """Append the next `count` bytes of a stream, or all that are left for -1."""
    while count != 0:
        part = stream.read(min(count, 1 << 26))
        if part is None:
            raise BlockingIOError(
                f"load(): {contents.path!r} has no more bytes now; open it in blocking mode"
            )
        if not isinstance(part, (bytes, bytearray)):
            raise TypeError(
                f"load(): {contents.path!r} gives {type(part).__name__}, expected bytes: open the "
                "file in binary mode ('rb')"
            )
        if not part:
            return
        data += part
        count -= len(part) if count > 0 else 0


def _read_header(contents: Contents, file: Any, size: int) -> None:
    fault = contents.fault
    start = file.read(16)
    guess = _guess(start)
    if guess is not None:
        raise fault(f"{guess}. Convert it to safetensors with the program that wrote it")
    if len(start) < 8:
        raise fault(f"it has {size} bytes, expected at least 8")
    length = int.from_bytes(start[:8], "little")
    if length > MAX_HEADER:
        raise fault(
            f"its header would have {length} bytes, the format allows {MAX_HEADER}: "
            "it is not a safetensors file"
        )
    if 8 + length > size:
        raise fault(f"it is cut short: {size} bytes, its header alone needs {8 + length}")
    file.seek(8)
    table = parse_json(file.read(length), fault)
    contents.data_start = 8 + length
    _check(contents, table, size - contents.data_start)


def _natural(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _check(contents: Contents, table: Any, data_size: int) -> None:
    fault = contents.fault
    if not isinstance(table, dict):
        raise fault(f"its header is a JSON {type(table).__name__}, expected an object")
    metadata = table.pop("__metadata__", {})
    if not isinstance(metadata, dict) or any(type(v) is not str for v in metadata.values()):
        raise fault("its __metadata__ is not a dictionary of texts")
    contents.metadata = metadata
    for name, info in table.items():
        if not isinstance(info, dict) or set(info) != {"dtype", "shape", "data_offsets"}:
            raise fault(f"the entry of {name!r} needs dtype, shape and data_offsets")
        code, shape, offsets = info["dtype"], info["shape"], info["data_offsets"]
        if not isinstance(code, str) or code not in ITEM_BITS:
            raise fault(f"tensor {name!r} has the unknown dtype {code!r}")
        if not isinstance(shape, list) or not all(map(_natural, shape)):
            raise fault(f"tensor {name!r} has the shape {shape!r}, expected natural numbers")
        if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_natural, offsets)):
            raise fault(f"tensor {name!r} has the data_offsets {offsets!r}, expected two numbers")
        begin, end = offsets
        if begin > end:
            raise fault(f"tensor {name!r} ends at {end}, before its start at {begin}")
        if end > data_size:
            raise fault(
                f"it is cut short: tensor {name!r} needs {end} bytes of data, there are {data_size}"
            )
        needed = math.prod(shape) * ITEM_BITS[code] // 8
        if needed != end - begin:
            raise fault(
                f"tensor {name!r} of dtype {code} and shape {shape} needs {needed} bytes, "
                f"its data_offsets give {end - begin}"
            )
        contents.entries[name] = Entry(code, tuple(shape), begin, end)
    _check_cover(contents, data_size)


def _check_cover(contents: Contents, data_size: int) -> None:
    """No overlaps and no holes: a file says each of its bytes once."""
    position = 0
    by_place = sorted(contents.entries.items(), key=lambda item: (item[1].begin, item[1].end))
    for name, entry in by_place:
        if entry.begin < position:
            raise contents.fault(f"tensor {name!r} overlaps the one before it")
        if entry.begin > position:
            raise contents.fault(f"there is a hole in the data before tensor {name!r}")
        position = entry.end
    if position != data_size:
        raise contents.fault(f"there are {data_size} bytes of data, its tensors cover {position}")
