"""Hooks that send gradients as they are, or rounded to 16 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula
from facula import Tensor, distributed

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]


def _averaged(group: Any, t: Tensor) -> Any:
    work = distributed.all_reduce(t, distributed.ReduceOp.AVG, group, True)
    assert work is not None
    return work.get_future().then(lambda future: future.value()[0])


def allreduce_hook(process_group: Any, bucket: Any) -> Any:
    """The mean, as without a hook."""
    return _averaged(process_group, bucket.buffer())


def _compressed(dtype: facula.dtype, process_group: Any, bucket: Any) -> Any:
    flat = bucket.buffer()
    future = _averaged(process_group, flat.to(dtype))
    return future.then(lambda done: flat.copy_(done.value()))


def fp16_compress_hook(process_group: Any, bucket: Any) -> Any:
    """The mean of gradients rounded to float16: half of the bytes."""
    return _compressed(facula.float16, process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: Any) -> Any:
    """The mean of gradients rounded to bfloat16: half of the bytes."""
    return _compressed(facula.bfloat16, process_group, bucket)


def _wrapper(dtype: facula.dtype, hook: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def wrapped(state: Any, bucket: Any) -> Any:
        flat = bucket.buffer()
        bucket.set_buffer(flat.to(dtype).to(flat.dtype))
        return hook(state, bucket)

    return wrapped


def fp16_compress_wrapper(hook: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A hook that is given gradients rounded to float16."""
    return _wrapper(facula.float16, hook)


def bf16_compress_wrapper(hook: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A hook that is given gradients rounded to bfloat16."""
    return _wrapper(facula.bfloat16, hook)
