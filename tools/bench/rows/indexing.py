"""Reading and adding at indices: 200,000 of 100,000 rows of 64."""

from __future__ import annotations

from tools.bench.row import Family

# Elements that many terms are added to, in any order.
rows = Family("indexing", tolerance=1e-4)
ROWS, WIDTH, COUNT = 100_000, 64, 200_000


def table(inputs, grad=False):
    return inputs.floats(ROWS, WIDTH, grad=grad), inputs.integers(COUNT, high=ROWS)


@rows.add("x[i], rows", 0.5, statement="x[i]", tolerance=0, numpy=True)
def rows_of(lib, inputs):
    x, i = table(inputs)
    return {"x": x, "i": i}


@rows.add("index_select, rows", 0.5, tolerance=0)
def index_select(lib, inputs):
    x, i = table(inputs)
    return lambda: x.index_select(0, i)


@rows.add("gather, dim {dim}", 0.5, dim=[0, 1], tolerance=0)
def gather(lib, inputs, dim):
    x = inputs.floats(4096, 1024)
    i = inputs.integers(4096, 1024, high=1024)
    return lambda: x.gather(dim, i)


@rows.add("x[mask]", 0.5, tolerance=0, statement="x[mask]", numpy=True)
def masked(lib, inputs):
    return {"x": inputs.floats(4096, 1024), "mask": inputs.bools(4096, 1024)}


@rows.add("index_put accumulate, {what}", 0.5, what=["rows", "elements"])
def index_put(lib, inputs, what):
    if what == "rows":
        x, i = table(inputs)
        values = inputs.floats(COUNT, WIDTH)
    else:
        x, i = inputs.floats(1 << 20), inputs.integers(1 << 20, high=1 << 20)
        values = inputs.floats(1 << 20)
    return lambda: x.index_put((i,), values, accumulate=True)


@rows.add("scatter_add, dim {dim}", 0.5, dim=[0, 1])
def scatter_add(lib, inputs, dim):
    x = inputs.floats(4096, 1024)
    i = inputs.integers(4096, 1024, high=1024)
    values = inputs.floats(4096, 1024)
    return lambda: x.scatter_add(dim, i, values)


@rows.add("index_add, rows", 0.5)
def index_add(lib, inputs):
    x, i = table(inputs)
    values = inputs.floats(COUNT, WIDTH)
    return lambda: x.index_add(0, i, values)


@rows.add("embedding {part}", 0.5, part=["forward", "backward"])
def embedding(lib, inputs, part):
    x, i = table(inputs, grad=True)
    function = lib.nn.functional.embedding
    if part == "forward":
        weight = x.detach()
        return lambda: function(i, weight)
    out = function(i, x)
    grad = inputs.floats(COUNT, WIDTH)
    return lambda: lib.autograd.grad(out, x, grad, retain_graph=True)
