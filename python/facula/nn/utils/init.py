"""Modules made without drawing their parameters."""

from __future__ import annotations

import inspect
from typing import Any

from facula.nn.modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """`module_cls(*args, **kwargs)` on the device asked for, its parameters not set.

    The class must take `device` and make all parameters and buffers there.

    Raises:
        RuntimeError: the class is no Module, or takes no `device`.
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    parameters = inspect.signature(module_cls).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    if "device" not in parameters and not takes_all:
        raise RuntimeError(f"Module {module_cls.__name__} must support a 'device' arg to skip init")
    device = kwargs.pop("device", None) or "cpu"
    return module_cls(*args, **kwargs, device="meta").to_empty(device=device)
