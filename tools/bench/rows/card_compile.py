"""Functions under `compile` on a graphics card: beside torch's, and as a share of a copy's rate."""

from __future__ import annotations

from tools.bench.row import Family
from tools.bench.rows.card_memory import HALVES, share
from tools.bench.rows.card_models import GPT2, gpt2_step

# torch rounds to bfloat16 at the end of a group only.
rows = Family("card compile", device="cuda", threads=(1,), tolerance=4e-2)
SIZE, ROW = 1 << 27, 1024  # elements, far more than the card's caches hold
GOAL = 0.9  # of the copy rate


def compiled(lib, function):
    """Kernels are there before the first call returns, as the first of torch's has them."""
    try:
        return lib.compile(function, wait=True)
    except TypeError:
        return lib.compile(function)


@rows.add(
    "{op} {dtype}",
    1.0,
    op=["chain of 10", "SwiGLU", "GELU with bias"],
    dtype=HALVES,
    also=share(GOAL, {"chain of 10": 3, "SwiGLU": 3, "GELU with bias": 2}, SIZE),
)
def pointwise(lib, inputs, op, dtype):
    x, y = (inputs.tiled(SIZE, dtype).reshape(-1, ROW) for _ in range(2))
    bias = inputs.normal(ROW, dtype=dtype)

    def chain(x, y):
        t = (x + y) * 0.5
        t = (t - y).abs() + x
        t = (t * y + 1.0).relu() * x
        return (t - 0.25) * y

    if op == "chain of 10":
        run, args = chain, (x, y)
    elif op == "SwiGLU":
        run, args = lambda x, y: lib.nn.functional.silu(x) * y, (x, y)
    else:
        run, args = lambda x, bias: lib.nn.functional.gelu(x + bias), (x, bias)
    fused = compiled(lib, run)
    return lambda: fused(*args)


# Passes over the elements.
READ = {
    "softmax with mask and scale": 2,
    "softmax written out": 2,
    "RMSNorm": 2,
    "LayerNorm written out": 2,
    "log-sum-exp written out": 1,
    "cross_entropy of rows": 1,
}


@rows.add(
    "{op} {dtype}",
    1.0,
    op=list(READ),
    dtype=HALVES,
    also=share(GOAL, READ, SIZE),
)
def folds(lib, inputs, op, dtype):
    x = inputs.tiled(SIZE, dtype).reshape(-1, ROW)
    weight, mask = inputs.normal(ROW, dtype=dtype), inputs.normal(ROW, dtype=dtype)
    classes = inputs.integers(len(x), high=ROW)

    def norm(x, weight):
        wide = x.float()
        wide = wide * lib.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-6)
        return wide.to(x.dtype) * weight

    def softmax(x, mask):
        scores = x * 0.125 + mask
        shares = (scores - scores.amax(-1, keepdim=True)).exp()
        return shares / shares.sum(-1, keepdim=True)

    def layer_norm(x, weight):
        wide = x.float()
        away = wide - wide.mean(-1, keepdim=True)
        scale = lib.rsqrt((away * away).mean(-1, keepdim=True) + 1e-5)
        return (away * scale).to(x.dtype) * weight

    def log_sum(x, mask):
        wide = (x * 0.5 + mask).float()
        top = wide.amax(-1, keepdim=True)
        return (wide - top).exp().sum(-1, keepdim=True).log() + top

    written = {
        "RMSNorm": norm,
        "softmax written out": softmax,
        "LayerNorm written out": layer_norm,
        "log-sum-exp written out": log_sum,
    }
    if op in written:
        fused = compiled(lib, written[op])
        return lambda: fused(x, weight)
    if op.startswith("softmax"):
        fused = compiled(lib, lambda x, mask: lib.softmax(x * 0.125 + mask, -1))
        return lambda: fused(x, mask)
    fused = compiled(lib, lambda x: lib.nn.functional.cross_entropy(x * 0.5, classes))
    return lambda: fused(x)


@rows.add(
    f"{GPT2} autocast, {{batch}}x{{length}} tokens, AdamW", 0.9, batch=[16], length=[1024], calls=3
)
def gpt2(lib, inputs, batch, length):
    """Each as it is meant to be used: facula's takes the whole step, torch's the model."""
    autocast = lib.autocast("cuda", dtype=lib.bfloat16)
    case = (lib, inputs, batch, length, lib.float32, autocast)
    if lib.__name__ == "torch":
        return gpt2_step(*case, wrap=lib.compile)
    return compiled(lib, gpt2_step(*case))
