"""What `torch.autograd` has beside facula's."""

from __future__ import annotations

from typing import Any

import facula

__all__ = ["Variable"]


class _Variable(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, facula.Tensor)


class Variable(metaclass=_Variable):
    """The tensor itself, as since torch 0.4; `requires_grad` is set on a view of it."""

    def __new__(cls, data: Any, requires_grad: bool = False, volatile: Any = None) -> Any:
        return data.detach().requires_grad_(requires_grad)
