"""conv2d, float32: the shapes of common networks, in both memory formats."""

from __future__ import annotations

from tools.bench.row import Family
from tools.bench.rows.normalization import passes

rows = Family("convolution", tolerance=1e-4)
# Batch, channels, side, outputs, kernel, then options.
SHAPES = {
    "3x3": ((8, 64, 56, 64, 3), {"padding": 1}),
    "3x3 deep": ((8, 256, 14, 256, 3), {"padding": 1}),
    "1x1": ((8, 256, 28, 64, 1), {}),
    "7x7 stride 2": ((8, 3, 224, 64, 7), {"stride": 2, "padding": 3}),
    "depthwise": ((8, 128, 56, 128, 3), {"padding": 1, "groups": 128}),
}


@rows.add(
    "{kind}{layout}, {part}",
    0.95,
    kind=list(SHAPES),
    layout=["", " channels-last"],
    part=["forward", "backward"],
)
def conv2d(lib, inputs, kind, layout, part):
    (batch, channels, side, outputs, kernel), options = SHAPES[kind]
    each = channels // options.get("groups", 1)
    x = inputs.normal(batch, channels, side, side)
    scale = (each * kernel * kernel) ** -0.5
    weight = inputs.normal(outputs, each, kernel, kernel, scale=scale)
    bias = inputs.normal(outputs, grad=True)
    if layout:
        x = x.contiguous(memory_format=lib.channels_last)
        weight = weight.contiguous(memory_format=lib.channels_last)
    x, weight = x.requires_grad_(), weight.requires_grad_()
    function = lib.nn.functional.conv2d
    return passes(inputs, part, lambda x, w, b: function(x, w, b, **options), x, weight, bias)
