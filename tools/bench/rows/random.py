"""16M random numbers."""

from __future__ import annotations

import numpy as np

from tools.bench import checks
from tools.bench.row import Family

# Other generators, so other numbers: mean and deviation must be the same.
rows = Family("random", tolerance=1e-2, moments=True, also=checks.same_at_any_threads())
SIZE = 1 << 24


@rows.add(
    "{op}, 16M",
    0.3,
    op=["rand", "randn", "randint"],
    numpy=lambda lib, inputs, op: numpy_draws(op),
)
def draws(lib, inputs, op):
    if op == "randint":
        return lambda: lib.randint(0, 100, (SIZE,))
    function = getattr(lib, op)
    return lambda: function(SIZE)


def numpy_draws(op):
    rng = np.random.default_rng(0)
    return {
        "rand": lambda: rng.random(SIZE, dtype=np.float32),
        "randn": lambda: rng.standard_normal(SIZE, dtype=np.float32),
        "randint": lambda: rng.integers(0, 100, SIZE),
    }[op]


@rows.add("dropout {p}, 16M", 0.3, p=[0.1, 0.5])
def dropout(lib, inputs, p):
    x = inputs.floats(SIZE, low=0.5, high=1.5)
    function = lib.nn.functional.dropout
    return lambda: function(x, p)


@rows.add("{op}, 16M", 0.3, op=["bernoulli_", "normal_", "uniform_"])
def in_place(lib, inputs, op):
    x = lib.zeros(SIZE)
    arguments = {"bernoulli_": (0.3,)}.get(op, ())
    function = getattr(x, op)
    return lambda: function(*arguments)
