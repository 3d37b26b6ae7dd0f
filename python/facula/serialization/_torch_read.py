"""torch's files: the zip archive of today, the row of pickles of 2017, the tar archive before.

    zip: NAME/data.pkl, NAME/data/KEY for each storage, NAME/byteorder
    row: magic number | protocol | system | object | keys | for each: int64 count, its bytes
    tar: storages (pickles, then bytes), tensors (pickles, then numbers), pickle (the object)

In all of them the object's pickle says tensors by calls of torch's functions and storages by
persistent ids. Source: torch/serialization.py of torch 2.13.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys
from collections.abc import Callable
from typing import Any

import facula
from facula.serialization import _options
from facula.serialization._globals import STORAGES, Globals, StorageType, counterpart
from facula.serialization._machine import Machine, Malformed
from facula.serialization._rebuild import Rebuild
from facula.serialization._source import Source, swapped
from facula.serialization._zip import STORED, Archive
from facula.utils._safetensors import FormatError

__all__ = ["MAGIC", "PROTOCOL", "Reader", "kind_of"]

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001


def kind_of(start: bytes) -> str | None:
    """Which of torch's forms a file has, by its first bytes."""
    if start[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return "zip"
    if start[:1] == b"\x80" and MAGIC.to_bytes(10, "little") in start[:32]:
        return "row"
    if start[257:262] == b"ustar" and start[:8] in (
        b"sys_info",
        b"storages",
        b"tensors\0",
        b"pickle\0\0",
    ):
        return "tar"
    return None


class _Anything:
    """Stands for whatever a pickle makes while it is looked through."""

    def extend(self, _: Any) -> None: ...
    def __setitem__(self, *_: Any) -> None: ...


class _Look:
    """`Globals` that allow everything and do nothing; they note what a pickle names."""

    def __init__(self) -> None:
        self.names: list[tuple[str, str]] = []

    def find(self, module: str, name: str) -> Any:
        self.names.append((module, name))
        kind = STORAGES.get(name.removesuffix("Storage"))
        if name.endswith("Storage") and module.partition(".")[0] == "torch":
            return StorageType(getattr(facula, kind) if kind else None)
        return _Anything()

    def call(self, function: Any, args: Any) -> Any:
        return _Anything()

    def make(self, cls: Any, args: Any, kwargs: Any) -> Any:
        return _Anything()

    def build(self, value: Any, state: Any) -> None: ...

    def fills(self, value: Any) -> bool:
        return isinstance(value, _Anything)


class Reader:
    """One file.

    Args:
        source: its bytes.
        place: puts a tensor where it belongs: (tensor, location) -> tensor.
        code: None, or the class of an unpickler that may call anything.
        encoding: of Python 2's strings.
    """

    def __init__(
        self,
        source: Source,
        place: Callable[[Any, str], Any],
        code: type[pickle.Unpickler] | None = None,
        encoding: str = "utf-8",
    ) -> None:
        self.source, self.place, self.code, self.encoding = source, place, code, encoding
        self.fault = source.fault
        self.swap = False
        # Of storages by key: bytes, and where they are in a mapped file or else themselves.
        self.sizes: dict[Any, int] = {}
        self.places: dict[Any, tuple[int, int]] = {}
        self.raw: dict[Any, Any] = {}
        self.placed: dict[Any, Any] = {}
        self.own_error: Exception | None = None
        self.names = Globals(Rebuild(len(source)), source.path)

    def result(self, kind: str, verify: bool) -> Any:
        """The object in the file."""
        read = {"zip": self._zip, "row": self._row, "tar": self._tar}[kind]
        try:
            if verify and kind != "zip":
                raise Malformed("it has no checksum to verify")
            return read(verify) if kind == "zip" else read()  # type: ignore[call-arg]
        except FormatError:
            raise
        except Malformed as error:
            raise self.fault(str(error)) from error.__cause__
        except Exception as error:
            if error is self.own_error or self.code is not None:
                raise
            # A hostile pickle may make anything in it the wrong kind of thing.
            raise self.fault(
                f"its pickle is malformed ({type(error).__name__}: {error})"
            ) from error
        finally:
            self.source.close()

    def refused(self, kind: str) -> list[str]:
        """The names in the file that may not stand there, in order."""
        looked: list[_Look] = []

        def run(data: Any, at: int, persistent: Any, end: int | None = None) -> Any:
            looked.append(_Look())
            Machine(data, at, looked[0], lambda _: _Anything(), self.encoding).run()

        self._run = run  # type: ignore[method-assign]
        self.result(kind, False)
        names = dict.fromkeys(looked[0].names)
        return [f"{module}.{name}" for module, name in names if not self.names.takes(module, name)]

    # ---- the zip archive

    def _zip(self, verify: bool) -> Any:
        archive = Archive(self.source.buffer, self.fault)
        root = self._root(archive)
        if verify:
            archive.check()
        known = root + "byteorder" in archive.members
        order = archive.read(root + "byteorder") if known else _order_of_others()
        if order not in (b"little", b"big"):
            raise Malformed(f"its byte order is {order[:20]!r}, expected little or big")
        self.swap = order == b"big"
        self._read_members(archive, root + "data/")

        storage = self._storage

        def persistent(key: Any) -> Any:
            if not isinstance(key, tuple) or len(key) != 5:
                raise Malformed("its pickle has a storage without type, key, location and size")
            return storage(*key[1:])

        return self._run(archive.read(root + "data.pkl"), 0, persistent)

    def _root(self, archive: Archive) -> str:
        names = [n for n in archive.members if n.endswith("/data.pkl") and n.count("/") == 1]
        if len(names) != 1:
            if any(n.endswith(".npy") for n in archive.members):
                raise Malformed("it is a zip archive of NumPy arrays: use numpy.load")
            raise Malformed("it is a zip archive without data.pkl, which torch's files have")
        root = names[0].removesuffix("data.pkl")
        if root + "constants.pkl" in archive.members:
            raise Malformed(
                "it is a TorchScript archive; save the state_dict() of the module in torch instead"
            )
        return root

    def _read_members(self, archive: Archive, start: str) -> None:
        skip = len(start)
        places, packed = {}, []
        for name, member in archive.members.items():
            if name.startswith(start):
                if member.method == STORED:
                    places[name[skip:]] = member.start, member.size
                else:
                    packed.append(name)
        self._take(places)
        for name in packed:
            data = bytearray(archive.read(name))
            self.raw[name[skip:]] = (
                facula.frombuffer(data, dtype=facula.uint8)
                if data
                else facula.empty(0, dtype=facula.uint8)
            )
            self.sizes[name[skip:]] = len(data)

    def _take(self, places: dict[Any, tuple[int, int]]) -> None:
        """Have the storages with these keys, at (start, count); of a mapped file when used."""
        self.sizes = {key: count for key, (_, count) in places.items()}
        if self.source.is_mapped:
            self.places = places
        else:
            self.raw = dict(zip(places, self.source.parts(list(places.values())), strict=True))

    # ---- the row of pickles

    def _row(self) -> Any:
        at = 0
        head = []
        for _ in range(3):
            machine = Machine(self.source.buffer, at, _Look(), encoding=self.encoding)
            head.append(machine.run())
            at = machine.at
        if head[0] != MAGIC or head[1] != PROTOCOL:
            raise Malformed("it has not the magic number and protocol of torch's files")
        sizes, end = self._look_through(at)
        machine = Machine(self.source.buffer, end, _Look(), encoding=self.encoding)
        keys = machine.run()
        if not isinstance(keys, list):
            raise Malformed("it has no list of storages")
        self._read_row(keys, sizes, machine.at)

        def persistent(key: Any) -> Any:
            if key[0] in ("module", b"module"):
                return key[1]
            if len(key) not in (5, 6):
                raise Malformed("its pickle has a storage without type, key, location and size")
            kind, root, location, count, view = (*key[1:5], key[5] if len(key) == 6 else None)
            whole = self._storage(kind, root, location, count)
            return whole if view is None else self._part(whole, *view[1:])

        return self._run(self.source.buffer, at, persistent, end)

    def _look_through(self, at: int) -> tuple[dict[Any, int], int]:
        """Bytes of an element of each storage that a pickle names, and the pickle's end."""
        sizes: dict[Any, int] = {}

        def note(key: Any) -> Any:
            if not isinstance(key, tuple) or len(key) < 2:
                raise Malformed("its pickle has a persistent id that is no tuple")
            if key[0] in ("storage", b"storage"):
                if len(key) < 5 or not isinstance(key[1], StorageType):
                    raise Malformed("its pickle has a storage of no type")
                sizes[key[2]] = key[1].dtype.itemsize if key[1].dtype else 1
            return _Anything()

        machine = Machine(self.source.buffer, at, _Look(), note, self.encoding)
        machine.run()
        return sizes, machine.at

    def _read_row(self, keys: list[Any], sizes: dict[Any, int], at: int) -> None:
        places = {}
        for key in keys:
            if key not in sizes:
                raise Malformed(f"its storage {key!r} belongs to no tensor")
            at, places[key] = self._counted(at, sizes[key])
        self._take(places)

    def _counted(self, at: int, size: int) -> tuple[int, tuple[int, int]]:
        """A storage after its number of elements: the place after it, and its own."""
        if at + 8 > len(self.source):
            raise Malformed("it is cut short among its storages")
        (count,) = struct.unpack("<q", self.source.buffer[at : at + 8])
        end = at + 8 + count * size
        if count < 0 or end > len(self.source):
            raise Malformed(f"it is cut short: a storage has {count} elements of {size} bytes")
        return end, (at + 8, count * size)

    def _part(self, whole: Any, offset: Any, count: Any) -> Any:
        return self.names.rebuild.view(whole, offset, (count,), (1,))

    # ---- the tar archive

    def _tar(self) -> Any:
        members = self._tar_members()
        at, end = members["storages"]
        count, at = self._small(at)
        places, keys = {}, []
        for _ in range(_natural(count)):
            (key, location, kind), at = self._small(at)
            if not isinstance(kind, StorageType):
                raise Malformed("it has a storage of no type")
            at, places[key] = self._counted(at, kind.dtype.itemsize if kind.dtype else 1)
            keys.append((key, location, kind))
        views, at = self._small(at)
        if at > end:
            raise Malformed("its storages reach past their member")
        self._take(places)
        made: dict[Any, Any] = {}
        for key, location, kind in keys:
            size = kind.dtype.itemsize if kind.dtype else 1
            made[key] = self._storage(kind, key, location, self.sizes[key] // size)
        for target, root, offset, length in views:
            made[target] = self._part(made[root], offset, length)
        at, end = members["tensors"]
        count, at = self._small(at)
        for _ in range(_natural(count)):
            (key, storage, _), at = self._small(at)
            (dims,) = struct.unpack("<i", self.source.buffer[at : at + 4])
            if not 0 <= dims <= 64 or at + 16 + 16 * dims > end:
                raise Malformed(f"it has a tensor of {dims} dims")
            begin, at = at + 8, at + 16 + 16 * dims
            numbers = struct.unpack(f"<{2 * dims + 1}q", self.source.buffer[begin:at])
            made[key] = self.names.rebuild.view(
                made[storage], numbers[-1], numbers[:dims], numbers[dims:-1]
            )
        at, end = members["pickle"]

        def persistent(key: Any) -> Any:
            return key[0] if isinstance(key, tuple) else made[int(key)]

        return self._run(self.source.buffer, at, persistent, end)

    def _tar_members(self) -> dict[str, tuple[int, int]]:
        """Places of the members of a tar archive; nothing is extracted."""
        members: dict[str, tuple[int, int]] = {}
        at, buffer = 0, self.source.buffer
        while at + 512 <= len(buffer) and buffer[at]:
            name = bytes(buffer[at : at + 100]).split(b"\0")[0].decode("latin1")
            size = int(bytes(buffer[at + 124 : at + 136]).strip(b" \0") or b"0", 8)
            if size < 0 or at + 512 + size > len(buffer):
                raise Malformed(f"it is cut short: its member {name!r} has {size} bytes")
            members[name] = at + 512, at + 512 + size
            at += 512 + -(-size // 512) * 512
        for name in ("storages", "tensors", "pickle"):
            if name not in members:
                raise Malformed(f"it is a tar archive without {name!r}, which torch's files have")
        return members

    def _small(self, at: int) -> tuple[Any, int]:
        """A pickle of plain things, and the place after it."""
        machine = Machine(self.source.buffer, at, self.names, encoding=self.encoding)
        return machine.run(), machine.at

    # ---- what all have

    def _run(
        self, data: Any, at: int, persistent: Callable[[Any], Any], end: int | None = None
    ) -> Any:
        if self.code is None:
            return Machine(data, at, self.names, persistent, self.encoding).run()
        names, fault = self.names, self.fault

        class Unpickler(self.code):  # type: ignore[name-defined, misc]
            def find_class(self, module: str, name: str) -> Any:
                if module.partition(".")[0] != "torch":
                    return super().find_class(module, name)
                entry = names.table.get(f"{module}.{name}")
                value = entry[0] if entry else names._type_of_torch(module, name)
                value = counterpart(f"{module}.{name}") if value is None else value
                if value is None:
                    raise fault(f"it needs {module}.{name}, which facula does not have")
                return value

            def persistent_load(self, key: Any) -> Any:
                return persistent(key)

        return Unpickler(io.BytesIO(bytes(data[at:end])), encoding=self.encoding).load()

    def _storage(self, kind: Any, key: Any, location: Any, count: Any) -> Any:
        """A storage as a 1-d tensor, where it belongs."""
        location = location.decode("ascii") if isinstance(location, bytes) else location
        if not isinstance(kind, StorageType) or type(location) is not str:
            raise Malformed("its pickle has a storage without a type or a location")
        if type(count) is not int or count < 0:
            Rebuild.numbers("a storage's size", (count,))
        dtype = kind.dtype or facula.uint8
        itemsize, size = dtype.itemsize, self.sizes.get(key)
        if size is None:
            raise Malformed(f"its storage {key!r} is missing")
        tensor = self.placed.get(key)
        if tensor is None:
            tensor = self.placed[key] = self._placed(key, dtype, location)
        other = tensor.dtype is not dtype
        if size != count * itemsize or (
            other and tensor.numel() * tensor.element_size() % itemsize
        ):
            raise Malformed(
                f"its storage {key!r} has {size} bytes, not the {count} elements "
                f"of {str(dtype).rpartition('.')[2]} that its pickle says"
            )
        return tensor.view(dtype) if other else tensor

    def _placed(self, key: Any, dtype: Any, location: str) -> Any:
        if self.sizes[key] % dtype.itemsize:
            raise Malformed(f"it has a storage of {self.sizes[key]} bytes of {dtype}")
        typed = self._typed(key, dtype)
        try:
            return self.place(typed, location)
        except Exception as error:
            self.own_error = error
            raise

    def _typed(self, key: Any, dtype: Any) -> Any:
        """A storage's elements in this machine's order of bytes."""
        if key in self.places:
            start, size = self.places[key]
            if size and not self.swap and not start % dtype.itemsize:
                count = size // dtype.itemsize
                return facula.frombuffer(self.source.map, dtype=dtype, count=count, offset=start)
            (data,) = self.source.parts([(start, size)])
        else:
            data = self.raw[key]
        if self.swap:
            data = swapped(data, dtype.itemsize // (2 if dtype.is_complex else 1))
        if data.data_ptr() % dtype.itemsize:
            data = data.clone()  # older writers do not align
        return data.view(dtype)


def _order_of_others() -> bytes:
    """The order of bytes of a file that does not say it."""
    chosen = _options.get_default_load_endianness() or _options.LoadEndianness.LITTLE
    if chosen is _options.LoadEndianness.NATIVE:
        return sys.byteorder.encode()
    return chosen.name.lower().encode()


def _natural(value: Any) -> int:
    Rebuild.numbers("a count", (value,))
    return int(value)
