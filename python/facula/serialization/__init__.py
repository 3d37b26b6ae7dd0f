"""`save` and `load`: torch's files, and safetensors files.

Loading runs no code of a file's unless the caller asks for it with `weights_only=False`.
"""

from __future__ import annotations

import os
import pickle
from typing import IO, Any

from facula.serialization import _source, _tree
from facula.serialization._globals import (
    RefusedGlobal,
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from facula.serialization._older import (
    SourceChangeWarning,
    StorageType,
    check_module_version_greater_or_equal,
    default_restore_location,
    location_tag,
    mkdtemp,
    normalize_storage_type,
    register_package,
    skip_data,
    storage_to_tensor_type,
    validate_cuda_device,
)
from facula.serialization._options import (
    LoadEndianness,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
)
from facula.serialization._torch_read import Reader, kind_of
from facula.utils._atomic import write_file
from facula.utils._locations import placer
from facula.utils._safetensors import FormatError

__all__ = [
    "FormatError",
    "LoadEndianness",
    "RefusedGlobal",
    "SourceChangeWarning",
    "StorageType",
    "add_safe_globals",
    "check_module_version_greater_or_equal",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "mkdtemp",
    "normalize_storage_type",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
    "storage_to_tensor_type",
    "validate_cuda_device",
]

_FORMATS = ("torch", "safetensors")


def save(
    obj: Any,
    f: str | os.PathLike[str] | IO[bytes],
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    *,
    format: str | None = None,
) -> None:
    """Write `obj` to the file `f`, all of it or nothing.

    Args:
        obj: tensors, numbers, strings, and containers of these, nested: state dicts, checkpoints.
            In torch's form anything that pickle takes, whole modules too. In safetensors also
            bytes, None, NumPy arrays and scalars, sets and tuples, no other objects.
        f: path. The file is written beside it and moved there when it is complete and on disk: a
            symbolic link stays, and an old file's mode, owner and extended attributes; a pipe or a
            device is written to. A file of several names (hard links) keeps them: complete bytes
            are copied into it, so that a kill meanwhile leaves it half-written, with the whole one
            beside it as "NAME.<12 digits>.tmp". Or a file open for writing bytes, from its position
            on; what becomes of it when the writing fails is up to that file.
        pickle_module, pickle_protocol: torch's, and taken for its programs' sake: protocol 2 is
            written, which every reader of torch's files takes.
        _use_new_zipfile_serialization: False writes the form of torch before 1.6.
        format: "torch" or "safetensors"; None means safetensors for a path that ends in
            ".safetensors" and torch's form for all else.

    Tensors that share memory share it again after `load`; of a slice only its own bytes are stored.
    Tensors of other devices than the CPU come back there, unless `load` says otherwise. torch loads
    what is written in its form, with `weights_only=True` where only tensors, plain values and
    containers are in it. A warning says what `load` will not take without `weights_only=False`.

    Raises:
        TypeError: something in `obj` is of a type that the format cannot hold. ValueError: a
            container in a safetensors file holds itself. pickle.PicklingError, AttributeError:
            from pickle. OSError: the file cannot be written, with the given path as
            its file name.
    """
    if format is None:
        named = not hasattr(f, "write") and os.fsdecode(f).endswith(".safetensors")
        format = "safetensors" if named else "torch"
    if format not in _FORMATS:
        raise ValueError(f"save(): format is {format!r}, expected one of {_FORMATS} or None")
    if format == "safetensors":
        _tree.save(obj, f)
        return
    from facula.serialization import _torch_write

    if not hasattr(f, "write"):
        path = os.fsdecode(f)
        name = os.path.splitext(os.path.basename(path))[0]
        name = name if name and name.isprintable() else "archive"
    else:
        name = "archive"
    if _use_new_zipfile_serialization:
        write = _torch_write.write_zip(obj, name)
    else:
        write = _torch_write.write_row(obj)
    if hasattr(f, "write"):
        write(lambda data: _tree.write_stream(f, [data]))
    else:
        write_file(path, lambda file: write(file.write))


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = True,
    mmap: bool | None = None,
    verify: bool = False,
    encoding: str = "utf-8",
) -> Any:
    """Read a file of torch's, in any of its forms, or of safetensors: its content tells.

    Args:
        f: path, of a file, a pipe or a device; or a file open for reading bytes, which need not
            seek: it is read from its position to its end.
        map_location: device (or its name) for all tensors; or a function of (tensor, location) that
            returns a tensor or None; or a dictionary by location. Each goes back where it was by
            default; a location is "cpu" or what a device's package calls it, "acme:0". In torch's
            files the tensor that a function gets is a whole storage, of one dim.
        pickle_module: with `weights_only=False`, the module whose `Unpickler` reads the file.
        weights_only: True (and None) makes tensors, plain values (of `datetime`, `decimal`,
            `fractions`, `pathlib` and `uuid` too), containers, NumPy's arrays and scalars, and
            what `add_safe_globals` allows. False runs whatever code the file names:
            for files of people whom you trust. Of torch's classes those of `nn` and `optim` become
            facula's. Safetensors files hold no code.
        mmap: with a path, read memory from the file as it is used. Writing to a tensor does not
            change the file. None means True for safetensors and False for torch's files, as torch
            has it: who overwrites a mapped file in place changes the tensors. Pipes, devices and
            files of several hard links are read at once.
        verify: compare all data with the checksums in the file.
        encoding: of strings that Python 2 wrote; "bytes" leaves them bytes.

    Raises:
        RefusedGlobal: the file names a class or function that is not allowed; the message says how
            to allow it. It is a FormatError and a pickle.UnpicklingError.
        FormatError: a ValueError; the file is not of these formats, is cut short, or contradicts
            itself; the message names the file and the fault.
    """
    start, f = _source.start_of(f)
    kind = kind_of(start)
    if kind is None:
        return _tree.load(f, map_location, mmap is not False, verify)
    code = None
    if weights_only is False:
        code = (pickle if pickle_module is None else pickle_module).Unpickler
    elif pickle_module is not None:
        raise ValueError(
            "load(): pickle_module is given, which weights_only=True does not use; pass "
            "weights_only=False if you trust the file"
        )
    source = _source.Source(f, mmap is True)
    reader = Reader(source, placer(map_location), code, encoding)
    return reader.result(kind, verify)


def get_unsafe_globals_in_checkpoint(f: str | os.PathLike[str] | IO[bytes]) -> list[str]:
    """Names in a file of torch's that `load` would refuse as things are; nothing is made of it.

    Raises:
        FormatError: the file is none of torch's, or is malformed.
    """
    start, f = _source.start_of(f)
    kind = kind_of(start)
    source = _source.Source(f, True)
    if kind is None:
        raise source.fault("it is not a file of torch's")
    return Reader(source, placer("meta")).refused(kind)
