"""16M float32 elements: memory's rate, and mathematics with its error."""

from __future__ import annotations

import math

import numpy as np

from tools.bench import checks
from tools.bench.row import Family, Versus

rows = Family("elementwise")
SIZE = 1 << 24
STREAM = 0.9  # of the machine's own rate


def stream(op, form):
    """Bytes read and written, against those of STREAM's add."""
    operands = {"add": 3, "mul": 3, "addcmul": 4, "neg": 2, "relu": 2}[op]
    kernel = "copy" if operands == 2 else "add"
    return Versus("machine", STREAM, kernel, 4.0 * SIZE * operands)


@rows.add(
    "{op}, 16M, {form}",
    lambda op, form: 0.6 if form == "fresh" else 1.0,
    op=["add", "mul", "addcmul", "neg", "relu"],
    form=["fresh", "out="],
    where=lambda op, form: (op, form) != ("relu", "out="),
    also=stream,
    numpy=lambda lib, inputs, op, form: numpy_moves(inputs, op, form),
)
def moves(lib, inputs, op, form):
    """So little arithmetic that memory decides."""
    operands = {"neg": 1, "relu": 1, "addcmul": 3}.get(op, 2)
    values = [inputs.floats(SIZE) for _ in range(operands)]
    function = getattr(lib, op)
    if form == "fresh":
        return lambda: function(*values)
    out = lib.empty(SIZE)
    return lambda: function(*values, out=out)


def numpy_moves(inputs, op, form):
    out = np.empty(SIZE, np.float32) if form == "out=" else None
    a, b, c = (inputs.floats(SIZE) for _ in range(3))
    return {
        "add": lambda: np.add(a, b, out=out),
        "mul": lambda: np.multiply(a, b, out=out),
        "addcmul": lambda: np.add(a, np.multiply(b, c), out=out),
        "neg": lambda: np.negative(a, out=out),
        "relu": lambda: np.maximum(a, 0, out=out),
    }[op]


def erf(x):
    return np.array([math.erf(v) for v in x.tolist()])


def gelu(x):
    return np.array([0.5 * v * math.erfc(-v * math.sqrt(0.5)) for v in x.tolist()])


# Range of the argument, and the function in float64.
MATH = {
    "exp": ((-20, 20), np.exp),
    "log": ((1e-6, 100), np.log),
    "tanh": ((-6, 6), np.tanh),
    "sigmoid": ((-20, 20), lambda x: 1 / (1 + np.exp(-x))),
    "gelu": ((-3, 6), gelu),
    "erf": ((-4, 4), erf),
    "sin": ((-30, 30), np.sin),
    "pow": ((0.01, 10), np.power),
}


@rows.add(
    "{op}, 16M",
    0.5,
    op=list(MATH),
    also=lambda op: checks.ulp(4, MATH[op][1], lambda trial: trial.inputs.operands),
    numpy=lambda lib, inputs, op: numpy_math(inputs, op),
)
def mathematics(lib, inputs, op):
    low, high = MATH[op][0]
    operands = [inputs.floats(SIZE, low=low, high=high)]
    if op == "pow":
        operands.append(inputs.floats(SIZE, low=-5, high=5))
    function = lib.nn.functional.gelu if op == "gelu" else getattr(lib, op)
    inputs.operands = tuple(operands)
    return lambda: function(*operands)


def numpy_math(inputs, op):
    """NumPy's own functions; where it has none, what it has does not compare."""
    low, high = MATH[op][0]
    x = inputs.floats(SIZE, low=low, high=high)
    if op == "pow":
        y = inputs.floats(SIZE, low=-5, high=5)
        return lambda: np.power(x, y)
    if op == "sigmoid":
        return lambda: 1 / (1 + np.exp(-x))
    if op in ("gelu", "erf"):
        raise NotImplementedError
    function = getattr(np, op)
    return lambda: function(x)
