"""`torch.nn.utils._named_member_accessor`: tensors of modules by name."""

from __future__ import annotations

from typing import Any

import facula

__all__ = ["set_tensor", "swap_tensor"]

_MISSING = object()


def _holder(module: Any, name: str) -> dict[str, Any]:
    """The dictionary of a module that a tensor's name is in, or belongs in."""
    if not isinstance(module, facula.nn.Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if "." in name or not name:
        raise KeyError(f"tensor name {name!r} must be neither empty nor contain '.'")
    for held in (module._parameters, module._buffers):
        if name in held:
            return held
    return module.__dict__


def swap_tensor(module: Any, name: str, tensor: Any, allow_missing: bool = False) -> Any:
    """Puts a tensor in the place of another of the module's, which is returned.

    `_MISSING` stands for one that is not there; it may be given too.

    Raises:
        AttributeError: there is none, and `allow_missing` is False.
    """
    held = _holder(module, name)
    before = held.get(name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute {name!r}")
    if tensor is _MISSING:
        held.pop(name, None)
    else:
        held[name] = tensor
    return before


def set_tensor(module: Any, name: str, tensor: Any) -> None:
    """Puts a tensor in the place of another of the module's."""
    swap_tensor(module, name, tensor, allow_missing=True)
