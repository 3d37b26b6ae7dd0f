"""What `torch.UntypedStorage` has beside facula's: bytes of files, and elements one by one."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from typing import Any

import facula
from facula import _C

__all__ = ["complete_storages", "from_file"]


def _bytes(storage: Any) -> Any:
    """A tensor of the same memory, of dtype uint8."""
    return storage.__reduce_ex__(2)[1][0]


def _from_file(filename: Any, shared: bool = False, nbytes: int = 0) -> Any:
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
    storage = _from_file(filename, bool(shared), size * dtype.itemsize)
    return _bytes(storage).view(dtype).requires_grad_(requires_grad)


def _item(self: Any, index: Any) -> Any:
    """A byte, as a number; of a slice without steps a storage of the same memory."""
    found = _bytes(self)[index]
    if not isinstance(index, slice):
        return int(found.item())
    if index.step not in (None, 1):
        raise RuntimeError(f"slices of a storage have the step 1, not {index.step}")
    return _Part(found)


def _set_item(self: Any, index: Any, value: Any) -> None:
    _bytes(self)[index] = value


def _is_shared(self: Any) -> bool:
    """Do other processes see its memory?"""
    return bool(_bytes(self).is_shared())


def _share(self: Any) -> Any:
    """Moves it to memory that other processes see."""
    _bytes(self).share_memory_()
    return self


def _fill(self: Any, value: int) -> Any:
    """Sets all bytes."""
    _bytes(self).fill_(value)
    return self


def _copy(self: Any, source: Any, non_blocking: bool = False) -> Any:
    """Takes the bytes of another storage of the same size."""
    _bytes(self).copy_(_bytes(source), non_blocking)
    return self


def _moved(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
    """The storage, or one with the same bytes on another device."""
    there = _bytes(self).to(device="cuda" if device is None else device)
    return self if there.device == self.device else there.untyped_storage()


_METHODS: dict[str, Any] = {
    "__dlpack__": lambda self, **how: _bytes(self).__dlpack__(**how),
    "__dlpack_device__": lambda self: _bytes(self).__dlpack_device__(),
    "__getitem__": _item,
    "__setitem__": _set_item,
    # The object and its bytes: programs that count memory ask sys.getsizeof().
    "__sizeof__": lambda self: 64 + self.nbytes(),
    "__iter__": lambda self: iter(_bytes(self).tolist()),
    "clone": lambda self: _bytes(self).clone().untyped_storage(),
    "copy_": _copy,
    "cpu": lambda self: _moved(self, "cpu"),
    "cuda": _moved,
    "element_size": lambda self: 1,
    "fill_": _fill,
    "from_file": staticmethod(_from_file),
    "get_device": lambda self: _bytes(self).get_device(),
    "is_cuda": property(lambda self: self.device.type == "cuda"),
    "is_shared": _is_shared,
    "share_memory_": _share,
    "to": lambda self, *, device, non_blocking=False: _moved(self, device),
    "tolist": lambda self: _bytes(self).tolist(),
    "untyped": lambda self: self,
}


class _Part:
    """Some of a storage's bytes: a storage has no beginning but its own in facula."""

    def __init__(self, elements: Any) -> None:
        self._elements = elements

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _C._rebuild_storage, (self._elements.clone(),)

    def __len__(self) -> int:
        return int(self._elements.numel())

    nbytes = size = __len__

    def data_ptr(self) -> int:
        """Address of the first byte."""
        return int(self._elements.data_ptr())

    @property
    def device(self) -> Any:
        """The device of the memory."""
        return self._elements.device

    def __dlpack__(self, **how: Any) -> Any:
        return self._elements.__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self._elements.__dlpack_device__()

    def __getitem__(self, index: Any) -> Any:
        found = self._elements[index]
        return _Part(found) if isinstance(index, slice) else int(found.item())

    def __setitem__(self, index: Any, value: Any) -> None:
        self._elements[index] = value

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def tolist(self) -> list[int]:
        """The bytes as numbers."""
        return list(self._elements.tolist())

    def untyped(self) -> _Part:
        """Itself."""
        return self


def complete_storages() -> None:
    """Give facula's storages the methods that they lack."""
    kind: Callable[..., Any] = facula.UntypedStorage
    for name, method in _METHODS.items():
        if name not in vars(kind):
            setattr(kind, name, method)
