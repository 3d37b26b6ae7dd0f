"""Tensors from what files say of them: storage, offset, shape, strides; every number is checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import facula
from facula import _C
from facula.nn.parameter import Buffer, Parameter
from facula.serialization._machine import Malformed

__all__ = ["Rebuild", "attributes", "set_attributes"]

# What a file may have copied beyond its own size: many views of it that must be copied are a bomb.
_MOST_COPIES, _SOME = 64, 1 << 24


def attributes(state: Any) -> dict[str, Any]:
    """A file's attributes of an object, if that is what they are."""
    if not isinstance(state, dict) or not all(
        type(name) is str and name.isidentifier() and name[:2] != "__" for name in state
    ):
        raise Malformed("its pickle sets attributes that are none")
    return state


def set_attributes(tensor: Any, state: Any) -> None:
    """Put what a file says into a tensor's own attributes."""
    if isinstance(state, tuple) and len(state) == 2 and not state[1]:
        state = state[0]
    tensor.__dict__.update(attributes(state or {}))


class Rebuild:
    """torch's functions that make tensors, for one file.

    Args:
        file_size: bounds what they copy.
    """

    def __init__(self, file_size: int) -> None:
        self.budget = _MOST_COPIES * file_size + _SOME

    def spend(self, count: int) -> None:
        """Count bytes that are copied."""
        self.budget -= count
        if self.budget < 0:
            raise Malformed("it would take far more memory than the file has bytes")

    @staticmethod
    def numbers(what: str, values: Any) -> None:
        """Raise unless all of them are natural numbers."""
        if not all(type(n) is int and 0 <= n < 2**63 for n in values):
            raise Malformed(f"{what} {values!r:.200} holds something else than natural numbers")

    def view(self, storage: Any, offset: Any, size: Any, stride: Any) -> Any:
        """Elements of a 1-d tensor, which is what storages are here."""
        if not isinstance(storage, facula.Tensor) or storage.dim() != 1:
            raise Malformed(f"a tensor's storage is a {type(storage).__name__}")
        if not isinstance(size, (tuple, list)) or not isinstance(stride, (tuple, list)):
            raise Malformed("a tensor's shape or strides are no tuples")
        self.numbers("a tensor's shape", size)
        self.numbers("a tensor's strides", stride)
        self.numbers("a tensor's offset", (offset,))
        if len(size) != len(stride):
            raise Malformed(f"a tensor has the shape {size} and strides {stride} of another length")
        count, have = math.prod(size), storage.numel()
        last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
        if count >= 2**63 or (count and last >= have):
            raise Malformed(
                f"a tensor of shape {tuple(size)}, strides {tuple(stride)} and offset {offset} "
                f"reaches outside of its storage of {have} elements"
            )
        if not count:
            return facula.empty_strided(
                tuple(size), tuple(stride), dtype=storage.dtype, device=storage.device
            )
        start = storage.storage_offset()
        return storage.as_strided(tuple(size), tuple(stride), start + offset)

    def tensor(self, storage: Any, offset: Any, size: Any, stride: Any) -> Any:
        return self.view(storage, offset, size, stride)

    def tensor_v2(
        self,
        storage: Any,
        offset: Any,
        size: Any,
        stride: Any,
        requires_grad: Any,
        backward_hooks: Any = None,
        metadata: Any = None,
    ) -> Any:
        result = _C._storage_view(storage, offset, size, stride)
        if result is None:
            result = self.view(storage, offset, size, stride)
        if metadata:
            result = self._with_bits(result, metadata)
        return result if requires_grad is False else self._with_grad(result, requires_grad)

    def tensor_v3(
        self,
        storage: Any,
        offset: Any,
        size: Any,
        stride: Any,
        requires_grad: Any,
        backward_hooks: Any,
        dtype: Any,
        metadata: Any = None,
    ) -> Any:
        if not isinstance(dtype, facula.dtype) or not isinstance(storage, facula.Tensor):
            raise Malformed("a tensor has no dtype or no storage")
        if storage.dtype != dtype:
            whole = storage.numel() * storage.element_size() // dtype.itemsize
            count = whole * dtype.itemsize // storage.element_size()
            storage = storage[:count].view(dtype)
        return self.tensor_v2(storage, offset, size, stride, requires_grad, None, metadata)

    def _with_bits(self, tensor: Any, metadata: Any) -> Any:
        """torch notes that a tensor is to be conjugated or negated; here that is done."""
        if not isinstance(metadata, dict) or not all(v in (True, False) for v in metadata.values()):
            raise Malformed("a tensor's metadata are no flags")
        for bit, apply in (("conj", facula.conj_physical), ("neg", facula.neg)):
            if metadata.get(bit):
                self.spend(tensor.numel() * tensor.element_size())
                tensor = apply(tensor)
        unknown = [
            name for name, value in metadata.items() if value and name not in ("conj", "neg")
        ]
        if unknown:
            raise Malformed(f"a tensor has the property {unknown[0]!r}, which facula does not have")
        return tensor

    @staticmethod
    def _with_grad(tensor: Any, requires_grad: Any) -> Any:
        if type(requires_grad) is not bool:
            raise Malformed(f"a tensor's requires_grad is a {type(requires_grad).__name__}")
        return tensor.detach().requires_grad_(True) if requires_grad else tensor

    def parameter(self, data: Any, requires_grad: Any = True, backward_hooks: Any = None) -> Any:
        if not isinstance(data, facula.Tensor) or type(requires_grad) is not bool:
            raise Malformed(f"a parameter's data is a {type(data).__name__}")
        return Parameter(data.detach(), requires_grad)

    def parameter_with_state(
        self, data: Any, requires_grad: Any, backward_hooks: Any, state: Any
    ) -> Any:
        result = self.parameter(data, requires_grad)
        set_attributes(result, state)
        return result

    def from_type(self, function: Any, cls: Any, args: Any, state: Any) -> Any:
        """A tensor of a subclass, or with attributes of its own."""
        own = [call for _, call in self.functions().values()]
        if function not in own or not isinstance(args, tuple):
            raise Malformed("a tensor with attributes is made by something else than a function")
        result = function(*args)
        if isinstance(state, tuple) and len(state) == 2 and not state[1]:
            state = state[0]
        if cls is facula.Tensor and isinstance(state, dict) and state.get("_is_buffer") is True:
            return Buffer(result, persistent=bool(state.get("persistent", True)))
        if cls is not facula.Tensor and type(result) is not cls:
            if not (isinstance(cls, type) and issubclass(cls, facula.Tensor)):
                raise Malformed("a tensor has a type that is no subclass of Tensor")
            result = facula.Tensor._make_subclass(cls, result.detach(), result.requires_grad)
        set_attributes(result, state)
        return result

    def meta_tensor(self, dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Any:
        self.numbers("a tensor's shape", size)
        self.numbers("a tensor's strides", stride)
        result = facula.empty_strided(tuple(size), tuple(stride), dtype=dtype, device="meta")
        return self._with_grad(result, requires_grad)

    def device_tensor(self, data: Any, dtype: Any, device: Any, requires_grad: Any) -> Any:
        """A tensor of a device whose memory files cannot hold; it comes to the CPU."""
        if not isinstance(data, facula.Tensor):
            data = facula.as_tensor(data)
        self.spend(data.numel() * dtype.itemsize)
        return self._with_grad(data.to(dtype), requires_grad)

    def sparse_tensor(self, layout: Any, data: Any) -> Any:
        """Of a sparse layout; what a file says of its indices is proved."""
        coo = layout is facula.sparse_coo
        count = len(data) if isinstance(data, tuple) else 0
        if not isinstance(layout, facula.layout) or count not in ((3, 4) if coo else (4,)):
            raise Malformed("a sparse tensor has no layout, or other components than its layout")
        tensors = data[: 2 if coo else 3]
        size = data[2 if coo else 3]
        if not all(isinstance(t, facula.Tensor) for t in tensors) or not isinstance(size, tuple):
            raise Malformed("a sparse tensor's components are no tensors, or its size no tuple")
        self.numbers("a sparse tensor's shape", size)
        coalesced = coo and len(data) > 3 and data[3] is True
        for t in tensors:  # the look at the indices takes memory too
            self.spend(t.numel() * t.element_size())
        try:
            if coo:
                return facula.sparse_coo_tensor(
                    *tensors, size, check_invariants=True, is_coalesced=coalesced
                )
            return facula.sparse_compressed_tensor(*tensors, size, layout=layout)
        except (ValueError, TypeError, RuntimeError, IndexError) as error:
            raise Malformed(f"a sparse tensor's components do not fit together: {error}") from None

    def functions(self) -> dict[str, tuple[Any, Callable[..., Any] | None]]:
        """By torch's names."""
        if not hasattr(self, "_functions"):
            named = {
                "torch._utils._rebuild_tensor": self.tensor,
                "torch._utils._rebuild_tensor_v2": self.tensor_v2,
                "torch._utils._rebuild_tensor_v3": self.tensor_v3,
                "torch._utils._rebuild_sparse_tensor": self.sparse_tensor,
                "torch._utils._rebuild_parameter": self.parameter,
                "torch._utils._rebuild_parameter_with_state": self.parameter_with_state,
                "torch._utils._rebuild_meta_tensor_no_storage": self.meta_tensor,
                "torch._utils._rebuild_device_tensor_from_cpu_tensor": self.device_tensor,
                "torch._utils._rebuild_device_tensor_from_numpy": self.device_tensor,
                "torch._tensor._rebuild_from_type_v2": self.from_type,
            }
            self._functions: dict[str, tuple[Any, Callable[..., Any] | None]] = {
                name: (function, function) for name, function in named.items()
            }
            self._functions["torch.nn.parameter.Parameter"] = Parameter, self.parameter
        return self._functions
