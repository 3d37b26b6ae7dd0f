"""torch's zip archive, and the row of pickles before it, as real torch reads them.

The pickle says torch's names. Python's pickler refuses to write a name that it cannot import, so it
writes facula's and stand-ins of this module, and `_with_torch_names` puts torch's in their place.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import struct
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, time
from types import BuiltinFunctionType, FunctionType
from typing import Any

import facula
from facula.nn.parameter import Buffer, Parameter
from facula.serialization._globals import STORAGES, Globals
from facula.serialization._options import get_crc32_options
from facula.serialization._rebuild import Rebuild
from facula.serialization._torch_read import MAGIC, PROTOCOL
from facula.serialization._tree import bytes_of
from facula.serialization._zip import CONTENT_ID, Writer, content_id
from facula.utils._locations import location_of
from facula.utils._safetensors import in_parts

__all__ = ["write_row", "write_zip"]

_PICKLE_PROTOCOL = 2  # torch's: its names stand in the open


class _Name:
    """Stands for a name of torch's; it is pickled by its place in this module."""

    def __init__(self, module: str, name: str) -> None:
        self.torch = module, name
        self.__module__ = __name__
        self.mine = f"_as_torch {module} {name}".replace(".", "-")

    def __reduce__(self) -> str:
        return self.mine

    def __call__(self, *args: Any) -> Any:
        raise TypeError("stands for a function of torch's")


_names: dict[str, _Name] = {}


def _name(module: str, name: str) -> _Name:
    new = _Name(module, name)
    return _names.setdefault(new.mine, new)


def __getattr__(name: str) -> Any:
    if name in _names:
        return _names[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Storage:
    """Memory that tensors of one dtype share; what the pickler hands to `persistent_id`."""

    def __init__(self, key: str, tensor: Any, kind: _Name, shift: int, size: int) -> None:
        self.key, self.kind, self.shift, self.size = key, kind, shift, size
        self.tensor = tensor  # keeps the memory, so that no other gets its address
        self.location = location_of(tensor.device)
        self.first, self.last = size, 0  # what its tensors have of it

    @property
    def count(self) -> int:
        """Its elements as files count them: bytes where torch has no storage of the dtype."""
        return self.size if _code_of(self.tensor.dtype) else self.size * self.tensor.element_size()

    def bytes(self) -> memoryview:
        flat = self.tensor.detach().as_strided((self.size,), (1,), self.shift)
        return bytes_of(flat)


class _Pickler(pickle.Pickler):
    """Writes one object.

    Args:
        file: takes the pickle.
        wanted: (begin, end) of the elements to write of a storage, where not all of them are.
        row: whether for the row of pickles.
    """

    def __init__(self, file: Any, wanted: dict[Any, tuple[int, int]], row: bool) -> None:
        super().__init__(file, _PICKLE_PROTOCOL)
        self.wanted, self.row = wanted, row
        self.storages: dict[Any, _Storage] = {}
        self.renamed: dict[bytes, bytes] = {}
        self.named: dict[tuple[str, str], None] = {}  # classes and functions that the pickle says
        self.records = False

    # ---- what Python's pickler asks of each object

    def persistent_id(self, value: Any) -> Any:
        if type(value) is not _Storage:
            return None
        key = ("storage", value.kind, value.key, value.location, value.count)
        return (*key, None) if self.row else key

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, facula.Tensor):
            return self._tensor(value)
        if isinstance(value, _Name):
            self._note((__name__, value.mine), value.torch)
            return value.mine
        if isinstance(value, (facula.dtype, facula.memory_format)):
            name = str(value).rpartition(".")[2]
            self._note(("facula", name), ("torch", name))
            return NotImplemented
        if isinstance(value, facula.layout):
            name = "torch." + str(value).rpartition(".")[2]
            return _name("torch.serialization", "_get_layout"), (name,)
        if isinstance(value, facula.Size):
            return _name("torch", "Size"), (tuple(value),)
        if isinstance(value, facula.device):
            args = (value.type,) if value.index is None else (value.type, value.index)
            return _name("torch", "device"), args
        if isinstance(value, (datetime, time)) and value.fold:
            return value.__reduce_ex__(4)  # protocol 2 drops it
        if isinstance(value, (type, FunctionType, BuiltinFunctionType)):
            self._note_class(value)
        elif isinstance(getattr(value, "dtype", None) or value, _array_dtype()):
            self.records |= _has_records(value)
        return NotImplemented

    def _note_class(self, value: Any) -> None:
        """Classes and functions of `nn` and `optim` get torch's names, the shortest they have."""
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if type(module) is not str or type(name) is not str:
            return
        self.named[module, name] = None
        if "." in name:
            return  # a nested class is written by way of its owner, which comes here too
        if not module.startswith(("facula.nn.", "facula.optim.")):
            return
        path = module.split(".")
        places = [".".join(path[:depth]) for depth in range(2, len(path) + 1)]
        for package in ("facula.nn.functional", *places):
            if "._" not in package and getattr(sys.modules.get(package), name, None) is value:
                self._note((module, name), ("torch" + package.removeprefix("facula"), name))
                return

    def _note(self, mine: tuple[str, str], torch: tuple[str, str]) -> None:
        self.named.pop(mine, None)
        self.named[torch] = None
        self.renamed["c{}\n{}\n".format(*mine).encode()] = "c{}\n{}\n".format(*torch).encode()

    # ---- tensors

    def _sparse(self, tensor: Any) -> tuple[Any, ...]:
        if tensor.layout is facula.sparse_coo:
            parts = (tensor._indices(), tensor._values(), tensor.shape, tensor.is_coalesced())
        elif tensor.layout in (facula.sparse_csr, facula.sparse_bsr):
            parts = (tensor.crow_indices(), tensor.col_indices(), tensor._values(), tensor.shape)
        else:
            parts = (tensor.ccol_indices(), tensor.row_indices(), tensor._values(), tensor.shape)
        return _name("torch._utils", "_rebuild_sparse_tensor"), (tensor.layout, parts)

    def _tensor(self, tensor: Any) -> tuple[Any, ...]:
        if tensor.layout is not facula.strided:
            return self._sparse(tensor)
        state = dict(tensor.__dict__)
        if type(tensor) is Parameter:
            function, args = "_rebuild_parameter", (
                tensor.detach(), tensor.requires_grad, OrderedDict(),
            )  # fmt: skip
            if state:
                function, args = "_rebuild_parameter_with_state", (*args, state)
            return _name("torch._utils", function), args
        name, args = self._plain(tensor)
        kind: Any = type(tensor)
        if kind is Buffer:
            state["_is_buffer"] = True
        if not state and kind is facula.Tensor:
            return name, args
        if kind in (facula.Tensor, Buffer):
            kind = _name("torch", "Tensor")
        return _name("torch._tensor", "_rebuild_from_type_v2"), (name, kind, args, state)

    def _plain(self, tensor: Any) -> tuple[_Name, tuple[Any, ...]]:
        size, stride = tuple(tensor.shape), tuple(tensor.stride())
        if tensor.device.type == "meta":
            args = (tensor.dtype, size, stride, tensor.requires_grad)
            return _name("torch._utils", "_rebuild_meta_tensor_no_storage"), args
        storage = self._storage(tensor)
        offset = 0
        if tensor.numel():
            begin = tensor.storage_offset()
            end = begin + 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
            storage.first, storage.last = min(storage.first, begin), max(storage.last, end)
            offset = begin - storage.shift
        args = (storage, offset, size, stride, tensor.requires_grad, OrderedDict())
        if _code_of(tensor.dtype) is None:
            return _name("torch._utils", "_rebuild_tensor_v3"), (*args, tensor.dtype)
        return _name("torch._utils", "_rebuild_tensor_v2"), args

    def _storage(self, tensor: Any) -> _Storage:
        memory = tensor.untyped_storage()
        place = memory.data_ptr() if tensor.numel() else 0
        # One memory under several dtypes is rare, and torch has no word for it: stored apart.
        key = str(tensor.device), place, str(tensor.dtype)
        if key not in self.storages:
            whole = memory.nbytes() // tensor.element_size() if tensor.numel() else 0
            begin, end = self.wanted.get(key, (0, whole))
            code = _code_of(tensor.dtype)
            kind = (
                _name("torch", f"{code}Storage")
                if code
                else _name("torch.storage", "UntypedStorage")
            )
            number = str(len(self.storages))
            self.storages[key] = _Storage(number, tensor, kind, begin, end - begin)
        return self.storages[key]


def _code_of(dtype: Any) -> str | None:
    """What torch's storages of the dtype are called; None where there are bytes alone."""
    name = str(dtype).rpartition(".")[2]
    return next((code for code, known in STORAGES.items() if known == name), None)


def _pickled(obj: Any, row: bool) -> tuple[bytes, list[_Storage]]:
    """The object's pickle, under torch's names, and the storages that it needs."""
    wanted: dict[Any, tuple[int, int]] = {}
    kept = []
    while True:
        file = io.BytesIO()
        pickler = _Pickler(file, wanted, row)
        pickler.dump(obj)
        partly = {
            key: (storage.first, storage.last)
            for key, storage in pickler.storages.items()
            if storage.size and (storage.first, storage.last) != (0, storage.size)
        }
        if wanted or not partly:
            storages = list(pickler.storages.values())
            _tell_refused(pickler)
            return _with_torch_names(file.getvalue(), pickler.renamed), storages
        # Once more, now that it is known what of each storage is in use: a slice is saved alone.
        wanted = partly
        kept.append(pickler.storages)


def _array_dtype() -> Any:
    return getattr(sys.modules.get("numpy"), "dtype", ())


def _has_records(value: Any) -> bool:
    """Whether a dtype, or an array's, is one that only `weights_only=False` reads."""
    dtype = getattr(value, "dtype", value)
    return bool(dtype.hasobject or dtype.fields or dtype.subdtype or dtype.kind == "T")


def _tell_refused(pickler: _Pickler) -> None:
    """Warn of what `load` will refuse as things are, while there still is the object itself."""
    names = Globals(Rebuild(0), "")
    refused = [f"{m}.{n}" for m, n in pickler.named if not names.takes(m, n)]
    if pickler.records and not refused:
        refused = ["arrays of NumPy's of objects or records"]
    if refused:
        shown = ", ".join(refused[:4]) + (f" and {len(refused) - 4} more" if refused[4:] else "")
        classes = ", ".join(n for n in refused[:4] if " " not in n and n[:9] != "builtins.")
        allow = f" or after facula.serialization.add_safe_globals([{classes}])" if classes else ""
        warnings.warn(
            f"save(): the file holds {shown}, which load() takes only with weights_only=False"
            f"{allow}; save state_dict(), numbers, texts and containers for a file that loads as "
            "it is",
            stacklevel=5,
        )


def _with_torch_names(data: bytes, renamed: dict[bytes, bytes]) -> bytes:
    for mine, torch in renamed.items():
        if data.count(mine) == 1:  # the pickler says a name once
            data = data.replace(mine, torch)
            continue
        # A text in the object says the same: only the opcode is meant.
        for op, _, at in pickletools.genops(data):
            if op.code == "c" and at is not None and data.startswith(mine, at):
                data = data[:at] + torch + data[at + len(mine) :]
                break
    return data


def write_zip(obj: Any, name: str) -> Callable[[Callable[[Any], Any]], None]:
    """A function that writes the archive, by calls of its argument with its bytes in turn.

    Args:
        name: of the folder in the archive.
    """
    data, storages = _pickled(obj, row=False)

    def write(to: Callable[[Any], Any]) -> None:
        archive = Writer(to, get_crc32_options())
        archive.add(f"{name}/data.pkl", data)
        archive.add(f"{name}/.format_version", b"1")
        archive.add(f"{name}/.storage_alignment", b"64")
        archive.add(f"{name}/byteorder", sys.byteorder.encode())
        for storage in storages:
            archive.add(f"{name}/data/{storage.key}", storage.bytes())
        archive.add(f"{name}/version", b"3\n")
        parts = [(raw, crc) for raw, crc, *_ in archive.directory]
        archive.add(f"{name}/{CONTENT_ID}", content_id(parts))
        archive.close()

    return write


def write_row(obj: Any) -> Callable[[Callable[[Any], Any]], None]:
    """As `write_zip`, for the row of pickles that torch wrote before 1.6."""
    data, storages = _pickled(obj, row=True)
    system = {
        "protocol_version": PROTOCOL,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }

    def write(to: Callable[[Any], Any]) -> None:
        for value in (MAGIC, PROTOCOL, system):
            to(pickle.dumps(value, _PICKLE_PROTOCOL))
        to(data)
        to(pickle.dumps([storage.key for storage in storages], _PICKLE_PROTOCOL))
        for storage in storages:
            to(struct.pack("<q", storage.count))
            for part in in_parts(storage.bytes()):
                to(part)

    return write
