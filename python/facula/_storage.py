"""The memory behind a tensor as a sequence of elements, and tensors over such memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import facula

__all__ = ["TypedStorage", "set_", "storage"]


class TypedStorage:
    """All elements of a tensor's memory, in order: what `Tensor.storage()` gives.

    >>> x = fa.tensor([[1., 2.], [3., 4.]])
    >>> x[1].storage().tolist()
    [1.0, 2.0, 3.0, 4.0]
    """

    def __init__(self, flat: Any) -> None:
        self._flat = flat

    @property
    def dtype(self) -> Any:
        """That of the tensor which was asked."""
        return self._flat.dtype

    @property
    def device(self) -> Any:
        return self._flat.device

    def untyped(self) -> Any:
        """The bytes."""
        return self._flat.untyped_storage()

    def data_ptr(self) -> int:
        return int(self._flat.data_ptr())

    def element_size(self) -> int:
        return int(self._flat.element_size())

    def nbytes(self) -> int:
        return int(self.untyped().nbytes())

    def size(self) -> int:
        return int(self._flat.numel())

    def __len__(self) -> int:
        return self.size()

    def __getitem__(self, index: Any) -> Any:
        found = self._flat[index]
        return TypedStorage(found.clone()) if isinstance(index, slice) else found.item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._flat[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        return list(self._flat.tolist())

    def fill_(self, value: Any) -> TypedStorage:
        self._flat.fill_(value)
        return self

    def copy_(self, source: TypedStorage, non_blocking: bool = False) -> TypedStorage:
        self._flat.copy_(source._flat, non_blocking)
        return self

    def clone(self) -> TypedStorage:
        return TypedStorage(self._flat.clone())

    def __repr__(self) -> str:
        return f"{self.tolist()} [facula.storage.TypedStorage(dtype={self.dtype}) of {len(self)}]"


def storage(self: Any) -> TypedStorage:
    """The memory behind the tensor, which its views share, as elements of its dtype."""
    count = self.untyped_storage().nbytes() // self.element_size()
    return TypedStorage(self.detach().as_strided((count,), (1,), 0))


def set_(
    self: Any, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None
) -> Any:
    """Let the tensor be over the memory of another one, or of a storage.

    Args:
        source: a tensor, what `storage()` gave, or None for no memory at all.
        storage_offset: where the first element lies.
        size: its shape; all of the storage by default.
        stride: its strides; those of an array in order by default.

    Raises:
        RuntimeError: the dtype is another, or the storage is too small.
    """
    if source is None:
        self.data = self.new_empty(0)
        return self
    if isinstance(source, facula.UntypedStorage):
        raise TypeError("set_(): bytes have no dtype; give tensor.storage() or a tensor instead")
    if not isinstance(source, facula.Tensor | TypedStorage):
        raise TypeError(
            f"set_(): source must be a tensor or a storage, not {type(source).__name__}"
        )
    typed = isinstance(source, TypedStorage)
    flat = source._flat if typed else source.detach()
    if flat.dtype != self.dtype:
        raise RuntimeError(f"set_(): source is {flat.dtype}, the tensor {self.dtype}")
    if size is None and typed:
        size = (flat.numel() - storage_offset,)
    if size is not None:
        strides = stride
        if strides is None:
            strides, step = [], 1
            for n in reversed(tuple(size)):
                strides.insert(0, step)
                step *= max(n, 1)
        flat = flat.as_strided(tuple(size), tuple(strides), storage_offset)
    self.data = flat
    return self
