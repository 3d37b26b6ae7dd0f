"""Products of matrices."""

from __future__ import annotations

import numpy as np

from tools.bench.row import Family, Versus

TOLERANCE = {"float32": 1e-4, "float64": 1e-10, "bfloat16": 1e-2}
rows = Family("matmul", tolerance=lambda dtype, **case: TOLERANCE[dtype])
PEAK = 0.95  # of the multiply-add units
WIDE = ["float32", "float64"]


def peak(n, dtype):
    """At this size nothing but arithmetic should count."""
    if n != 2048 or dtype not in WIDE:
        return ()
    return Versus("machine", PEAK, f"peak {dtype}", 2.0 * n**3)


@rows.add(
    "{n}x{n}, {dtype}",
    1.0,
    dtype=[*WIDE, "bfloat16"],
    n=[64, 256, 1024, 2048],
    also=peak,
    numpy=lambda lib, inputs, n, dtype: numpy_product(inputs, (n, n), (n, n), dtype),
)
def squares(lib, inputs, n, dtype):
    return product(inputs, (n, n), (n, n), dtype)


@rows.add(
    "batched {batch}, {n}x{n}, {dtype}",
    1.0,
    dtype=[*WIDE, "bfloat16"],
    batch=[1024],
    n=[8, 32],
    numpy=lambda lib, inputs, batch, n, dtype: numpy_product(
        inputs, (batch, n, n), (batch, n, n), dtype
    ),
)
def batched(lib, inputs, batch, n, dtype):
    return product(inputs, (batch, n, n), (batch, n, n), dtype)


@rows.add(
    "{order}, {n}, {dtype}",
    1.0,
    dtype=[*WIDE, "bfloat16"],
    order=["matrix-vector", "vector-matrix"],
    n=[256, 4096],
    numpy=lambda lib, inputs, order, n, dtype: numpy_product(
        inputs, *vector_shapes(order, n), dtype
    ),
)
def vectors(lib, inputs, order, n, dtype):
    return product(inputs, *vector_shapes(order, n), dtype)


def vector_shapes(order, n):
    return ((n, n), (n,)) if order == "matrix-vector" else ((n,), (n, n))


@rows.add("a @ b.t(), {n}, {dtype}", 1.0, dtype=["float32", "bfloat16"], n=[1024])
def transposed(lib, inputs, n, dtype):
    a, b = inputs.normal(n, n, dtype=dtype), inputs.normal(n, n, dtype=dtype)
    return lambda: a @ b.t()


@rows.add(
    "linear {shape}, {dtype}",
    1.0,
    dtype=["float32", "bfloat16"],
    shape=[(64, 784, 256), (768, 512, 2048)],
)
def linear(lib, inputs, shape, dtype):
    n, inward, outward = shape
    x = inputs.normal(n, inward, dtype=dtype)
    weight, bias = inputs.normal(outward, inward, dtype=dtype), inputs.normal(outward, dtype=dtype)
    function = lib.nn.functional.linear
    return lambda: function(x, weight, bias)


def product(inputs, left, right, dtype):
    a, b = inputs.normal(*left, dtype=dtype), inputs.normal(*right, dtype=dtype)
    return lambda: a @ b


def numpy_product(inputs, left, right, dtype):
    if not hasattr(np, dtype):
        raise NotImplementedError
    return product(inputs, left, right, dtype)
