"""Softmax, normalizations and the loss over them, forward and backward."""

from __future__ import annotations

from tools.bench.row import Family

rows = Family("normalization", tolerance=1e-4)
SHAPE = (4096, 1024)
IMAGES = (16, 64, 56, 56)


def passes(inputs, part, function, *wrt):
    """The forward pass, or the backward pass alone."""
    if part == "forward":
        frozen = [w.detach() for w in wrt]
        return lambda: function(*frozen)
    out = function(*wrt)
    grad = inputs.normal(*out.shape)
    return lambda: inputs.lib.autograd.grad(out, wrt, grad, retain_graph=True)


PARTS = ["forward", "backward"]


@rows.add(
    "{op} {shape}, dim {dim}, {part}",
    0.7,
    op=["softmax", "log_softmax"],
    shape=[SHAPE],
    dim=[1, 0],
    part=PARTS,
)
def softmax(lib, inputs, op, shape, dim, part):
    function = getattr(lib.nn.functional, op)
    return passes(inputs, part, lambda x: function(x, dim), inputs.normal(*shape, grad=True))


@rows.add("{op} {shape}, {part}", 0.7, op=["layer_norm"], shape=[SHAPE], part=PARTS)
def layer_norm(lib, inputs, op, shape, part):
    function = getattr(lib.nn.functional, op)
    x = inputs.normal(*shape, grad=True)
    weight = inputs.floats(shape[1], low=0.5, high=1.5, grad=True)
    bias = inputs.floats(shape[1], grad=True)
    return passes(inputs, part, lambda x, w, b: function(x, shape[1:], w, b), x, weight, bias)


@rows.add("{op} {shape}, {part}", 0.7, op=["batch_norm", "group_norm"], shape=[IMAGES], part=PARTS)
def images(lib, inputs, op, shape, part):
    channels = shape[1]
    functional = lib.nn.functional
    x = inputs.normal(*shape, grad=True)
    weight = inputs.floats(channels, low=0.5, high=1.5, grad=True)
    bias = inputs.floats(channels, grad=True)
    mean, var = lib.zeros(channels), lib.ones(channels)

    def function(x, w, b):
        if op == "group_norm":
            return functional.group_norm(x, 8, w, b)
        return functional.batch_norm(x, mean, var, w, b, training=True)

    return passes(inputs, part, function, x, weight, bias)


@rows.add("cross_entropy {shape}, {part}", 0.7, shape=[SHAPE], part=PARTS)
def loss(lib, inputs, shape, part):
    function = lib.nn.functional.cross_entropy
    target = inputs.integers(shape[0], high=shape[1])
    return passes(inputs, part, lambda x: function(x, target), inputs.normal(*shape, grad=True))


@rows.add(
    "log_softmax, ctc_loss {shape}, {part}",
    0.8,
    shape=[(150, 16, 64)],
    part=PARTS,
    tolerance=1e-3,  # float32: sums of 150 logarithms; from float64 facula is 3e-4 off, torch 4e-4
)
def alignments(lib, inputs, shape, part):
    """Of (steps, batch, classes), with 40 labels each; torch's gradient is that through both."""
    steps, batch, classes = shape
    labels = inputs.integers(batch, 40, low=1, high=classes)
    lengths = lib.full((batch,), steps), lib.full((batch,), 40)

    def function(x):
        return lib.nn.functional.ctc_loss(x.log_softmax(-1), labels, *lengths)

    return passes(inputs, part, function, inputs.normal(*shape, grad=True))
