"""Whole training steps: zero_grad, forward, loss, backward, step."""

from __future__ import annotations

import functools
import importlib

from tools.bench import models
from tools.bench.row import Family

# The loss of the fourth step, to which every gradient has contributed.
rows = Family("training", calls=3, tolerance=1e-3)


def step(lib, model, optimizer, x, target, autocast=None):
    """A training step; `autocast` is the decorator of its forward pass."""
    loss_of = lib.nn.functional.cross_entropy

    def forward():
        return loss_of(model(x), target)

    if autocast is not None:
        forward = autocast(forward)

    def run():
        optimizer.zero_grad()
        loss = forward()
        loss.backward()
        optimizer.step()
        return loss

    return run


@rows.add("MLP 16-16-2, batch 8, SGD", 0.2)
def small_mlp(lib, inputs):
    model = inputs.fill(models.mlp(lib, [16, 16, 2]))
    optimizer = lib.optim.SGD(model.parameters(), lr=0.01)
    return step(lib, model, optimizer, inputs.normal(8, 16), inputs.integers(8, high=2))


@rows.add("MLP 784-256-10, batch 64, Adam", 0.6)
def large_mlp(lib, inputs):
    model = inputs.fill(models.mlp(lib, [784, 256, 10]))
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-4)
    return step(lib, model, optimizer, inputs.normal(64, 784), inputs.integers(64, high=10))


@rows.add("MNIST convnet, batch 64, SGD", 0.85)
def convnet(lib, inputs):
    model = inputs.fill(models.convnet(lib))
    optimizer = lib.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x = inputs.floats(64, 1, 28, 28, low=0.0)
    return step(lib, model, optimizer, x, inputs.integers(64, high=10))


@rows.add("GPT 4 layers 128 wide, 12x64 tokens, AdamW", 0.7)
def gpt(lib, inputs):
    model = inputs.fill(models.gpt(lib, 256, 64, 128, 4, 4))
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-4)
    x = inputs.integers(12, 64, high=256)
    return step(lib, model, optimizer, x, inputs.integers(12 * 64, high=256))


@rows.add("GPT 4 layers 128 wide, 12x64 tokens, blocks checkpointed", 0.8)
def checkpointed_gpt(lib, inputs):
    """The step of the row above; each block is computed again in the backward pass."""
    checkpoint = importlib.import_module(f"{lib.__name__}.utils.checkpoint").checkpoint
    model = inputs.fill(models.gpt(lib, 256, 64, 128, 4, 4))
    for block in model.blocks:
        forward = block.forward
        block.forward = functools.partial(checkpoint, forward, use_reentrant=False)
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-4)
    x = inputs.integers(12, 64, high=256)
    return step(lib, model, optimizer, x, inputs.integers(12 * 64, high=256))


@rows.add("LSTM 64-128, 16x50, Adam", 0.6)
def lstm(lib, inputs):
    model = inputs.fill(models.lstm(lib, 64, 128, 10))
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-3)
    return step(lib, model, optimizer, inputs.normal(16, 50, 64), inputs.integers(16, high=10))


@rows.add("ResNet-18 at 64x64, batch 16, SGD", 0.9)
def resnet(lib, inputs):
    model = inputs.fill(models.resnet18(lib, 10))
    optimizer = lib.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    x = inputs.normal(16, 3, 64, 64)
    return step(lib, model, optimizer, x, inputs.integers(16, high=10))
