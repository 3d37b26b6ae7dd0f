"""Products, attention, convolutions and orders on a graphics card."""

from __future__ import annotations

from tools.bench.row import Family

rows = Family("card arithmetic", device="cuda", threads=(1,), tolerance=2e-2)


@rows.add("matmul {dtype} {side}", 1.0, dtype=["bfloat16"], side=[1024, 4096, 8192])
@rows.add("matmul {dtype} {side}", 1.0, dtype=["float32"], side=[4096])
def matmul(lib, inputs, dtype, side):
    a, b = (inputs.tiled(side * side, dtype).reshape(side, side) for _ in range(2))
    return lambda: a @ b


@rows.add(
    "attention {shape}{causal} bfloat16, {part}",
    1.0,
    shape=[(8, 16, 4096, 64)],
    causal=[" causal", ""],
    part=["forward", "both ways"],
)
def attention(lib, inputs, shape, causal, part):
    q, k, v, slope = (inputs.normal(*shape, dtype="bfloat16") for _ in range(4))
    function = lib.nn.functional.scaled_dot_product_attention
    if part == "forward":
        return lambda: function(q, k, v, is_causal=bool(causal))
    for t in (q, k, v):
        t.requires_grad_()
    return lambda: lib.autograd.grad(function(q, k, v, is_causal=bool(causal)), (q, k, v), slope)


# Batch, channels, side, outputs, kernel, then options.
SHAPES = {
    "3x3 256": ((32, 256, 56, 256, 3), {"padding": 1}),
    "1x1 256 to 64": ((32, 256, 56, 64, 1), {}),
    "3x3 stride 2": ((32, 128, 56, 128, 3), {"padding": 1, "stride": 2}),
    "7x7 stride 2": ((32, 3, 224, 64, 7), {"stride": 2, "padding": 3}),
    "depthwise": ((32, 256, 56, 256, 3), {"padding": 1, "groups": 256}),
}


@rows.add(
    "conv {kind} {dtype}{layout}, {part}",
    1.0,
    kind=list(SHAPES),
    dtype=["bfloat16", "float32"],
    layout=[" channels-last", ""],
    part=["forward", "backward"],
    where=lambda kind, dtype, layout, part: kind == "3x3 256" or (bool(layout) and dtype[0] == "b"),
)
def conv2d(lib, inputs, kind, dtype, layout, part):
    if hasattr(lib, "backends") and hasattr(lib.backends, "cudnn"):
        lib.backends.cudnn.allow_tf32 = False  # float32 is float32
    (batch, channels, side, outputs, kernel), options = SHAPES[kind]
    each = channels // options.get("groups", 1)
    x = inputs.normal(batch, channels, side, side, dtype=dtype)
    scale = (each * kernel * kernel) ** -0.5
    weight = inputs.normal(outputs, each, kernel, kernel, scale=scale, dtype=dtype)
    if layout:
        x = x.contiguous(memory_format=lib.channels_last)
        weight = weight.contiguous(memory_format=lib.channels_last)
    function = lib.nn.functional.conv2d
    if part == "forward":
        return lambda: function(x, weight, **options)
    leaves = x.requires_grad_(), weight.requires_grad_()
    out = function(*leaves, **options)
    slope = out.detach() * 0.1  # in the layout of the result
    return lambda: lib.autograd.grad(out, leaves, slope, retain_graph=True)


@rows.add("{op} of 16M {dtype}", 1.0, op=["sort", "cumsum", "topk"], dtype=["float32"])
def orders(lib, inputs, op, dtype):
    a = inputs.shuffled(1 << 24).to(getattr(lib, dtype))
    if op == "topk":
        rows = a.reshape(-1, 1 << 16)
        return lambda: lib.topk(rows, 100)[0]
    if op == "sort":
        return lambda: lib.sort(a)[0]
    a = a / (1 << 24)
    return lambda: lib.cumsum(a, 0)
