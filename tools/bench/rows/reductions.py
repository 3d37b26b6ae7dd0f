"""Reductions of 4096x4096 float32: of everything, of rows, of columns."""

from __future__ import annotations

import numpy as np

from tools.bench import checks
from tools.bench.row import Family

# Loose, as torch sums some of these in order; each is held against float64 as well.
rows = Family("reductions", tolerance=1e-3)
SIDE = 4096
DIMS = ["all", 0, 1]


def arguments(dim):
    return () if dim == "all" else (dim,)


def axis(dim):
    return None if dim == "all" else dim


def summed(op, dim):
    """The right result, the sum of the terms' sizes, and the number of terms."""

    def exact(trial):
        (x,) = trial.inputs.operands
        wide = x.numpy().astype(np.float64)
        n = wide.size if dim == "all" else SIDE
        terms = {"var": (wide - wide.mean(axis(dim), keepdims=True)) ** 2, "norm": wide**2}
        sizes = terms.get(op, np.abs(wide)).sum(axis(dim))
        if op == "mean":
            return wide.mean(axis(dim)), sizes / n, n
        if op == "var":
            return sizes / (n - 1), sizes / (n - 1), n
        if op == "norm":
            return np.sqrt(sizes), np.sqrt(sizes), n
        return wide.sum(axis(dim)), sizes, n

    return checks.pairwise(exact)


@rows.add(
    "{op}, dim {dim}",
    0.8,
    op=["sum", "mean", "var", "norm"],
    dim=DIMS,
    also=summed,
    numpy=lambda lib, inputs, op, dim: numpy_sums(inputs, op, dim),
)
def sums(lib, inputs, op, dim):
    x = inputs.floats(SIDE, SIDE, low=0.0)  # no sign cancels an error
    inputs.operands = (x,)
    if op == "norm":
        return lambda: lib.linalg.vector_norm(x, dim=axis(dim))
    function = getattr(lib, op)
    where = arguments(dim)
    return lambda: function(x, *where)


def numpy_sums(inputs, op, dim):
    x = inputs.floats(SIDE, SIDE, low=0.0)
    where = axis(dim)
    return {
        "sum": lambda: np.sum(x, where),
        "mean": lambda: np.mean(x, where),
        "var": lambda: np.var(x, where, ddof=1),
        "norm": lambda: np.linalg.norm(x.reshape(-1) if where is None else x, axis=where),
    }[op]


@rows.add(
    "{op}, dim {dim}",
    0.8,
    op=["max", "argmax"],
    dim=DIMS,
    tolerance=0,
    numpy=lambda lib, inputs, op, dim: numpy_extremes(inputs, op, dim),
)
def extremes(lib, inputs, op, dim):
    x = inputs.shuffled(SIDE * SIDE).reshape(SIDE, SIDE)
    function = getattr(lib, op)
    where = arguments(dim)
    if op == "max" and where:  # values and indices
        return lambda: tuple(function(x, *where))
    return lambda: function(x, *where)


def numpy_extremes(inputs, op, dim):
    x = inputs.shuffled(SIDE * SIDE).reshape(SIDE, SIDE)
    function = getattr(np, op)
    return lambda: function(x, axis(dim))


@rows.add(
    "{op}, dim {dim}, {dtype}",
    0.8,
    tolerance=1e-2,
    op=["sum"],
    dim=DIMS,
    dtype=["bfloat16", "int32", "bool"],
)
def narrow(lib, inputs, op, dim, dtype):
    x = inputs.floats(SIDE, SIDE, low=0.0, high=2.0).to(getattr(lib, dtype))
    function = getattr(lib, op)
    where = arguments(dim)
    return lambda: function(x, *where)
