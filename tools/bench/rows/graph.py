"""Small work with gradients: what recording and walking the graph cost."""

from __future__ import annotations

import itertools

from tools.bench.row import Family

rows = Family("graph")


@rows.add("w * b, recorded", 0.15, statement="w * b")
def recorded(lib, inputs):
    return {"w": inputs.floats(1, grad=True), "b": inputs.floats(1)}


@rows.add(
    "(w * b).sum().backward()", 0.2, statement="(w * b).sum().backward()", result="w.grad / 2"
)
def backward(lib, inputs):
    return {"w": inputs.floats(1, grad=True), "b": inputs.floats(1)}


@rows.add("{part} of a chain of 1,000", 0.25, part=["backward", "forward and backward"])
def chain(lib, inputs, part):
    """500 products and 500 tanh of 8 elements."""
    w, x = inputs.floats(8, grad=True), inputs.floats(8)

    def forward():
        y = x
        for _ in range(500):
            y = (y * w).tanh()
        return y.sum()

    if part == "backward":
        built = forward()
        return lambda: lib.autograd.grad(built, w, retain_graph=True)
    return lambda: lib.autograd.grad(forward(), w)


@rows.add("forward and backward of a wide graph of 10,000", 0.4)
def wide(lib, inputs):
    """5,000 products of 8 elements with one leaf, stacked and summed."""
    w, xs = inputs.floats(8, grad=True), [inputs.floats(8) for _ in range(5000)]
    return lambda: lib.autograd.grad(lib.stack([(x * w).tanh() for x in xs]).sum(), w)


@rows.add(
    "double backward of an MLP {width}-{width}-1, batch {width}",
    lambda width: 0.4 if width < 64 else 0.8,
    width=[16, 256],
)
def double_backward(lib, inputs, width):
    """The gradient, by the weights, of how steep the network is, as gradient penalties use it."""
    widths, n = [width, width, 1], width
    weights = [inputs.normal(b, a, scale=a**-0.5, grad=True) for a, b in itertools.pairwise(widths)]
    x = inputs.floats(n, widths[0], grad=True)

    def run():
        y = x
        for w in weights:
            y = lib.nn.functional.linear(y, w).tanh()
        (slope,) = lib.autograd.grad(y.sum(), x, create_graph=True)
        return lib.autograd.grad((slope**2).sum(), weights)[0]

    return run
