"""Long sums in every layout, and what they are compared with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import facula as fa
import numpy as np
import pytest

N = 300_007
LIMIT = 2e-6  # relative
PRODUCT = 6e-6  # matrices by matrices: a register tile sums some hundred terms in one go
SHALLOW = 2e-5  # the same up to 65536 deep, where the totals of tiles are float32
TERM = float(np.float32(0.01))
SUM = TERM * N
Compute = Callable[[Any], Any]


def full(*shape: int, value: float = 0.01, **kind: Any) -> Any:
    return fa.full(shape, value, **kind)


def strided(*shape: int, value: float = 0.01, **kind: Any) -> Any:
    """Every second along the longest dim; what lies between would be seen in a sum."""
    at = max(range(len(shape)), key=lambda d: shape[d])
    twice = [2 * n if d == at else n for d, n in enumerate(shape)]
    part = fa.full(twice, 7.0, **kind)[
        tuple(slice(d == at, None, 1 + (d == at)) for d in range(len(shape)))
    ]
    return part.fill_(value)


def columns(*shape: int, value: float = 0.01, **kind: Any) -> Any:
    return fa.full(shape[::-1], value, **kind).permute(*range(len(shape))[::-1])


def offset(*shape: int, value: float = 0.01, **kind: Any) -> Any:
    return fa.full((math.prod(shape) + 1,), value, **kind)[1:].view(shape)


def expanded(*shape: int, value: float = 0.01, **kind: Any) -> Any:
    return fa.full((1,) * len(shape), value, **kind).expand(shape)


LAYOUTS = {f.__name__: f for f in (full, strided, columns, offset, expanded)}


@pytest.fixture(autouse=True, params=[1, 2], ids=["1 thread", "2 threads"])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = fa.get_num_threads()
    fa.set_num_threads(request.param)
    yield
    fa.set_num_threads(before)


def near(got: Any, want: Any, limit: float = LIMIT) -> None:
    got = np.asarray(got.detach().to(fa.complex128) if got.is_complex() else got.detach().double())
    want = np.broadcast_to(np.asarray(want), got.shape)
    off = float(np.max(np.abs(got - want) / np.abs(want)))
    assert off <= limit, f"{off:.2g} off: {got.ravel()[:3]} for {want.ravel()[:3]}"


def gradients(compute: Callable[..., Any], *inputs: Any) -> Any:
    leaves = [x.detach().requires_grad_() for x in inputs]
    return fa.autograd.grad(compute(*leaves), leaves)
