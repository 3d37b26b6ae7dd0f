"""Operators that treat a leading dim as a batch treat two of them alike, gradients too.

Of one batch dim, counting dims from the front and from the back often comes to the same.
"""

from __future__ import annotations

from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.testing import _gradients
from facula.testing._samples import OpRecord, Sample, operators
from harness import arguments, to_numpy

from tests.grouped import grouped

# One dim more is a batch for these, two are refused or are a dim of their own.
ONE = ("hsplit", "cross", "stft", "_pool", "nn_unfold", "nn_fold", "channel_shuffle")
REFUSED = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError)
CASES = [
    pytest.param(op, i, id=f"{op.name}-{i}")
    for op in operators()
    if op.function() is not None
    and not op.scalar
    and not any(word in op.name for word in ONE)
    and "random" not in (op.traits or ())
    and "value_dependent" not in (op.traits or ())
    and op.kind not in ("view", "mutation", "creation", "random")
    for i in range(len(op.data["samples"]))
]


def _item(value: Any, k: int) -> Any:
    """The sample's array with its elements moved on, so that no two items are alike."""
    if isinstance(value, np.ndarray) and type(value) is np.ndarray and value.ndim > 0:
        return np.roll(value.reshape(-1), k).reshape(value.shape)
    return value


def _stack(values: list[Any], batch: tuple[int, ...]) -> Any:
    if not fa.is_tensor(values[0]) or values[0].dim() == 0:
        return values[0]
    return fa.stack(values).reshape(*batch, *values[0].shape)


def _run(op: OpRecord, args: list[Any], kwargs: dict[str, Any], slopes: bool) -> list[np.ndarray]:
    """The results, then the gradients of their weighted sums."""
    args = [a.clone() if fa.is_tensor(a) else a for a in args]
    leaves = [a for a in args if fa.is_tensor(a) and a.dim() > 0 and a.is_floating_point()]
    if slopes:
        for leaf in leaves:
            leaf.requires_grad_()
    found = op.function()(*args, **kwargs)
    found = [found] if fa.is_tensor(found) else list(found)
    if not all(fa.is_tensor(t) for t in found):
        return []
    if slopes:
        sums = [(t * t).sum() for t in found if t.requires_grad]
        if sums:
            total = sum(sums[1:], sums[0])
            slope = fa.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
            found += list(slope)
    return [to_numpy(t.detach()) for t in found]


def batched(op: OpRecord, index: int, batch: tuple[int, ...], slopes: bool) -> bool | None:
    """Whether a batch gives what its items give; None if it is refused."""
    count = int(np.prod(batch))
    sample = op.sample(index)
    items = []
    for k in range(count):
        given = Sample(
            [_item(a, k) for a in sample.args], {n: _item(v, k) for n, v in sample.kwargs.items()}
        )
        _, args, kwargs = arguments(given, "float64")
        items.append((args, kwargs))
    try:
        each = [_run(op, *item, slopes) for item in items]
        args = [_stack([item[0][i] for item in items], batch) for i in range(len(items[0][0]))]
        kwargs = {n: _stack([item[1][n] for item in items], batch) for n in items[0][1]}
        got = _run(op, args, kwargs, slopes)
    except REFUSED:
        return None
    if len({a.dim() for a in items[0][0] if fa.is_tensor(a)}) > 1:
        return None  # operands that are broadcast
    if len(got) != len(each[0]):
        return None
    for g, *parts in zip(got, *each, strict=True):
        want = np.stack(parts).reshape(*batch, *parts[0].shape)
        if g.shape != want.shape or not np.allclose(g, want, 1e-7, 1e-9, equal_nan=True):
            return False
    return True


@grouped(("op", "index"), CASES)
def test_two_batch_dims(op: OpRecord, index: int) -> None:
    for slopes in (False, True) if _gradients.is_differentiable(op) else (False,):
        if batched(op, index, (2,), slopes):
            assert batched(op, index, (2, 3), slopes), "gradients" if slopes else "results"
