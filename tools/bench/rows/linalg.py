"""Factorisations, systems and distances."""

from __future__ import annotations

from tools.bench.row import Family

# Solutions are as good as matrices are far from singular; those here are.
rows = Family(
    "linalg", tolerance=lambda dtype="float32", **case: 1e-3 if dtype == "float32" else 1e-9
)
BATCHED = [(64, 16), (64, 64), (64, 256)]
DTYPES = ["float32", "float64"]


def dominant(lib, inputs, batch, n, dtype):
    """Symmetric positive definite matrices."""
    shape = (batch, n, n) if batch > 1 else (n, n)
    a = inputs.normal(*shape, dtype=dtype)
    return a @ a.swapaxes(-1, -2) + n * lib.eye(n, dtype=getattr(lib, dtype))


METHODS = {
    "cholesky": lambda lib, a: lib.linalg.cholesky(a),
    "inv": lambda lib, a: lib.linalg.inv(a),
    "det": lambda lib, a: lib.linalg.slogdet(a)[1],
    "solve": lambda lib, a: lib.linalg.solve(a, a[..., :8]),
    "eigvalsh": lambda lib, a: lib.linalg.eigvalsh(a),
    "svdvals": lambda lib, a: lib.linalg.svdvals(a),
}


@rows.add(
    "{method}, batched {batch}, {dtype}",
    0.8,
    method=["cholesky", "inv", "det", "solve"],
    batch=BATCHED,
    dtype=DTYPES,
)
def batched(lib, inputs, method, batch, dtype):
    a = dominant(lib, inputs, *batch, dtype)
    return lambda: METHODS[method](lib, a)


@rows.add(
    "{method}, 1024x1024, {dtype}", 1.0, method=["cholesky", "inv", "det", "solve"], dtype=DTYPES
)
def single(lib, inputs, method, dtype):
    a = dominant(lib, inputs, 1, 1024, dtype)
    return lambda: METHODS[method](lib, a)


@rows.add(
    "{method}, batched {batch}", 1.0, method=["eigvalsh", "svdvals"], batch=[(64, 16), (64, 64)]
)
def values(lib, inputs, method, batch):
    a = dominant(lib, inputs, *batch, "float64")
    return lambda: METHODS[method](lib, a)


@rows.add("cdist, p={p}, {n}x{dims}", 1.0, p=[1.0, 2.0, 3.0], n=[20, 1000], dims=[3, 128])
def distances(lib, inputs, p, n, dims):
    a, b = inputs.normal(n, dims), inputs.normal(n, dims)
    return lambda: lib.cdist(a, b, p)
