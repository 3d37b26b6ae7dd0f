"""256M elements on a graphics card: beside torch, and as a share of the rate of a copy there."""

from __future__ import annotations

from tools.bench.row import Family, Versus

HALVES, FLOATS = ["bfloat16"], ["bfloat16", "float32"]
TOLERANCE = {"bfloat16": 2e-2, "float32": 1e-4}
rows = Family(
    "card memory",
    device="cuda",
    threads=(1,),
    tolerance=lambda dtype, **case: TOLERANCE[dtype],
)
SIZE = 1 << 28
BYTES = {"bfloat16": 2, "float32": 4}
STREAM, SHUFFLE = 0.93, 0.85  # of the copy rate


def share(limit, moved, size=SIZE):
    """`moved` times `size` elements read and written, in the row's dtype, against a copy."""

    def goal(dtype, op, **case):
        count = moved.get(op, 2) if isinstance(moved, dict) else moved
        return Versus("card", limit, "copy", float(size) * BYTES[dtype] * count)

    return goal


@rows.add(
    "{op} {dtype}", 1.0, op=["add", "copy", "gelu"], dtype=FLOATS, also=share(STREAM, {"add": 3})
)
def moves(lib, inputs, op, dtype):
    a, out = inputs.tiled(SIZE, dtype), lib.empty(SIZE, dtype=getattr(lib, dtype), device="cuda")
    if op == "add":
        b = inputs.tiled(SIZE, dtype)
        return lambda: lib.add(a, b, out=out)
    if op == "copy":
        return lambda: out.copy_(a)
    return lambda: lib.nn.functional.gelu(a)


@rows.add(
    "{dtype} to {target}",
    1.0,
    dtype=FLOATS,
    target=FLOATS,
    where=lambda dtype, target: dtype != target,
    also=lambda dtype, target: Versus("card", STREAM, "copy", 6.0 * SIZE),
)
def casts(lib, inputs, dtype, target):
    a = inputs.tiled(SIZE, dtype)
    kind = getattr(lib, target)
    return lambda: a.to(kind)


@rows.add(
    "{op} {dtype}",
    1.0,
    op=["row broadcast", "transpose", "permute", "strided", "cat"],
    dtype=HALVES,
    also=share(SHUFFLE, {"strided": 1}),
)
def layouts(lib, inputs, op, dtype):
    flat = inputs.tiled(SIZE, dtype)
    a = flat.reshape(-1, 1024)
    if op == "row broadcast":
        row = inputs.normal(1024, dtype=dtype)
        return lambda: a + row
    if op == "transpose":
        square = flat.reshape(1 << 14, 1 << 14)
        return lambda: square.t().contiguous()
    if op == "permute":
        heads = flat.reshape(64, 1 << 11, 32, 64)
        return lambda: heads.transpose(1, 2).contiguous()
    if op == "strided":
        return lambda: a[:, :512].contiguous()
    halves = a[: len(a) // 2], a[len(a) // 2 :]
    return lambda: lib.cat(halves, 1)


@rows.add(
    "{op} {dtype}",
    1.0,
    op=["sum", "sum of rows", "sum of columns", "softmax", "layer_norm", "layer_norm both ways"],
    dtype=FLOATS,
    also=share(
        SHUFFLE, {"sum": 1, "sum of rows": 1, "sum of columns": 1, "layer_norm both ways": 5}
    ),
)
def folds(lib, inputs, op, dtype):
    a = inputs.tiled(SIZE, dtype).reshape(-1, 1024)
    if op.startswith("sum"):
        dims = {"sum": (), "sum of rows": (1,), "sum of columns": (0,)}[op]
        return lambda: a.sum(*dims)
    if op == "softmax":
        return lambda: lib.softmax(a, 1)
    norm = lib.nn.functional.layer_norm
    weight, bias = (inputs.normal(1024, dtype=dtype, grad=True) for _ in range(2))
    if op == "layer_norm":
        plain = weight.detach(), bias.detach()
        return lambda: norm(a, (1024,), *plain)
    leaf, slope = a.requires_grad_(), inputs.tiled(SIZE, dtype).reshape(-1, 1024)
    return lambda: lib.autograd.grad(norm(leaf, (1024,), weight, bias), (leaf, weight, bias), slope)


@rows.add(
    "cross_entropy{op} {dtype}",
    1.0,
    op=["", " both ways"],
    dtype=FLOATS,
    also=share(SHUFFLE, {"": 1, " both ways": 3}),
)
def losses(lib, inputs, op, dtype):
    a = inputs.tiled(SIZE, dtype).reshape(-1, 1 << 15)
    classes = inputs.integers(len(a), high=1 << 15)
    loss = lib.nn.functional.cross_entropy
    if not op:
        return lambda: loss(a, classes)
    a.requires_grad_()
    return lambda: lib.autograd.grad(loss(a, classes), (a,))
