"""4096x4096 float32 in other orders: transposes, broadcasts, joins, permuted copies."""

from __future__ import annotations

from tools.bench.row import Family

rows = Family("layout", tolerance=0)
SIDE = 4096
# NumPy's way to the same result.
NUMPY = {
    "a + b.t()": "a + b.T",
    "a.t().contiguous()": "lib.ascontiguousarray(a.T)",
    "a.flip(1)": "lib.ascontiguousarray(lib.flip(a, 1))",
    "a[:, ::2].contiguous()": "lib.ascontiguousarray(a[:, ::2])",
}


@rows.add(
    "{code}",
    0.4,
    code=[
        "a + b.t()",
        "a.t().contiguous()",
        "a + row",
        "a + column",
        "lib.cat([a, b])",
        "lib.cat([a, b], 1)",
        "lib.stack([a, b], 1)",
        "a.flip(1)",
        "a[:, ::2].contiguous()",
        "lib.where(a > row, a, b)",
    ],
    statement=lambda code: code,
    numpy=lambda lib, inputs, code: squares(lib, inputs, code),
    numpy_statement=lambda code: NUMPY.get(code, code).replace("lib.cat(", "lib.concatenate("),
)
def squares(lib, inputs, code):
    return {
        "lib": lib,
        "a": inputs.floats(SIDE, SIDE),
        "b": inputs.floats(SIDE, SIDE),
        "row": inputs.floats(SIDE),
        "column": inputs.floats(SIDE, 1),
    }


@rows.add(
    "{shape} permuted {order}",
    0.4,
    shape=[(256, 256, 256)],
    order=[(2, 1, 0), (2, 0, 1), (1, 0, 2)],
    numpy=lambda lib, inputs, shape, order: numpy_permuted(lib, inputs, shape, order),
)
def permuted(lib, inputs, shape, order):
    x = inputs.floats(*shape)
    return lambda: x.permute(order).contiguous()


@rows.add("images {shape} to channels last", 0.4, shape=[(16, 64, 128, 128)])
def channels_last(lib, inputs, shape):
    x = inputs.floats(*shape)
    return lambda: x.permute(0, 2, 3, 1).contiguous()


def numpy_permuted(lib, inputs, shape, order):
    x = inputs.floats(*shape)
    return lambda: lib.ascontiguousarray(x.transpose(order))
