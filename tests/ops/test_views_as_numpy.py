"""Which shapes a tensor's memory has without a copy, against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import facula as fa
import numpy as np
import pytest

BASE = np.arange(2 * 3 * 4 * 5.0)
LAYOUTS: dict[str, Any] = {
    "dense": lambda a: a[:24].reshape(2, 3, 4),
    "gap at the end": lambda a: a.reshape(2, 3, 4, 5)[..., :3],
    "gap inside": lambda a: a.reshape(2, 3, 4, 5)[:, :2],
    "every second": lambda a: a.reshape(2, 3, 4, 5)[:, ::2, :, ::2],
    "turned": lambda a: a.reshape(6, 20).T[:4],
    "moved": lambda a: a.reshape(2, 3, 20).transpose(1, 0, 2)[..., :2],
    "ones": lambda a: a.reshape(2, 1, 3, 20)[:, :, :, :1],
    "one row": lambda a: a.reshape(6, 20)[1:2, :6],
    "column": lambda a: a.reshape(6, 20)[:, 3:4],
    "a number": lambda a: a.reshape(120)[7:8].reshape(()),
}


def shapes(n: int, dims: int) -> set[tuple[int, ...]]:
    """All shapes of n elements with so many dims."""
    factors = [d for d in range(1, n + 1) if n % d == 0]
    return {s for s in itertools.product(factors, repeat=dims) if np.prod(s) == n}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_views(layout: str) -> None:
    a = LAYOUTS[layout](BASE)
    x = fa.tensor(BASE).as_strided(
        a.shape, [s // 8 for s in a.strides], a.ravel()[:1].astype(int)[0]
    )
    assert x.tolist() == a.tolist()
    views = 0
    for shape in set().union(*(shapes(a.size, dims) for dims in (1, 2, 3, 4))):
        shared = a.reshape(shape)
        if not np.shares_memory(shared, a):
            with pytest.raises(RuntimeError):
                x.view(shape)
            assert x.reshape(shape).tolist() == shared.tolist()
            continue
        views += 1
        y = x.view(shape)
        assert y.tolist() == shared.tolist() and y.data_ptr() == x.data_ptr()
        for size, stride, want in zip(shape, y.stride(), shared.strides, strict=True):
            assert size == 1 or stride == want // 8
    assert views
