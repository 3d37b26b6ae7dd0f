"""Methods of tensors that are Python: forms in place that move no element, and new tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula
from facula._errors import telling

__all__ = [
    "apply_",
    "as_strided_",
    "chalf",
    "const_data_ptr",
    "detach_",
    "dim_order",
    "fill_diagonal_",
    "get_device",
    "is_conj",
    "is_distributed",
    "is_inference",
    "is_neg",
    "is_nonzero",
    "is_same_size",
    "is_set_to",
    "is_signed",
    "map2_",
    "map_",
    "module_load",
    "new",
    "new_tensor",
    "polygamma",
    "polygamma_",
    "resize",
    "resize_as",
    "resolve_conj",
    "resolve_neg",
    "slice_inverse",
    "squeeze_",
    "storage_type",
    "swapaxes_",
    "swapdims_",
    "t_",
    "to_device",
    "transpose_",
    "unsqueeze_",
]


# ---- dims in place


def squeeze_(self: Any, *dim: Any) -> Any:
    """`squeeze` in place."""
    return self._become_view(self.squeeze(*dim))


def unsqueeze_(self: Any, dim: int) -> Any:
    """`unsqueeze` in place."""
    return self._become_view(self.unsqueeze(dim))


def t_(self: Any) -> Any:
    """`t` in place."""
    return self._become_view(self.t())


def transpose_(self: Any, dim0: int, dim1: int) -> Any:
    """`transpose` in place."""
    return self._become_view(self.transpose(dim0, dim1))


def swapaxes_(self: Any, axis0: int, axis1: int) -> Any:
    """`transpose_` by another name."""
    return transpose_(self, axis0, axis1)


def swapdims_(self: Any, dim0: int, dim1: int) -> Any:
    """`transpose_` by another name."""
    return transpose_(self, dim0, dim1)


def as_strided_(self: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """`as_strided` in place."""
    return self._become_view(self.as_strided(size, stride, storage_offset))


def detach_(input: Any) -> Any:
    """`input.detach_()`."""
    return input.detach_()


# ---- elements in place


def fill_diagonal_(self: Any, fill_value: Any, wrap: bool = False) -> Any:
    """Fill the elements whose indices are all alike.

    Args:
        fill_value: a number.
        wrap: of a matrix with more rows than columns go on below, one row free between.

    Raises:
        RuntimeError: it has fewer than two dims, or more than two of different sizes.
    """
    if self.dim() < 2:
        raise RuntimeError(
            f"fill_diagonal_(): dimensions must be larger than 1, but the shape is "
            f"{tuple(self.shape)}"
        )
    if self.dim() > 2 and len(set(self.shape)) > 1:
        raise RuntimeError(
            f"fill_diagonal_(): all dimensions of input must be of equal length, but the shape is "
            f"{tuple(self.shape)}"
        )
    n = min(self.shape)
    if n == 0:
        return self
    step, start = sum(self.stride()), self.storage_offset()
    self.as_strided((n,), (step,), start).fill_(fill_value)
    rows = self.shape[0]
    if wrap and self.dim() == 2 and rows > n + 1:
        for first in range(n + 1, rows, n + 1):
            part = self.narrow(0, first, min(n, rows - first))
            part.diagonal().fill_(fill_value)
    return self


def _values(who: str, self: Any, function: Callable[..., Any], *others: Any) -> Any:
    if self.device.type != "cpu":
        raise TypeError(
            f"{who}(): takes tensors on the CPU, self is on {self.device}; move it with self.cpu()"
        )
    if self.requires_grad:
        raise RuntimeError(
            f"{who}(): self requires grad and a Python function of its elements has no derivative; "
            f"call it on self.detach()"
        )
    lists = (t.detach().reshape(-1).tolist() for t in (self, *others))
    found = [function(*each) for each in zip(*lists, strict=True)]
    self.copy_(facula.tensor(found, dtype=self.dtype).reshape(self.shape))
    return self


def apply_(self: Any, callable: Callable[[Any], Any]) -> Any:
    """Replace each element by what a Python function gives for it; on the CPU, no gradients."""
    return _values("apply_", self, callable)


def map_(self: Any, tensor: Any, callable: Callable[[Any, Any], Any]) -> Any:
    """As `apply_`, of each element and that of another tensor, which is broadcast."""
    return _values("map_", self, callable, tensor.expand(self.shape))


def map2_(self: Any, x: Any, y: Any, callable: Callable[[Any, Any, Any], Any]) -> Any:
    """As `apply_`, of each element and those of two other tensors, which are broadcast."""
    return _values("map2_", self, callable, x.expand(self.shape), y.expand(self.shape))


# ---- functions whose tensor comes second, and other shapes


def polygamma(self: Any, n: int) -> Any:
    """`facula.polygamma(n, self)`."""
    return facula.polygamma(n, self)


def polygamma_(self: Any, n: int) -> Any:
    """`polygamma` in place."""
    return self.copy_(facula.polygamma(n, self))


def resize(self: Any, *sizes: Any) -> Any:
    """`reshape` to a shape of as many elements; `resize_` changes their number."""
    size = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    if facula.Size(size).numel() != self.numel():
        raise RuntimeError(
            f"resize(): {tuple(self.shape)} has {self.numel()} elements and {tuple(size)} "
            f"another number; use resize_() on a tensor without a graph"
        )
    return self.reshape(size)


def resize_as(self: Any, tensor: Any) -> Any:
    """`resize` to the shape of another tensor."""
    return resize(self, tuple(tensor.shape))


# ---- new tensors


def new_tensor(
    self: Any,
    data: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Any:
    """A tensor of `data`, copied, of this one's dtype and device unless others are given."""
    dtype = self.dtype if dtype is None else dtype
    device = self.device if device is None else device
    if isinstance(data, facula.Tensor):
        made = data.detach().to(device=device, dtype=dtype, copy=True)
    else:
        made = facula.tensor(data, dtype=dtype, device=device)
    return _in_class_of(self, made).requires_grad_(requires_grad)


def _in_class_of(self: Any, made: Any) -> Any:
    """In the class that results of an operator of `self` have."""
    cls = facula.Tensor if type(self) is facula.Tensor else type(self.new_empty(0))
    return made if type(made) is cls else made.as_subclass(cls)


def new(self: Any, *args: Any, device: Any = None) -> Any:
    """The old constructor: of sizes, uninitialised, or of data; this one's dtype and device."""
    device = self.device if device is None else device
    if all(isinstance(arg, int) and not isinstance(arg, bool) for arg in args):
        return self.new_empty(args or (0,), device=device)
    if len(args) != 1:
        raise TypeError(f"new() takes sizes, or one sequence or tensor, not {len(args)} arguments")
    if isinstance(args[0], facula.Size):
        return self.new_empty(args[0], device=device)
    return new_tensor(self, args[0], device=device)


# ---- questions


def get_device(input: Any) -> int:
    """`input.get_device()`: the number of its device, -1 on the CPU."""
    return int(input.get_device())


def is_inference(input: Any) -> bool:
    """`input.is_inference()`."""
    return bool(input.is_inference())


def is_signed(input: Any) -> bool:
    """`input.is_signed()`: may its elements be negative?"""
    return bool(input.is_signed())


def is_nonzero(self: Any) -> bool:
    """Is its one element not zero?

    Raises:
        RuntimeError: it has several, or none.
    """
    if self.numel() != 1:
        raise RuntimeError(
            f"Boolean value of Tensor with {self.numel()} values is ambiguous: is_nonzero() takes "
            f"a tensor of one element"
        )
    return bool(self.item() != 0)


def is_distributed(self: Any) -> bool:
    """False: a tensor lies on one device."""
    return False


def is_same_size(self: Any, other: Any) -> bool:
    """Have both the same shape?"""
    return bool(self.shape == other.shape)


def is_set_to(self: Any, tensor: Any) -> bool:
    """Are both the same elements: of one memory, from one place, of one shape and strides?"""
    return bool(
        self.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
        and self.storage_offset() == tensor.storage_offset()
        and self.shape == tensor.shape
        and self.stride() == tensor.stride()
    )


def const_data_ptr(self: Any) -> int:
    """`data_ptr`, of memory that is read alone."""
    return int(self.data_ptr())


def dim_order(self: Any, ambiguity_check: Any = False) -> tuple[int, ...]:
    """Dims from the one with the largest steps in memory to the one with the smallest.

    Args:
        ambiguity_check: raise where strides leave the order open; or a list of memory formats.
    """
    strides, sizes = self.stride(), self.shape
    if ambiguity_check is True:
        steps = [n for n, size in zip(strides, sizes, strict=True) if size > 1]
        if len(set(steps)) < len(steps) or any(size <= 1 for size in sizes):
            raise RuntimeError(
                f"dim_order(): strides {tuple(strides)} of {tuple(sizes)} leave the order open"
            )
    # Dims of one step keep their order, unless the sizes tell which lies within the other.
    return tuple(sorted(range(self.dim()), key=lambda d: (-strides[d], -(sizes[d] > 1), d)))


def is_conj(self: Any) -> bool:
    """False: conjugates are written out, not marked."""
    return False


def is_neg(self: Any) -> bool:
    """False: negatives are written out, not marked."""
    return False


def resolve_conj(self: Any) -> Any:
    """The tensor itself: its conjugates are written out."""
    return self


def resolve_neg(self: Any) -> Any:
    """The tensor itself: its negatives are written out."""
    return self


# ---- memory, and what takes a tensor's place


@telling
def slice_inverse(
    self: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    """The tensor that a slice of the first elements was taken from, which `src` has the form of."""
    return self.as_strided(src.shape, src.stride(), src.storage_offset())


def module_load(self: Any, other: Any, assign: bool = False) -> Any:
    """What `load_state_dict` puts in place of the tensor: its own memory with the elements of
    `other`, or with `assign` those of `other`."""
    return other.detach() if assign else self.copy_(other).detach()


def chalf(self: Any, memory_format: Any = None) -> Any:
    """Raises TypeError: there are no tensors of complex32; cfloat() is the next wider dtype."""
    raise TypeError("chalf(): facula has no tensors of dtype complex32; take cfloat()")


def storage_type(self: Any) -> Any:
    """The class of the tensor's memory by dtype, `facula.FloatStorage` say."""
    from facula._legacy_types import LEGACY_STORAGES, legacy_storages

    kinds = LEGACY_STORAGES
    if self.device.type != "cpu":
        kinds = legacy_storages(f"facula.{self.device.type}", self.device.type)
    return next((kind for kind in kinds.values() if kind.dtype == self.dtype), facula.TypedStorage)


def to_device(self: Any, device: Any, /, *, stream: Any = None) -> Any:
    """The tensor on a device, as the Array API has it: itself where it is there already.

    `stream` must be None: copies are made in the device's current stream.
    """
    if stream is not None:
        raise ValueError(f"to_device(): stream must be None, not {stream!r}")
    return self.to(device)
