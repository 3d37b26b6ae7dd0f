"""`torch.overrides`: facula does not dispatch to `__torch_function__`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import facula

__all__ = [
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
]


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Does any of them define `__torch_function__`, which facula's tensors do not?"""
    return any(hasattr(type(arg), "__torch_function__") for arg in relevant_args)


def has_torch_function_unary(obj: Any) -> bool:
    """`has_torch_function` of one."""
    return has_torch_function((obj,))


def has_torch_function_variadic(*objs: Any) -> bool:
    """`has_torch_function` of several."""
    return has_torch_function(objs)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """The result of the first `__torch_function__` that takes the call; subclasses come first.

    Raises:
        TypeError: none does.
    """
    order: list[Any] = []
    for arg in relevant_args:
        if hasattr(type(arg), "__torch_function__") and type(arg) not in map(type, order):
            at = next((i for i, o in enumerate(order) if isinstance(arg, type(o))), len(order))
            order.insert(at, arg)
    types = tuple(map(type, order))
    for arg in order:
        result = type(arg).__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(f"no implementation of {public_api} for types {list(types)}")


def is_tensor_like(inp: Any) -> bool:
    """Is it a tensor, or does its type define `__torch_function__`?"""
    return isinstance(inp, facula.Tensor) or hasattr(type(inp), "__torch_function__")
