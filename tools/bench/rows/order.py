"""Order and running sums: 1M elements, 4096x4096."""

from __future__ import annotations

import numpy as np

from tools.bench.row import Family

rows = Family("order", tolerance=0)
SIZE = 1_000_000


@rows.add(
    "{op}, 1M",
    0.4,
    op=["sort", "argsort"],
    numpy=lambda lib, inputs, op: numpy_sorted(inputs, op),
)
def sorts(lib, inputs, op):
    x = inputs.shuffled(SIZE)
    function = getattr(lib, op)
    return (lambda: tuple(function(x))) if op == "sort" else (lambda: function(x))


def numpy_sorted(inputs, op):
    """NumPy's sort gives no indices: to have both it sorts these."""
    x = inputs.shuffled(SIZE)
    if op == "sort":
        return lambda: x[np.argsort(x)]
    return lambda: np.argsort(x)


@rows.add("sort, int64, 1M", 0.4)
def integers(lib, inputs):
    x = inputs.own(inputs.rng.permutation(SIZE))
    return lambda: tuple(lib.sort(x))


@rows.add("sort, {shape}, dim {dim}", 0.4, shape=[(1000, 1000)], dim=[0, 1])
def rows_sorted(lib, inputs, shape, dim):
    x = inputs.shuffled(SIZE).reshape(*shape)
    return lambda: tuple(lib.sort(x, dim))


@rows.add("topk {k}, {shape}", 0.4, k=[10, 1000], shape=[(SIZE,), (1000, 1000)])
def topk(lib, inputs, k, shape):
    x = inputs.shuffled(SIZE).reshape(*shape)
    return lambda: tuple(lib.topk(x, k))


@rows.add(
    "unique, 1M, {values} values",
    0.4,
    values=[1000, SIZE],
    numpy=lambda lib, inputs, values: numpy_unique(inputs, values),
)
def unique(lib, inputs, values):
    x = inputs.integers(SIZE, high=values)
    return lambda: lib.unique(x)


def numpy_unique(inputs, values):
    x = inputs.integers(SIZE, high=values)
    return lambda: np.unique(x)


@rows.add("searchsorted, 1M in 1M", 0.4, numpy=True)
def searchsorted(lib, inputs):
    x = inputs.own(np.arange(SIZE, dtype=np.float32))
    wanted = inputs.floats(SIZE, low=0.0, high=float(SIZE))
    return lambda: lib.searchsorted(x, wanted)


@rows.add(
    "cumsum, 4096x4096, dim {dim}",
    0.4,
    dim=[0, 1],
    tolerance=1e-4,
    numpy=lambda lib, inputs, dim: numpy_cumsum(inputs, dim),
)
def cumsum(lib, inputs, dim):
    x = inputs.floats(4096, 4096, low=0.0)
    return lambda: lib.cumsum(x, dim)


def numpy_cumsum(inputs, dim):
    x = inputs.floats(4096, 4096, low=0.0)
    return lambda: np.cumsum(x, dim)
