"""The dynamic symbols of a shared object: what it wants and gives, and that it may lack some.

An extension's references to facula are made weak, so that the loader takes one that was built for
another facula, and its first lines can say so (`facula/module.h`) where the loader would speak of
an undefined symbol.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_OURS = re.compile(rb"_Z(?:NK?|T[ISVWH]N)6facula")
_DYNSYM = 11
_GLOBAL, _WEAK = 1, 2


class Symbol(NamedTuple):
    name: str
    place: int  # of its record in the file
    binding: int
    type: int
    defined: bool


def symbols(path: Path) -> list[Symbol]:
    """The dynamic symbols of facula's names; none of a file that is no 64-bit little-endian ELF."""
    with path.open("rb") as file:
        data = file.read()
    return list(_symbols(data))


def holds_runtime(path: Path) -> bool:
    """Whether libstdc++ is linked into it, which the text of its last words tells."""
    return b"terminate called recursively" in path.read_bytes()


def _symbols(data: bytes) -> Iterator[Symbol]:
    if data[:6] != b"\x7fELF\x02\x01":
        return
    (start,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * size) for i in range(count)]
    for section in sections:
        if section[1] != _DYNSYM:
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], section[9]):
            offset, info, _, index = struct.unpack_from("<IBBH", data, at)
            name = data[names + offset : data.index(b"\0", names + offset)]
            if _OURS.match(name):
                yield Symbol(name.decode(), at, info >> 4, info & 15, index != 0)


def weaken(path: Path) -> None:
    """Lets the loader leave facula's functions open that it does not find."""
    with path.open("r+b") as file:
        for symbol in symbols(path):
            if not symbol.defined and symbol.binding == _GLOBAL:
                file.seek(symbol.place + 4)
                file.write(bytes([_WEAK << 4 | symbol.type]))


def missing(path: Path, core: Path) -> list[str]:
    """What an extension wants of facula and facula does not give, as the linker calls it."""
    given = {s.name for s in symbols(core) if s.defined}
    return [s.name for s in symbols(path) if not s.defined and s.name not in given]
