"""Small language models that are used, not trained: one pass, and text token by token."""

from __future__ import annotations

from tools.bench import models
from tools.bench.row import Family

rows = Family("generation", tolerance=1e-3, calls=1)
SIZES = {"2 layers 128 wide": (128, 2, 4), "4 layers 256 wide": (256, 4, 8)}
VOCABULARY, LENGTH = 256, 64


def model_of(lib, inputs, size):
    width, layers, heads = SIZES[size]
    return inputs.fill(models.gpt(lib, VOCABULARY, LENGTH, width, layers, heads)).eval()


@rows.add("GPT {size}, forward of 64 tokens", 0.5, size=[*SIZES])
def forward(lib, inputs, size):
    model, x = model_of(lib, inputs, size), inputs.integers(1, LENGTH, high=VOCABULARY)

    def run():
        with lib.no_grad():
            return model(x)

    return run


@rows.add("GPT {size}, 16 tokens more, one at a time", 0.5, size=[*SIZES])
def generate(lib, inputs, size):
    model, start = model_of(lib, inputs, size), inputs.integers(1, 8, high=VOCABULARY)

    def run():
        x = start
        with lib.no_grad():
            for _ in range(16):
                last = model(x).reshape(1, -1, VOCABULARY)[:, -1]
                x = lib.cat([x, last.argmax(-1, keepdim=True)], 1)
        return x

    return run
