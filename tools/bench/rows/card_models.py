"""Training steps on a graphics card: in bfloat16 throughout, or in float32 with autocast to it."""

from __future__ import annotations

from dataclasses import replace

from tools.bench import models
from tools.bench.row import Family
from tools.bench.rows.training import step

rows = Family("card models", device="cuda", threads=(1,), calls=3, tolerance=3e-2)
TOKENS = 50304
GPT2, RESNET = "GPT-2 124M", "ResNet-50"
MEMORY = {
    f"{GPT2}, 16x1024": 0.9,
    f"{GPT2} autocast": 0.9,
    RESNET: 1.0,
}  # beginnings of names, goals


@rows.add(f"{GPT2}, {{batch}}x{{length}} tokens, AdamW", 0.87, batch=[16], length=[1024])
@rows.add(f"{GPT2}, {{batch}}x{{length}} tokens, AdamW", 0.5, batch=[1], length=[64])
def gpt2(lib, inputs, batch, length):
    return gpt2_step(lib, inputs, batch, length, lib.bfloat16)


@rows.add(f"{GPT2} autocast, {{batch}}x{{length}} tokens, AdamW", 0.87, batch=[16], length=[1024])
def gpt2_autocast(lib, inputs, batch, length):
    return autocast_step(lib, inputs, batch, length)


def autocast_step(lib, inputs, batch, length, **options):
    autocast = lib.autocast("cuda", dtype=lib.bfloat16)
    return gpt2_step(lib, inputs, batch, length, lib.float32, autocast, **options)


def gpt2_step(lib, inputs, batch, length, dtype, autocast=None, wrap=lambda model: model):
    """`wrap` is given the model before its first step."""
    model = inputs.fill(models.gpt(lib, TOKENS, 1024, 768, 12, 12)).to("cuda").to(dtype)
    return trained(lib, inputs, wrap(model), batch, length, autocast)


def trained(lib, inputs, model, batch, length, autocast=None):
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-4)
    x = inputs.integers(inputs.ranks * batch, length, high=TOKENS)[inputs.part(batch)]
    target = inputs.integers(inputs.ranks * batch * length, high=TOKENS)
    return step(lib, model, optimizer, x, target[inputs.part(batch * length)], autocast)


@rows.add(f"{RESNET}, batch {{batch}}, SGD", 0.95, batch=[128])
def resnet(lib, inputs, batch):
    model = inputs.fill(models.resnet50(lib, 1000)).to("cuda").to(lib.bfloat16)
    model = model.to(memory_format=lib.channels_last)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    x = inputs.normal(batch, 3, 224, 224, dtype="bfloat16")
    x = x.contiguous(memory_format=lib.channels_last)
    return step(lib, model, optimizer, x, inputs.integers(batch, high=1000))


rows.rows += [
    replace(row, name=f"memory of {row.name}", goal=goal, measure="device memory", tolerance=None)
    for row in rows.rows
    for beginning, goal in MEMORY.items()
    if row.name.startswith(beginning)
]
