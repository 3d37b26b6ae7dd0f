"""Tensors that a module owns: `Parameter` (trained) and `Buffer` (kept, not trained)."""

from __future__ import annotations

from typing import Any

import facula
from facula import _C

__all__ = ["Buffer", "Parameter"]


def _rebuild_parameter(cls: type, data: Any, requires_grad: bool) -> Any:
    return cls(data, requires_grad)


class Parameter(facula.Tensor):
    """A tensor that registers itself when it is assigned to a `Module`'s attribute.

    Args:
        data: Tensor of any shape and dtype; its memory is shared, not copied. None means empty.
        requires_grad: whether autograd records operations on it; needs a floating or complex dtype.

    Operations on a parameter give plain tensors.
    """

    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = facula.empty(0)
        if not isinstance(data, facula.Tensor):
            raise TypeError(f"{cls.__name__}(): data is {type(data).__name__}, expected a Tensor")
        return facula.Tensor._make_subclass(cls, data.detach(), requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) in memo:
            return memo[id(self)]
        result = type(self)(_C._deep_copy(self, memo), self.requires_grad)
        memo[id(self)] = result
        return result

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _rebuild_parameter, (type(self), self.detach(), self.requires_grad)

    def __repr__(self) -> str:
        return "Parameter containing:\n" + repr(self.detach().requires_grad_(self.requires_grad))


class Buffer(facula.Tensor):
    """A tensor that registers itself as a module's buffer when it is assigned to an attribute.

    Args:
        data: Tensor; its memory is shared. None means empty.
        persistent: whether `state_dict` includes it.
    """

    persistent: bool
    __torch_function__ = _C._disabled_torch_function_impl

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Buffer:
        if data is None:
            data = facula.empty(0)
        if not isinstance(data, facula.Tensor):
            raise TypeError(f"Buffer(): data is {type(data).__name__}, expected a Tensor")
        result = facula.Tensor._make_subclass(cls, data.detach(), data.requires_grad)
        result.persistent = persistent
        return result

    def __deepcopy__(self, memo: dict[int, Any]) -> Buffer:
        if id(self) in memo:
            return memo[id(self)]
        result = type(self)(_C._deep_copy(self, memo), persistent=self.persistent)
        memo[id(self)] = result
        return result
