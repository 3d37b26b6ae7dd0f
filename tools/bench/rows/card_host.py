"""What the host pays for small calls on a graphics card, and for the first of a process."""

from __future__ import annotations

from tools.bench.row import Beyond, Family

# What is ours to save is the part beyond the driver's call.
HOST = Beyond("card", 2e-6, "launch", part=0.5)
rows = Family("card host", device="cuda", threads=(1,))


@rows.add(
    "{text}", 1.0, also=HOST, text=["a + a", "a + row", "a * 2", "a.relu()", "a.sum()", "a @ a"]
)
def small(lib, inputs, text):
    a, row = inputs.normal(16, 16), inputs.normal(16)
    call = eval(f"lambda: {text}", {"a": a, "row": row})
    return call


@rows.add("softmax", 1.0, also=HOST)
def softmax(lib, inputs):
    a = inputs.normal(16, 16)
    function = lib.softmax
    return lambda: function(a, 1)


rows.add("first operation of a process", 0.3, measure="first operation", tolerance=None)(
    lambda lib, inputs: None
)
