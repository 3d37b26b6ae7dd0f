"""Two processes with a graphics card each: collectives, and training with the cards together."""

from __future__ import annotations

import importlib
import statistics
from dataclasses import replace

from tools.bench import models
from tools.bench.inputs import Inputs
from tools.bench.row import Check, Family
from tools.bench.rows import processes
from tools.bench.rows.card_models import TOKENS, autocast_step, trained
from tools.bench.worker import loop_of, waited

rows = Family("card processes", device="cuda", threads=(1,), ranks=2)
SIZES = {"1 KB": 1 << 8, "1 MB": 1 << 18, "64 MB": 1 << 24, "1 GB": 1 << 28}
COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter"]
FASTER = 1 / 1.2  # of torch's time


@rows.add("{what}, {size}, 2 cards", processes.goal, what=COLLECTIVES, size=[*SIZES])
def two(lib, inputs, what, size):
    return processes.collective(lib, inputs, what, SIZES[size])


@rows.add("{what}, 1 KB, 2 cards, until it is done", processes.LATENCY, what=COLLECTIVES)
def waited_for(lib, inputs, what):
    begin, wait = processes.collective(lib, inputs, what, SIZES["1 KB"]), lib.cuda.synchronize

    def run():
        found = begin()
        wait()
        return found

    return run


def scaling(trial):
    """How many times the tokens a second of one card two have."""
    one = Inputs(trial.lib, device=trial.row.device)
    alone = waited(loop_of(autocast_step(trial.lib, one, **trial.row.case)), trial.wait)
    alone(2)
    turns = [(alone(1), trial.run(1)) for _ in range(7)]
    return trial.row.ranks * statistics.median(a / b for a, b in turns)


@rows.add(
    "GPT-2 124M autocast by DistributedDataParallel, {batch}x{length} tokens a card, AdamW",
    FASTER,
    also=Check("of one card's tokens/s", 1.95, scaling, at_least=True),
    calls=3,
    tolerance=3e-2,
    batch=[16],
    length=[1024],
)
def data_parallel(lib, inputs, batch, length):
    importlib.import_module(lib.__name__ + ".nn.parallel")

    def wrap(model):
        return lib.nn.parallel.DistributedDataParallel(model, device_ids=[inputs.rank])

    return autocast_step(lib, inputs, batch=batch, length=length, wrap=wrap)


@rows.add(
    "GPT-2 774M by fully_shard in bfloat16, {batch}x{length} tokens a card, AdamW",
    FASTER,
    calls=3,
    tolerance=3e-2,
    batch=[8],
    length=[1024],
)
def sharded(lib, inputs, batch, length):
    fsdp = importlib.import_module(lib.__name__ + ".distributed.fsdp")
    policy = fsdp.MixedPrecisionPolicy(param_dtype=lib.bfloat16, reduce_dtype=lib.float32)
    with lib.device("cuda"):
        model = models.gpt(lib, TOKENS, 1024, 1280, 36, 20)
    inputs.fill(model, tiled=True)
    for block in model.blocks:
        fsdp.fully_shard(block, mp_policy=policy)
    fsdp.fully_shard(model, mp_policy=policy)
    return trained(lib, inputs, model, batch, length)


(row,) = (row for row in rows.rows if row.setup is sharded)
rows.rows.append(
    replace(row, name=f"memory of {row.name}", goal=0.9, measure="device memory", tolerance=None)
)
