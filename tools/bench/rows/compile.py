"""Functions under `compile`, of each library's own: plans here, generated C++ there."""

from __future__ import annotations

from tools.bench import models
from tools.bench.row import Family
from tools.bench.rows.training import step

rows = Family("compile", calls=5, tolerance=1e-3)


@rows.add("chain of 10 pointwise operators, 16M floats", 0.7)
def chain(lib, inputs):
    x, y = inputs.floats(1 << 24, low=0.0), inputs.floats(1 << 24, low=0.0)

    @lib.compile
    def run(x, y):
        t = (x + y) * 0.5
        t = (t - y).abs() + x
        t = (t * y + 1.0).relu() * x
        return (t - 0.25) * y

    return lambda: run(x, y)


@rows.add("{op} written out, 4096x1024 floats", 1.0, op=["gelu", "swiglu"])
def activation(lib, inputs, op):
    x, gate = inputs.normal(4096, 1024), inputs.normal(4096, 1024)
    functions = {
        "gelu": lambda x, gate: 0.5 * x * (1 + lib.tanh(0.79788456 * (x + 0.044715 * x * x * x))),
        "swiglu": lambda x, gate: x * lib.sigmoid(x) * gate,
    }
    run = lib.compile(functions[op])
    return lambda: run(x, gate)


@rows.add("{what}, 16M floats", 1.0, what=["squared error", "sums of columns", "sums of rows"])
def reduced(lib, inputs, what):
    x, y = inputs.floats(4096, 4096), inputs.floats(4096, 4096)
    functions = {
        "squared error": lambda x, y: ((x - y) * (x - y)).mean(),
        "sums of columns": lambda x, y: (x * y + x).sum(0),
        "sums of rows": lambda x, y: (x * y + x).sum(1),
    }
    run = lib.compile(functions[what])
    return lambda: run(x, y)


@rows.add("softmax written out, 4096x1024 floats", 1.0)
def softmax(lib, inputs):
    x = inputs.normal(4096, 1024)

    @lib.compile
    def run(x):
        x = x * 0.125
        e = (x - x.amax(-1, keepdim=True)).exp()
        return e / e.sum(-1, keepdim=True)

    return lambda: run(x)


@rows.add("chain of 2 in float32 between bfloat16, 16M", 1.0)
def casts(lib, inputs):
    x = inputs.floats(1 << 24, dtype="bfloat16")
    run = lib.compile(lambda x: ((x.float() * 0.5 + 1) * x.float()).to(lib.bfloat16))
    return lambda: run(x)


@rows.add("MLP 784-256-10 step, batch 64, Adam", 1.0)
def mlp(lib, inputs):
    model = inputs.fill(models.mlp(lib, [784, 256, 10]))
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-4)
    run = step(lib, model, optimizer, inputs.normal(64, 784), inputs.integers(64, high=10))
    return lib.compile(run)


@rows.add("GPT 4 layers 128 wide step, 12x64 tokens, AdamW", 1.0)
def gpt(lib, inputs):
    model = inputs.fill(models.gpt(lib, 256, 64, 128, 4, 4))
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-4)
    x = inputs.integers(12, 64, high=256)
    return lib.compile(step(lib, model, optimizer, x, inputs.integers(12 * 64, high=256)))


@rows.add("LSTM 64-128 step, 16x50, Adam", 1.0)
def lstm(lib, inputs):
    model = inputs.fill(models.lstm(lib, 64, 128, 10))
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-3)
    run = step(lib, model, optimizer, inputs.normal(16, 50, 64), inputs.integers(16, high=10))
    return lib.compile(run)
