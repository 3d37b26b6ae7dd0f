"""`save` and `load`: one zip archive with the program as text and its tensors as safetensors.

    program.txt            the graphs and the tree of modules; see `_program`
    weights.safetensors    parameters, buffers, constants
    extra/NAME             what the caller adds

There is neither a pickle nor code in it: loading makes graphs of known functions alone.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any

import facula
from facula.jit import _program
from facula.jit._modules import LibraryScriptModule, ScriptFunction, writers
from facula.serialization import _source, _tree, _zip
from facula.utils._atomic import write_file
from facula.utils._safetensors import FormatError

__all__ = ["load", "save", "to_bytes"]

_TEXT, _WEIGHTS, _EXTRA = "program.txt", "weights.safetensors", "extra/"


def _write(program: Any, extra: Any) -> Callable[[Callable[[Any], Any]], None]:
    ready = isinstance(program, (ScriptFunction, LibraryScriptModule))
    if not ready and not getattr(program, "_graphs", None):
        raise TypeError(
            f"save(): {type(program).__name__} is neither scripted nor traced; call"
            " facula.jit.script or facula.jit.trace, or save a state_dict by facula.save"
        )
    text = _program.Text(program)
    weights = io.BytesIO()
    facula.save({k: t.detach() for k, t in text.tensors.items()}, weights, format="safetensors")

    def write(put: Callable[[Any], Any]) -> None:
        writer = _zip.Writer(put)
        writer.add(_TEXT, text.text.encode())
        writer.add(_WEIGHTS, weights.getbuffer())
        for name, content in (extra or {}).items():
            data = content.encode() if isinstance(content, str) else bytes(content)
            writer.add(_EXTRA + name, data)
        writer.close()

    return write


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Write a scripted or traced module or function to a file, all of it or nothing.

    Args:
        m: the module or function.
        f: a path, or a file open for writing bytes.
        _extra_files: contents by name, to be kept beside it.

    Raises:
        TypeError: it is neither scripted nor traced.
        RuntimeError: something in it is Python: hooks, functions marked by `ignore`.
    """
    write = _write(m, _extra_files)
    if hasattr(f, "write"):
        write(lambda data: _tree.write_stream(f, [data]))
    else:
        write_file(os.fsdecode(f), lambda file: write(file.write))


def to_bytes(m: Any, _extra_files: Any = None) -> bytes:
    """What `save` writes."""
    buffer = io.BytesIO()
    save(m, buffer, _extra_files)
    return buffer.getvalue()


def load(
    f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False
) -> Any:
    """A module or function that `save` has written. Its Python source is not needed.

    Nothing in the file is run while it is loaded, and its program can call functions of tensors and
    numbers alone: no files, no Python.

    Args:
        f: a path, or a file open for reading bytes.
        map_location: where tensors go, as `facula.load` has it.
        _extra_files: a dict whose values are replaced by the bytes of the files of those names.

    Raises:
        FormatError: it is no such file, is damaged, or of a later version; the fault is named.
    """
    _, f = _source.start_of(f)
    source = _source.Source(f, False)

    def fault(what: str) -> FormatError:
        return FormatError(f"jit.load(): {source.path!r} cannot be read: {what}")

    if bytes(source.buffer[:4]) != b"PK\x03\x04":
        raise fault("it is no zip archive; facula.load reads files of tensors")
    archive = _zip.Archive(source.buffer, fault)
    if _TEXT not in archive.members or _WEIGHTS not in archive.members:
        if any(name.endswith("constants.pkl") for name in archive.members):
            raise fault("it is a TorchScript archive of torch, whose code facula does not run;"
                        " script or trace the program here, and load its state_dict")  # fmt: skip
        raise fault(f"it lacks {_TEXT} or {_WEIGHTS}")
    archive.check()
    try:
        text = archive.read(_TEXT).decode()
    except UnicodeDecodeError as error:
        raise fault(f"its program is no UTF-8 ({error.reason})") from None
    tensors = facula.load(io.BytesIO(archive.read(_WEIGHTS)), map_location)
    if not isinstance(tensors, dict) or not all(
        isinstance(t, facula.Tensor) for t in tensors.values()
    ):
        raise fault("its weights are no tensors")
    prefix = "constant:"
    constants = {k[len(prefix) :]: t for k, t in tensors.items() if k.startswith(prefix)}
    found = _program.parse(text, tensors.get, constants, fault)
    for name in _extra_files or ():
        if _EXTRA + name in archive.members:
            _extra_files[name] = archive.read(_EXTRA + name)
    return found


writers.save, writers.to_bytes = save, to_bytes
