"""Sparse matrices, beside torch's and SciPy's (in the column of NumPy), whose take one thread."""

from __future__ import annotations

from tools.bench.row import Family, Versus

rows = Family("sparse", tolerance=1e-4)
NUMPY = (Versus("numpy", 1.0),)
# (rows and columns, entries, columns of the strided operand)
SIZES = [(20_000, 400_000, 64), (100_000, 1_000_000, 16), (100_000, 1_000_000, 1)]


def matrix(inputs, size, entries):
    """A random matrix of size x size, by compressed rows, as SciPy has it."""
    import numpy as np
    import scipy.sparse

    at = inputs.rng.integers(0, size, (2, entries))
    values = inputs.rng.standard_normal(entries, dtype=np.float32)
    found = scipy.sparse.coo_array((values, tuple(at)), shape=(size, size)).tocsr()
    found.sum_duplicates()
    found.sort_indices()
    return found


def tensor(lib, inputs, size, entries, layout="csr"):
    made = matrix(inputs, size, entries)
    parts = (made.indptr, made.indices, made.data)
    x = lib.sparse_csr_tensor(*(inputs.own(p) for p in parts), (size, size))
    return x if layout == "csr" else x.to_sparse_coo().coalesce()


def scipy_product(lib, inputs, layout, sizes):
    size, entries, columns = sizes
    x = matrix(inputs, size, entries)
    x = x.tocoo() if layout == "coo" else x
    dense = inputs.normal(size, columns)
    return lambda: x @ dense


@rows.add(
    "{layout} @ dense {sizes}",
    0.8,
    layout=["csr", "coo"],
    sizes=SIZES,
    numpy=scipy_product,
    also=NUMPY,
)
def product(lib, inputs, layout, sizes):
    size, entries, columns = sizes
    x = tensor(lib, inputs, size, entries, layout)
    dense = inputs.normal(size, columns)
    return lambda: x @ dense


@rows.add("{layout} @ dense, backward {sizes}", 0.8, layout=["coo"], sizes=SIZES[:1])
def backward(lib, inputs, layout, sizes):
    size, entries, columns = sizes
    x = tensor(lib, inputs, size, entries, layout)
    dense = inputs.normal(size, columns, grad=True)

    def step():
        dense.grad = None
        (x @ dense).sum().backward()
        return dense.grad

    return step


@rows.add(
    "{layout} @ {layout} {sizes}",
    0.8,
    layout=["csr"],
    sizes=[(20_000, 100_000)],
    statement="x @ x",
    result="ordered(x @ x)",  # torch and SciPy leave the columns of a row in any order
    numpy=lambda lib, inputs, layout, sizes: scipy_square(inputs, *sizes),
    also=NUMPY,
)
def square(lib, inputs, layout, sizes):
    return {
        "x": tensor(lib, inputs, *sizes, layout),
        "ordered": lambda found: lib.sort(found.values())[0],
    }


def scipy_square(inputs, size, entries):
    import numpy as np

    return {"x": matrix(inputs, size, entries), "ordered": lambda found: np.sort(found.data)}


@rows.add("coalesce {entries}", 0.8, entries=[1_000_000])
def coalesce(lib, inputs, entries):
    at = inputs.integers(2, entries, high=1000)
    values = inputs.normal(entries)
    return lambda: lib.sparse_coo_tensor(at, values, (1000, 1000)).coalesce().values()


@rows.add("Embedding(sparse=True), a step of {optimizer}", 0.8, optimizer=["SGD", "SparseAdam"])
def embedding(lib, inputs, optimizer):
    table = lib.nn.Embedding(200_000, 64, sparse=True)
    steps = getattr(lib.optim, optimizer)(table.parameters(), lr=0.01)
    index = inputs.integers(512, 16, high=200_000)

    def step():
        steps.zero_grad()
        table(index).sum().backward()
        steps.step()

    return step
