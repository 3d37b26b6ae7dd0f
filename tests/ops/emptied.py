"""Samples with nothing in them: every size of the arrays set to zero, one size after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import facula as fa
import numpy as np
from facula.testing._samples import OpRecord, Sample
from harness import arguments


def _sizes(value: Any) -> set[int]:
    if isinstance(value, list | tuple):
        return set().union(*map(_sizes, value))
    return set(value.shape) if isinstance(value, np.ndarray) else set()


def _without(value: Any, size: int) -> Any:
    """`value` with each dim of that size empty; lists of ints may be shapes, and follow."""
    if isinstance(value, list | tuple):
        return type(value)(_without(v, size) for v in value)
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return value[tuple(slice(0, 0) if n == size else slice(None) for n in value.shape)]
    return value


def _shapes_too(value: Any, size: int) -> Any:
    ints = isinstance(value, list | tuple) and value and all(type(v) is int for v in value)
    if not ints:
        return _without(value, size)
    return type(value)(0 if v == size else v for v in value)


def emptied(op: OpRecord) -> Iterator[Sample]:
    """The operator's samples, each size in turn zero: in arrays alone, and in lists of ints too."""
    for sample in op.samples():
        for size in sorted(_sizes([*sample.args, *sample.kwargs.values()]) - {0}):
            for change in (_without, _shapes_too):
                yield Sample(
                    [change(a, size) for a in sample.args],
                    {k: change(v, size) for k, v in sample.kwargs.items()},
                )


def tensors_in(value: Any) -> list[fa.Tensor]:
    if isinstance(value, list | tuple):
        return [t for v in value for t in tensors_in(v)]
    return [value] if isinstance(value, fa.Tensor) else []


def placed(value: Any, device: str, wants: bool) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(placed(v, device, wants) for v in value)
    if not isinstance(value, fa.Tensor):
        return value
    moved = value.to(device).clone()
    return moved.detach().requires_grad_() if wants and moved.is_floating_point() else moved


def synchronize(device: str) -> None:
    """What a kernel found wrong belongs to the call that started it."""
    if device == "cuda":
        fa.cuda.synchronize()


def outcome(op: OpRecord, sample: Sample, dtype: str, device: str, wants: bool) -> Any:
    """The results and gradients as (shape, dtype, values), or what kind of error there was."""
    _, args, kwargs = arguments(sample, dtype)
    args = placed(args, device, wants)
    kwargs = {k: placed(v, device, wants) for k, v in kwargs.items()}
    try:
        results = tensors_in(op.function()(*args, **kwargs))
        synchronize(device)
    except Exception as error:
        return type(error).__name__
    grads: list[Any] = []
    inputs = [t for t in tensors_in([*args, *kwargs.values()]) if t.requires_grad]
    ends = [r for r in results if r.requires_grad and r.is_floating_point()]
    if wants and inputs and ends:
        try:
            slopes = [fa.ones_like(r) for r in ends]
            grads = list(fa.autograd.grad(ends, inputs, slopes, allow_unused=True))
            synchronize(device)
        except Exception as error:
            return type(error).__name__
    return [
        None if t is None else (tuple(t.shape), str(t.dtype), t.detach().cpu())
        for t in [*results, *grads]
    ]
