"""Small work with gradients: what recording and walking the graph cost."""

from __future__ import annotations

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
