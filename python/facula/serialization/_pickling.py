"""How tensors are pickled: the part of their memory that they use, once for those that share it.

`copy.deepcopy` and `save` know all tensors before they write; a pickle is written as it goes. So a
tensor is tied to those written before it, where the memory that went with one of them has all of
its elements.
"""

from __future__ import annotations

from typing import Any

import facula
from facula import _C
from facula._weak_table import WeakTable
from facula.overrides import DisableTorchFunctionSubclass
from facula.serialization._tree import bytes_of

# What is written beside a tensor's own elements is at most as much again.
_MOST = 2


class _Memory:
    """Elements of a memory from `first` on; while a pickle is written, tensors name it."""

    __slots__ = ("__weakref__", "first", "flat")

    def __init__(self, flat: Any, first: int) -> None:
        self.flat, self.first = flat, first

    def __reduce__(self) -> tuple[Any, ...]:
        flat = self.flat
        data = None if flat.device.type == "meta" else bytes(bytes_of(flat))
        return _C._rebuild_tensor, (facula.Tensor, data, flat.shape, flat.dtype, flat.device, False)


# (device, address, dtype) -> the last memory that a pickle in the making has there
_live = WeakTable()


def __reduce_ex__(self: Any, protocol: Any) -> tuple[Any, ...]:
    """What pickle asks a tensor for. Of a history only `requires_grad` is left, as in torch."""
    if type(self) is facula.Tensor:
        args = _arguments(self)
    else:
        with DisableTorchFunctionSubclass():
            args = _arguments(self)
    return _rebuild, args, self.__dict__ or None


def _arguments(self: Any) -> tuple[Any, ...]:
    wanted = self.requires_grad
    memory, stride, offset = _memory_of(self.detach() if wanted else self)
    return type(self), memory, self.shape, stride, offset, wanted


def _memory_of(tensor: Any) -> tuple[_Memory, tuple[int, ...], int]:
    """Memory that has the tensor's elements, and its strides and offset there."""
    begin, stride = tensor.storage_offset(), tuple(tensor.stride())
    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, stride, strict=True))
    if tensor.numel() == 0 or tensor.device.type == "meta" or extent > _MOST * tensor.numel():
        own = tensor.contiguous()
        return _Memory(own.reshape(-1), 0), tuple(own.stride()), 0
    storage = tensor.untyped_storage()
    key = str(tensor.device), storage.data_ptr(), tensor.dtype
    known = _live.get(key)
    if known is None or not (
        known.first <= begin and begin + extent <= known.first + known.flat.numel()
    ):
        whole = storage.nbytes() // tensor.element_size()
        first, count = (0, whole) if whole <= _MOST * extent else (begin, extent)
        known = _live[key] = _Memory(tensor.as_strided((count,), (1,), first), first)
    return known, stride, begin - known.first


def _rebuild(
    cls: Any,
    flat: Any,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int,
    requires_grad: bool,
) -> Any:
    """The tensor again. Pickles name this function: its arguments only grow."""
    tensor = flat.as_strided(shape, stride, offset).detach()
    if cls is not facula.Tensor:
        return facula.Tensor._make_subclass(cls, tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)
