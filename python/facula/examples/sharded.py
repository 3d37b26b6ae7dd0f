"""Train a small GPT whose parameters are in parts over processes, and go on after a failure.

    python -m facula.distributed.run --nproc-per-node 2 --max-restarts 3 -m facula.examples.sharded

Every `--every` steps the processes write a checkpoint together, each its part. When one of them
dies the launcher starts all again, and they go on from the last checkpoint; with `--die-at 25` one
does die, once. Losses are those of a job that was not disturbed, and of one process: in float64
they agree to some 1e-12. The checkpoint may be loaded by another number of processes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from typing import Any

import facula as fa
from facula import distributed, nn, optim
from facula.distributed import checkpoint
from facula.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from facula.distributed.fsdp import fully_shard
from facula.examples.parallel import gpt
from facula.nn import functional as F


class Training:
    """All that a checkpoint holds: the model, the optimizer, and how far they are."""

    def __init__(self, net: nn.Module, optimizer: optim.Optimizer) -> None:
        self.net, self.optimizer = net, optimizer
        self.step = 0
        self.losses: list[float] = []

    def state_dict(self) -> dict[str, Any]:
        model, state = get_state_dict(self.net, self.optimizer)
        losses = json.dumps(self.losses)  # of any length: a state is filled by its names
        return {"model": model, "optimizer": state, "step": self.step, "losses": losses}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        set_state_dict(
            self.net,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        self.step, self.losses = state["step"], json.loads(state["losses"])


def run(args: argparse.Namespace) -> list[float]:
    """Trains; returns the loss of each step, the mean over all processes."""
    distributed.init_process_group()
    rank, size = distributed.get_rank(), distributed.get_world_size()
    share = args.batch // size
    fa.manual_seed(args.seed)
    net, batches = gpt(args.batch, args.seed)
    net = net.double()
    for block in net.blocks:
        fully_shard(block)
    fully_shard(net)
    training = Training(net, optim.AdamW(net.parameters(), lr=3e-3))
    if os.path.exists(os.path.join(args.folder, "index.json")):
        checkpoint.load({"training": training}, checkpoint_id=args.folder)
        if rank == 0:
            print(f"goes on after step {training.step}", file=sys.stderr)
    start = time.perf_counter()
    died = os.path.join(args.folder, "died")
    for step in range(training.step, args.steps):
        if step == args.die_at and rank == size - 1 and not os.path.exists(died):
            open(died, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        inputs, targets = (t[rank * share : (rank + 1) * share] for t in batches(step))
        loss = F.cross_entropy(net(inputs).flatten(0, -2), targets.flatten())
        training.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        training.optimizer.step()
        total = loss.detach()
        distributed.all_reduce(total, distributed.ReduceOp.AVG)
        training.losses.append(total.item())
        training.step = step + 1
        if training.step % args.every == 0 or training.step == args.steps:
            checkpoint.save({"training": training}, checkpoint_id=args.folder)
    losses = training.losses
    if rank == 0:
        parts = sum(p.numel() for p in net.parameters())
        whole = sum(p.full_shape.numel() for p in net.parameters())
        print(
            f"loss {losses[-1]:.12f} after {len(losses)} steps, {time.perf_counter() - start:.1f} s"
            f" since the start; {parts} of {whole} parameters in this process"
        )
    distributed.destroy_process_group()
    return losses


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m facula.examples.sharded",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--steps", type=int, default=50, help="batches to train on")
    parser.add_argument("--batch", type=int, default=16, help="of all processes together")
    parser.add_argument("--every", type=int, default=10, help="steps between checkpoints")
    parser.add_argument("--folder", default="sharded-checkpoint", help="where they are")
    parser.add_argument("--die-at", type=int, help="before this step the last process is killed")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    processes = int(os.environ.get("WORLD_SIZE", "0"))
    if processes == 0:
        parser.error("start it by python -m facula.distributed.run")
    if min(args.steps, args.batch, args.every) < 1 or args.batch % processes:
        parser.error(
            f"--steps is {args.steps}, --every {args.every} and --batch {args.batch}; give numbers"
            f" from 1, and a batch that divides among {processes} processes"
        )
    run(args)


if __name__ == "__main__":
    main()
