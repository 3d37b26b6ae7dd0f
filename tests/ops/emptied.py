"""Samples with nothing in them: every size of the arrays set to zero, one size after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from facula.testing._samples import OpRecord, Sample


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
