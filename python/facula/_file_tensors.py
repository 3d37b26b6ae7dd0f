"""Tensors of the bytes of files, which are read when they are first looked at."""

from __future__ import annotations

import mmap
import os
from typing import Any

import facula

__all__ = ["bytes_of_file", "from_file"]


def bytes_of_file(filename: Any, shared: bool = False, nbytes: int = 0) -> Any:
    """The first bytes of a file, as they are in it: read when first looked at.

    Args:
        shared: what is written goes to the file, which is made, or made longer, where it needs be.
            Else the file stays as it is.
        nbytes: how many bytes; 0 means all.

    Raises:
        OSError: the file cannot be opened.
        RuntimeError: without `shared`, the file is shorter.
    """
    size = int(nbytes)
    flags = os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY
    file = os.open(os.fspath(filename), flags, 0o644)
    try:
        there = os.fstat(file).st_size
        size = size or there
        if there < size:
            if not shared:
                raise RuntimeError(
                    f"UntypedStorage.from_file(): {filename} has {there} bytes, not {size}"
                )
            os.ftruncate(file, size)
        if size == 0:
            return facula.empty(0, dtype=facula.uint8).untyped_storage()
        access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
        memory = mmap.mmap(file, size, access=access)
    finally:
        os.close(file)
    return facula.frombuffer(memory, dtype=facula.uint8).untyped_storage()


def from_file(
    filename: Any,
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """A tensor of the first elements of a file, which are read when first looked at.

    Args:
        shared: what is written goes to the file, which is made, or made longer, where it needs be.
        size: how many elements.
        dtype: the default dtype by default.

    Raises:
        OSError: the file cannot be opened.
        RuntimeError: without `shared`, the file is shorter.
    """
    dtype = facula.get_default_dtype() if dtype is None else dtype
    if device is not None and facula.device(device).type != "cpu":
        raise RuntimeError(f"from_file(): tensors of files are on the CPU, not on {device}")
    if size == 0:
        return facula.empty(0, dtype=dtype, requires_grad=requires_grad)
    storage = bytes_of_file(filename, bool(shared), size * dtype.itemsize)
    flat = storage.__reduce_ex__(2)[1][0]  # a tensor of uint8 of the same memory
    return flat.view(dtype).requires_grad_(requires_grad)
