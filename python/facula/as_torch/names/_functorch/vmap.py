"""`torch._functorch.vmap`: helpers of that file which packages import, and sometimes replace."""

from __future__ import annotations

from typing import Any

from facula import Tensor
from facula.as_torch._refused import refused_function
from facula.as_torch.names.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["Tensor", "tree_flatten", "tree_unflatten"]

for _name in (
    "_add_batch_dim _broadcast_to_and_flatten _create_batched_inputs _maybe_remove_batch_dim"
    " _process_batched_inputs _remove_batch_dim _unwrap_batched _validate_and_get_batch_size"
).split():
    globals()[_name] = refused_function("_functorch.vmap." + _name)


def _get_name(func: Any) -> str:
    """What a function is called."""
    return str(getattr(func, "__name__", None) or repr(func))
