"""Collectives of two processes on one machine, and what averaging gradients costs one."""

from __future__ import annotations

import importlib
from typing import Any

from tools.bench.row import Family

# The other process spins as well: two cores at least.
rows = Family("processes", threads=(1,), ranks=2)
SIZES = {"1 KB": 1 << 8, "1 MB": 1 << 18, "64 MB": 1 << 24}
LATENCY, RATE = 0.7, 1.0


def collective(lib: Any, inputs: Any, what: str, size: int) -> Any:
    """A function that runs it; the larger of what it reads and writes has `size` elements."""
    d = lib.distributed
    share = size // inputs.ranks
    x = inputs.tiled(share if what == "all_gather" else size) * (inputs.rank + 1.0)
    if what == "all_reduce":

        def run() -> Any:
            d.all_reduce(x)
            return x

        return run
    out = inputs.tiled(size if what == "all_gather" else share)
    older = d.all_gather_into_tensor if what == "all_gather" else d.reduce_scatter_tensor
    function = getattr(d, f"{what}_single", older)

    def run() -> Any:
        function(out, x)
        return out

    return run


def goal(what: str, size: str) -> float:
    return LATENCY if size == "1 KB" else RATE


@rows.add(
    "{what}, {size}, 2 processes",
    goal,
    what=["all_reduce", "all_gather", "reduce_scatter"],
    size=[*SIZES],
)
def two(lib, inputs, what, size):
    return collective(lib, inputs, what, SIZES[size])


@rows.add(
    "training step by DistributedDataParallel, one process, MLP 784-256-10", 0.5, tolerance=1e-3
)
def step(lib, inputs):
    alone = [lib.distributed.new_group([rank]) for rank in range(inputs.ranks)][inputs.rank]
    if inputs.rank:
        return lambda: None
    nn = lib.nn
    net = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    importlib.import_module(lib.__name__ + ".nn.parallel")
    net = nn.parallel.DistributedDataParallel(net, process_group=alone)
    with lib.no_grad():
        for p in net.parameters():
            p.copy_(inputs.floats(*p.shape))
    optimizer = lib.optim.SGD(net.parameters(), lr=0.0)
    x, y = inputs.floats(64, 784), inputs.floats(64, 10)

    def run():
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return run
