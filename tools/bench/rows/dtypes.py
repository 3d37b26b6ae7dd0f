"""Pointwise work in the other dtypes."""

from __future__ import annotations

from tools.bench.row import Family

SIZE = 1 << 24
HALVES = ["bfloat16", "float16"]
# Of the largest value: a few units of the last place.
TOLERANCE = {"bfloat16": 2e-2, "float16": 3e-3, "int32": 0, "uint8": 0, "bool": 0}
rows = Family("dtypes", tolerance=lambda dtype, **case: TOLERANCE[dtype])


@rows.add("{op}, 16M {dtype}", 0.6, dtype=HALVES, op=["add", "mul", "addcmul"])
def moves(lib, inputs, dtype, op):
    values = [inputs.floats(SIZE, dtype=dtype) for _ in range(3 if op == "addcmul" else 2)]
    function = getattr(lib, op)
    return lambda: function(*values)


@rows.add(
    "{op}, 16M {dtype}",
    0.6,
    dtype=HALVES,
    op=["exp", "log", "tanh", "sigmoid", "gelu", "erf", "sin", "pow"],
)
def mathematics(lib, inputs, dtype, op):
    low, high = (0.1, 4) if op in ("log", "pow") else (-4, 4)
    values = [inputs.floats(SIZE, low=low, high=high, dtype=dtype)]
    if op == "pow":
        values.append(inputs.floats(SIZE, low=-2, high=2, dtype=dtype))
    function = lib.nn.functional.gelu if op == "gelu" else getattr(lib, op)
    return lambda: function(*values)


@rows.add(
    "{op}, 16M {dtype}",
    0.6,
    dtype=["int32", "uint8"],
    op=["add", "mul", "floor_divide", "bitwise_and", "eq", "lt", "maximum"],
    numpy=True,
)
def integers(lib, inputs, dtype, op):
    a = inputs.integers(SIZE, low=0, high=100, dtype=dtype)
    b = inputs.integers(SIZE, low=1, high=100, dtype=dtype)
    function = getattr(lib, NUMPY.get(op, op) if hasattr(lib, "ndarray") else op)
    return lambda: function(a, b)


NUMPY = {"mul": "multiply", "eq": "equal", "lt": "less"}


@rows.add(
    "{op}, 16M {dtype}",
    0.6,
    dtype=["bool"],
    op=["logical_and", "logical_not", "logical_xor", "any", "where"],
    numpy=True,
)
def bools(lib, inputs, dtype, op):
    a, b, c = (inputs.bools(SIZE) for _ in range(3))
    function = getattr(lib, op)
    if op == "logical_not":
        return lambda: function(a)
    if op == "any":  # of nothing but False, or the first element would end it
        none = a & ~a
        return lambda: function(none)
    if op == "where":
        return lambda: function(a, b, c)
    return lambda: function(a, b)


@rows.add(
    "{source} to {dtype}, 16M",
    0.6,
    source=["float32", "int32"],
    dtype=["float32", "bfloat16", "float16", "int32", "uint8"],
    where=lambda source, dtype: source != dtype,
    tolerance=0,
)
def conversions(lib, inputs, source, dtype):
    values = inputs.floats(SIZE, low=0, high=100).to(getattr(lib, source))
    target = getattr(lib, dtype)
    return lambda: values.to(target)
