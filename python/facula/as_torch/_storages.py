"""What `torch.UntypedStorage` has beside facula's: bytes of files, and elements one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import facula
from facula import _C
from facula._file_tensors import bytes_of_file

__all__ = ["complete_storages"]


def _bytes(storage: Any) -> Any:
    """A tensor of the same memory, of dtype uint8."""
    return storage.__reduce_ex__(2)[1][0]


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
    "from_file": staticmethod(bytes_of_file),
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
