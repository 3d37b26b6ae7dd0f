"""scaled_dot_product_attention of 8x8x512x64."""

from __future__ import annotations

from tools.bench import checks
from tools.bench.row import Family
from tools.bench.rows.normalization import passes

rows = Family("attention", tolerance=1e-4)
SHAPE = (8, 8, 512, 64)
LONG = (1, 4, 4096, 64)  # its scores would be 64 times its inputs


def long_run(lib, inputs, shape, part, causal):
    q, k, v = (inputs.normal(*shape, grad=True) for _ in range(3))
    function = lib.nn.functional.scaled_dot_product_attention
    attend = lambda q, k, v: function(q, k, v, is_causal=causal)  # noqa: E731
    if part == "forward":
        return lambda: attend(q.detach(), k.detach(), v.detach())
    return lambda: lib.autograd.grad(attend(q, k, v).sum(), (q, k, v))


@rows.add(
    "{shape}{causal}, {part}",
    0.7,
    shape=[SHAPE],
    causal=["", " causal"],
    part=["forward", "backward"],
    also=lambda shape, causal, part: checks.linear_memory(
        lambda trial, size: long_run(trial.lib, trial.inputs, size, part, bool(causal)), LONG
    ),
)
def attention(lib, inputs, shape, causal, part):
    q, k, v = (inputs.normal(*shape, grad=True) for _ in range(3))
    function = lib.nn.functional.scaled_dot_product_attention
    return passes(inputs, part, lambda q, k, v: function(q, k, v, is_causal=bool(causal)), q, k, v)
