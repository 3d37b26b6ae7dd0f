"""`torch._C._functorch`: what packages ask of tensors within `vmap`."""

from __future__ import annotations

from typing import Any

from facula import _C
from facula.as_torch._refused import refused_function

__all__: list[str] = []


def is_batchedtensor(tensor: Any) -> bool:
    """Does it stand for a batch of tensors?"""
    found = _C._level_of(tensor)
    return found is not None and found[1] >= 0


def get_unwrapped(tensor: Any) -> Any:
    """The tensor that it stands for; itself if it is of no transform."""
    found = _C._level_of(tensor)
    return tensor if found is None else found[2]


for (
    _name
) in "_add_batch_dim _remove_batch_dim _vmap_decrement_nesting _vmap_increment_nesting".split():
    globals()[_name] = refused_function("_C._functorch." + _name)
