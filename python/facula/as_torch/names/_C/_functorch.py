"""`torch._C._functorch`: what packages ask of tensors within `vmap`, which has no such tensors."""

from __future__ import annotations

from typing import Any

from facula.as_torch._refused import refused_function

__all__: list[str] = []


def is_batchedtensor(tensor: Any) -> bool:
    """Does it stand for a batch of tensors?"""
    return False


def get_unwrapped(tensor: Any) -> Any:
    """The batch that it stands for."""
    return tensor


for (
    _name
) in "_add_batch_dim _remove_batch_dim _vmap_decrement_nesting _vmap_increment_nesting".split():
    globals()[_name] = refused_function("_C._functorch." + _name)
