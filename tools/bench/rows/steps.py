"""Steps of optimizers alone, over the parameters of a network of many layers."""

from __future__ import annotations

from tools.bench.row import Family

rows = Family("steps", threads=(1,), calls=3)
# As fast as torch does it: in one kernel where there is one, else by lists of tensors.
FUSED, LISTS = {"fused": True}, {"foreach": True}
KINDS = {
    "SGD": {"lr": 1e-3, "momentum": 0.9, **FUSED},
    "Adam": {"lr": 1e-4, **FUSED},
    "AdamW": {"lr": 1e-4, **FUSED},
    "Adagrad": {"lr": 1e-3, **FUSED},
    "Adamax": {"lr": 1e-4, **LISTS},
    "NAdam": {"lr": 1e-4, **LISTS},
    "RAdam": {"lr": 1e-4, **LISTS},
    "RMSprop": {"lr": 1e-4, **LISTS},
    "Adadelta": {"lr": 0.1, **LISTS},
    "ASGD": {"lr": 1e-3, **LISTS},
    "Rprop": {"lr": 1e-4, **LISTS},
    "Adafactor": {"lr": 1e-3, **LISTS},
}
COUNT = 200


@rows.add("{kind}, 200 parameters of {size}", 0.5, kind=[*KINDS], size=["16", "64 x 64"])
def step(lib, inputs, kind, size):
    shape = tuple(int(n) for n in size.split(" x "))
    params = [inputs.floats(*shape, grad=True) for _ in range(COUNT)]
    for p in params:
        p.grad = inputs.floats(*shape)
    optimizer = getattr(lib.optim, kind)(params, **KINDS[kind])

    def run():
        optimizer.step()
        return params[-1]

    return run
