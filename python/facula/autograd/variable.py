"""The old name of a tensor that takes part in autograd."""

from __future__ import annotations

from typing import Any

import facula

__all__ = ["Variable", "VariableMeta"]


class VariableMeta(type):
    """Every tensor is an instance of `Variable`."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, facula.Tensor)


class Variable(metaclass=VariableMeta):
    """`Variable(data, requires_grad)` is a tensor: the memory of `data`, without its history.

    >>> import facula
    >>> x = facula.autograd.Variable(facula.ones(2), requires_grad=True)
    >>> type(x).__name__, isinstance(x, facula.autograd.Variable)
    ('Tensor', True)
    """

    def __new__(cls, data: Any, requires_grad: bool = False, volatile: Any = None) -> Any:
        return data.detach().requires_grad_(requires_grad)
