"""Tensors in containers, in one safetensors file, without pickle.

A dictionary of tensors becomes a plain safetensors file which any reader of the format
understands (https://huggingface.co/docs/safetensors). Everything else that `save` takes (nesting,
numbers, tied tensors, views) is described by JSON in the file's metadata, under "facula".
Nothing in a file is ever executed.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

import facula
from facula.nn.parameter import Parameter
from facula.utils import _safetensors as fmt
from facula.utils._atomic import write_file
from facula.utils._locations import location_of, placer
from facula.utils._sharing import extent, groups

__all__ = ["bytes_of", "load", "save", "write_stream"]

_METADATA_KEY = "facula"
_VERSION = 2
_READABLE = (1, 2)  # version 1 has no checksum of the header


# ---- the tensor's memory: the only places that touch bytes


def _memory_of(tensor: Any) -> memoryview:
    """The bytes of a contiguous 1-d uint8 tensor on the CPU, not copied."""
    return memoryview(tensor).cast("B")


def bytes_of(tensor: Any) -> memoryview:
    """The elements of any tensor in row-major order, as bytes."""
    if tensor.numel() == 0:
        return memoryview(b"")
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return _memory_of(flat.view(facula.uint8))


def _tensor_from(buffer: Any, dtype: Any, shape: tuple[int, ...], offset: int) -> Any:
    """A tensor on the CPU that shares `buffer`'s memory from byte `offset` on."""
    count = math.prod(shape)
    if count == 0:
        return facula.empty(shape, dtype=dtype, device="cpu")
    return facula.frombuffer(buffer, dtype=dtype, count=count, offset=offset).reshape(shape)


def _dtype_names() -> dict[str, Any]:
    # float8 and the unsigned ones are optional: not every build has them.
    pairs = {
        "BOOL": "bool",
        "U8": "uint8",
        "I8": "int8",
        "U16": "uint16",
        "I16": "int16",
        "U32": "uint32",
        "I32": "int32",
        "U64": "uint64",
        "I64": "int64",
        "F8_E4M3": "float8_e4m3fn",
        "F8_E5M2": "float8_e5m2",
        "F16": "float16",
        "BF16": "bfloat16",
        "F32": "float32",
        "F64": "float64",
        "C64": "complex64",
    }
    # Not hasattr: that may look for a device's package of this name.
    known = vars(facula)
    return {code: known[name] for code, name in pairs.items() if name in known}


# NumPy's own notation of a dtype with a fixed meaning on every machine.
_SCALAR_DTYPE = re.compile(r"[<>|](?:b1|[iu][1248]|f[248]|c8|c16|[US]\d{1,9}|[mM]8(?:\[\w+\])?)")


def _is_numpy(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.generic, numpy.ndarray))


def _scalar(code: str, data: bytes) -> Any:
    """A NumPy scalar of what `_Writer` noted."""
    import numpy

    if not _SCALAR_DTYPE.fullmatch(code):
        raise ValueError(f"no scalar has the dtype {code!r}")
    dtype = numpy.dtype(code)
    return numpy.frombuffer(data, dtype, 1)[0] if dtype.itemsize else dtype.type()


def _tensor_of_bytes(value: bytes | bytearray) -> Any:
    return (
        facula.tensor(memoryview(value), dtype=facula.uint8)
        if value
        else facula.empty(0, dtype=facula.uint8)
    )


# ---- saving


def _text(value: Any) -> str:
    """What members of a set are ordered by: one text, whatever the order of sets within."""
    if not isinstance(value, (tuple, frozenset)):
        return repr(value)
    parts = [f"{type(v).__name__} {_text(v)}" for v in value]
    return f"({', '.join(parts if isinstance(value, tuple) else sorted(parts))})"


class _Writer:
    """Turns an object into a tree of JSON and a table of named tensors."""

    def __init__(self) -> None:
        self.tensors: dict[str, Any] = {}
        self.open: set[int] = set()
        self.codes = {str(dtype): code for code, dtype in _dtype_names().items()}

    def tree(self, value: Any, path: tuple[str, ...]) -> Any:
        if _is_numpy(value):  # before Python's own: some of its scalars are both
            return self._numpy(value, path)
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, facula.Tensor):
            return self._tensor(value, path)
        if isinstance(value, int):
            value = int(value)
            # A JSON reader may not take more digits than Python's limit for int().
            return value if abs(value) < 2**63 else {"int": hex(value)}
        if isinstance(value, float):
            value = float(value)
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, complex):
            return {"complex": [self.tree(value.real, path), self.tree(value.imag, path)]}
        if isinstance(value, facula.dtype):
            return {"dtype": str(value).rpartition(".")[2]}
        if isinstance(value, facula.device):
            return {"device": str(value)}
        if isinstance(value, facula.Size):
            return {"size": [int(n) for n in value]}
        if isinstance(value, (bytes, bytearray)):
            kind = "bytes" if isinstance(value, bytes) else "bytearray"
            return {kind: self._tensor(_tensor_of_bytes(value), path)["tensor"]}
        if isinstance(value, (list, tuple, Mapping, set, frozenset)):
            return self._container(value, path)
        raise self._refused(value, path)

    @staticmethod
    def _refused(value: Any, path: tuple[str, ...]) -> TypeError:
        where = ".".join(path) or "the object itself"
        return TypeError(
            f"save(): {where} is a {type(value).__name__}, which cannot be saved; expected "
            "tensors, numbers, strings, bytes, None, NumPy arrays and scalars, and lists, tuples, "
            "sets and dictionaries of them"
        )

    def _numpy(self, value: Any, path: tuple[str, ...]) -> Any:
        """An array as a tensor, whose memory it shares; a scalar as its dtype and its bytes."""
        numpy = sys.modules["numpy"]
        code = value.dtype.str
        if isinstance(value, numpy.generic) and _SCALAR_DTYPE.fullmatch(code):
            return {"scalar": [code, value.tobytes().hex()]}
        if type(value) is not numpy.ndarray:
            raise self._refused(value, path)
        try:
            tensor = facula.as_tensor(value)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"save(): {'.'.join(path) or 'the object itself'} is an array of dtype "
                f"{value.dtype}, which cannot be saved; expected one of facula's dtypes"
            ) from error
        return {"array": self._tensor(tensor, path)["tensor"]}

    def _container(self, value: Any, path: tuple[str, ...]) -> Any:
        if id(value) in self.open:
            raise ValueError(f"save(): {'.'.join(path)} contains itself")
        self.open.add(id(value))
        try:
            if isinstance(value, Mapping):
                pairs = []
                for key, entry in value.items():
                    pairs.append([self._key(key, path), self.tree(entry, (*path, str(key)))])
                return {"odict" if isinstance(value, OrderedDict) else "dict": pairs}
            if isinstance(value, (set, frozenset)):
                # In one order, so that equal sets make equal files.
                members = sorted(value, key=lambda v: (type(v).__name__, _text(v)))
                kind = "frozenset" if isinstance(value, frozenset) else "set"
                return {kind: [self._key(v, path) for v in members]}
            entries = [self.tree(v, (*path, str(i))) for i, v in enumerate(value)]
            return {"tuple": entries} if isinstance(value, tuple) else entries
        finally:
            self.open.remove(id(value))

    def _key(self, key: Any, path: tuple[str, ...]) -> Any:
        """A key of a dictionary or a member of a set."""
        self._check_key(key, path)
        return self.tree(key, (*path, "key"))

    def _check_key(self, key: Any, path: tuple[str, ...]) -> None:
        if isinstance(key, facula.Tensor):
            raise TypeError(
                f"save(): a key of {'.'.join(path) or 'the object itself'} is a Tensor, which "
                "would not be found again; expected strings, numbers, bytes, None, or their tuples"
            )
        for part in key if isinstance(key, (tuple, frozenset)) else ():
            self._check_key(part, path)

    def _tensor(self, tensor: Any, path: tuple[str, ...]) -> Any:
        name = ".".join(path) or "tensor"
        # Paths such as ("a.b",) and ("a", "b") give one name.
        unique, n = name, 1
        while unique in self.tensors or unique == "__metadata__":
            n += 1
            unique = f"{name}#{n}"
        self.tensors[unique] = tensor
        node: dict[str, Any] = {"tensor": unique}
        if isinstance(tensor, Parameter):
            node["parameter"] = True
        if tensor.requires_grad:
            node["requires_grad"] = True
        return node


def _plan(
    tensors: dict[str, Any], codes: dict[str, str]
) -> tuple[dict[str, tuple[str, list[int], Callable[[], memoryview]]], dict[str, Any]]:
    """What to store under which name, and how tensors that share memory view what is stored."""
    stored: dict[str, tuple[str, list[int], Callable[[], memoryview]]] = {}
    views: dict[str, Any] = {}

    def store(name: str, tensor: Any) -> None:
        if tensor.device.type != "cpu":
            views[name] = {"device": location_of(tensor.device)}
        if str(tensor.dtype) == str(facula.complex128):
            # The format has no such code: store pairs of F64.
            views[name] = {**views.get(name, {}), "complex128": True}
            stored[name] = ("F64", [*tensor.shape, 2], lambda: bytes_of(tensor))
            return
        code = codes.get(str(tensor.dtype))
        if code is None:
            raise TypeError(f"save(): {name} has dtype {tensor.dtype}, which cannot be saved")
        stored[name] = (code, list(tensor.shape), lambda: bytes_of(tensor))

    for name, tensor in tensors.items():
        if tensor.layout is not facula.strided:
            raise TypeError(
                f"save(): {name} is a tensor of layout {tensor.layout}, which safetensors files do "
                "not have; save x.to_dense(), or in torch's form"
            )
    for group in groups(tensors):
        first = tensors[group[0]]
        if first.device.type == "meta":
            raise ValueError(f"save(): {group[0]} is on the meta device and has no values")
        dtypes = {str(tensors[name].dtype) for name in group}
        if len(group) == 1 or len(dtypes) > 1:
            # Views of one memory under several dtypes are rare: they are stored apart.
            for name in group:
                store(name, tensors[name])
            continue
        start = min(extent(tensors[name])[0] for name in group)
        stop = max(extent(tensors[name])[1] for name in group)
        size = first.element_size()
        whole = next(
            (n for n in group if _dense(tensors[n]) and extent(tensors[n]) == (start, stop)), None
        )
        if whole is None:
            # No tensor covers the others: store the range of memory that they share.
            origin = next(n for n in group if extent(tensors[n])[0] == start)
            span = tensors[origin].detach().as_strided(((stop - start) // size,), (1,))
            whole = f"{origin}#memory"
            store(whole, span)
        else:
            store(whole, tensors[whole])
        for name in group:
            if name != whole:
                tensor = tensors[name]
                views[name] = {
                    **views.get(whole, {}),
                    "of": whole,
                    "shape": [int(n) for n in tensor.shape],
                    "stride": [int(n) for n in tensor.stride()],
                    "offset": (extent(tensor)[0] - start) // size,
                }
    return stored, views


def _dense(tensor: Any) -> bool:
    return tensor.is_contiguous()


def save(obj: Any, f: str | os.PathLike[str] | IO[bytes]) -> None:
    """Write `obj`, of containers, tensors and plain values, to a safetensors file."""
    writer = _Writer()
    tree = writer.tree(obj, ())
    stored, views = _plan(writer.tensors, writer.codes)
    # The largest items first, as the format's own writer does: then all of them are aligned.
    order = sorted(stored, key=lambda name: -fmt.ITEM_BITS[stored[name][0]])
    parts, crc = [], 0
    for name in order:
        code, shape, data = stored[name]
        buffer = data()
        parts.append((name, code, shape, buffer))
        crc = fmt.crc32(buffer, crc)
    note = {"version": _VERSION, "crc32": crc, "tree": tree}
    if views:
        note["views"] = views
    metadata = {"format": "pt", _METADATA_KEY: json.dumps(note, allow_nan=False), **fmt.UNSEALED}
    pieces = [fmt.seal(fmt.header(parts, metadata)), *(p[3] for p in parts)]
    if hasattr(f, "write"):
        write_stream(f, pieces)
    else:
        few = (part for piece in pieces for part in fmt.in_parts(piece))
        write_file(os.fsdecode(f), lambda file: file.writelines(few))


def write_stream(stream: Any, pieces: Sequence[Any]) -> None:
    if isinstance(stream, io.TextIOBase):
        raise TypeError("save(): f is open for text, expected bytes: open the file in mode 'wb'")
    for piece in pieces:
        for part in fmt.in_parts(piece):
            # An unbuffered file may take a part at a time.
            rest = part
            while rest.nbytes:
                written = stream.write(rest)
                if written is None and isinstance(stream, io.RawIOBase):
                    raise BlockingIOError(
                        "save(): f takes no more bytes now; open it in blocking mode"
                    )
                rest = rest[len(rest) if written is None else written :]


# ---- loading


def load(f: Any, map_location: Any, mmap: bool, verify: bool) -> Any:
    """Read what `save` wrote, or any safetensors file (as a dictionary of tensors).

    Nothing in it is executed in any case.
    """
    contents = fmt.read(f if hasattr(f, "read") else os.fspath(f), mmap=mmap)
    reader = _Reader(contents, map_location, verify)
    try:
        return reader.result()
    except fmt.FormatError:
        raise
    except Exception as error:
        if error is reader.place_error:
            raise
        # A hostile tree may make anything in it the wrong kind of thing.
        what = f"its facula metadata is malformed ({type(error).__name__}: {error})"
        raise contents.fault(what) from error


_SEQUENCES: dict[str, Callable[..., Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}


class _Reader:
    def __init__(self, contents: fmt.Contents, map_location: Any, verify: bool) -> None:
        self.contents, self.dtypes = contents, _dtype_names()
        self.place = placer(map_location)
        self.place_error: Exception | None = None
        self.cache: dict[str, Any] = {}
        self.unplaced: dict[str, Any] = {}
        text = contents.metadata.get(_METADATA_KEY)
        self.note: dict[str, Any] | None = None
        if text is not None:
            note = fmt.parse_json(text, contents.fault)
            if not isinstance(note, dict) or "tree" not in note:
                raise contents.fault("its facula metadata has no tree")
            if note.get("version") not in _READABLE:
                raise contents.fault(
                    f"its facula metadata has version {note.get('version')!r}, this program reads "
                    f"{' and '.join(map(str, _READABLE))}"
                )
            self.note = note
        self.views = (self.note or {}).get("views", {})
        if not isinstance(self.views, dict):
            raise contents.fault("its facula metadata's views are not a dictionary")
        if verify:
            expected = (self.note or {}).get("crc32")
            if expected is None:
                raise contents.fault("it has no checksum to verify")
            if contents.crc32() != expected:
                raise contents.fault("its data does not match its checksum")
            if self.note is not None and self.note["version"] > 1 and not contents.is_sealed():
                raise contents.fault("its header does not match its checksum")

    def result(self) -> Any:
        if self.note is None:
            return {name: self.tensor(name) for name in self.contents.entries}
        return self.value(self.note["tree"])

    def tensor(self, name: str) -> Any:
        """A tensor of the file where it belongs."""
        if name not in self.cache:
            note = self._note_of(name)
            if "of" in note:
                self.cache[name] = self._view(name, self.tensor(note["of"]), note)
            else:
                raw = self.raw(name)
                try:
                    self.cache[name] = self.place(raw, str(note.get("device", "cpu")))
                except Exception as error:
                    self.place_error = error
                    raise
        return self.cache[name]

    def raw(self, name: str) -> Any:
        """A tensor of the file in the CPU's memory, as it was read."""
        if name not in self.unplaced:
            note = self._note_of(name)
            if "of" in note:
                self.unplaced[name] = self._view(name, self.raw(note["of"]), note)
            else:
                self.unplaced[name] = self._read(name, note)
        return self.unplaced[name]

    def _note_of(self, name: str) -> dict[str, Any]:
        note = self.views.get(name, {})
        if "of" in note and note["of"] not in self.contents.entries:
            raise self.contents.fault(f"tensor {name!r} is a view of the missing {note['of']!r}")
        return note

    def _read(self, name: str, note: dict[str, Any]) -> Any:
        entry = self.contents.entries.get(name)
        if entry is None:
            raise self.contents.fault(f"tensor {name!r} is missing")
        dtype, shape = self.dtypes.get(entry.code), entry.shape
        if dtype is None:
            raise self.contents.fault(
                f"tensor {name!r} has dtype {entry.code}, which this build cannot represent"
            )
        if note.get("complex128"):
            if entry.code != "F64" or not shape or shape[-1] != 2:
                raise self.contents.fault(f"tensor {name!r} is not stored as complex numbers")
            dtype, shape = facula.complex128, shape[:-1]
        buffer, offset = self.contents.buffer_of(name)
        return _tensor_from(buffer, dtype, shape, offset)

    def _view(self, name: str, whole: Any, view: dict[str, Any]) -> Any:
        shape, stride, offset = view["shape"], view["stride"], view["offset"]
        numbers = [*shape, *stride, offset]
        whole_numbers = all(type(n) is int and 0 <= n < 2**63 for n in numbers)
        if not whole_numbers or len(shape) != len(stride):
            raise self.contents.fault(f"the view {name!r} has a malformed shape or stride")
        last = offset + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
        if math.prod(shape) >= 2**63 or (0 not in shape and last >= whole.numel()):
            raise self.contents.fault(f"the view {name!r} reaches outside of its memory")
        flat = whole.reshape(-1)
        return flat.as_strided(tuple(shape), tuple(stride), flat.storage_offset() + offset)

    def value(self, node: Any) -> Any:
        if node is None or isinstance(node, (bool, int, float, str)):
            return node
        if isinstance(node, list):
            return [self.value(v) for v in node]
        if "tensor" in node:
            return self._leaf(node)
        if len(node) != 1:
            raise self.contents.fault(f"its tree has a malformed entry with keys {sorted(node)}")
        ((kind, body),) = node.items()
        if kind in ("dict", "odict"):
            pairs = [(self.value(k), self.value(v)) for k, v in body]
            return OrderedDict(pairs) if kind == "odict" else dict(pairs)
        if kind in _SEQUENCES:
            return _SEQUENCES[kind](self.value(v) for v in body)
        if kind in ("bytes", "bytearray"):
            data = bytearray(bytes_of(self.raw(body)))
            return data if kind == "bytearray" else bytes(data)
        if kind == "array":
            return self.raw(body).numpy()
        if kind == "scalar":
            return _scalar(body[0], bytes.fromhex(body[1]))
        if kind == "int":
            return int(body, 16)
        if kind == "float":
            return float(body)
        if kind == "complex":
            return complex(*(self.value(v) for v in body))
        if kind == "dtype" and isinstance(vars(facula).get(body), facula.dtype):
            return vars(facula)[body]
        if kind == "device":
            return facula.device(body)
        if kind == "size":
            return facula.Size(body)
        raise self.contents.fault(f"its tree has an entry of unknown kind {kind!r}")

    def _leaf(self, node: dict[str, Any]) -> Any:
        name = node["tensor"]
        grad = bool(node.get("requires_grad"))
        if not (grad or node.get("parameter")):
            return self.tensor(name)
        # One object for one tensor: cached apart, so that a plain alias stays plain.
        key = f"{name}\0{grad}{bool(node.get('parameter'))}"
        if key not in self.cache:
            tensor = self.tensor(name).detach()
            if node.get("parameter"):
                self.cache[key] = Parameter(tensor, requires_grad=grad)
            else:
                self.cache[key] = tensor.requires_grad_(grad)
        return self.cache[key]
