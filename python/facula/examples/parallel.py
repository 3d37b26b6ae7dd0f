"""Train in several processes, each with its part of every batch: digits, or a small GPT.

    python -m facula.distributed.run --nproc-per-node 2 -m facula.examples.parallel
    python -m facula.distributed.run --nproc-per-node 4 -m facula.examples.parallel --model gpt

Alone (`python -m facula.examples.parallel`) it trains on the whole batches. In float64 the losses
agree to some 1e-12, however many processes share the work.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable

import facula as fa
from facula import distributed, nn, optim
from facula.examples.charlm import CharGPT, Config, batch, default_text
from facula.examples.digits import load_digits
from facula.nn import functional as F

Batches = Callable[[int], tuple[fa.Tensor, fa.Tensor]]


def digits(size: int, seed: int) -> tuple[nn.Module, Batches]:
    """A convolutional network with batch norm, and batches of scanned digits."""
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, 10),
    )
    images, labels = load_digits("cpu")
    images = images.double()

    def batches(step: int) -> tuple[fa.Tensor, fa.Tensor]:
        generator = fa.Generator().manual_seed(seed * 1000 + step)
        chosen = fa.randperm(len(labels), generator=generator)[:size]
        return images[chosen], labels[chosen]

    return model, batches


def gpt(size: int, seed: int) -> tuple[nn.Module, Batches]:
    """A small GPT of characters, and windows of this package's sources."""
    text = default_text()[:200_000]
    characters = sorted(set(text))
    index = {c: i for i, c in enumerate(characters)}
    data = fa.tensor([index[c] for c in text], dtype=fa.int64)
    config = Config(len(characters), context=32, width=64, heads=4, layers=2)

    def batches(step: int) -> tuple[fa.Tensor, fa.Tensor]:
        return batch(data, size, config.context, fa.Generator().manual_seed(seed * 1000 + step))

    return CharGPT(config), batches


def run(model: str, steps: int, size: int, seed: int) -> list[float]:
    """Trains; returns the loss of each step, the mean over all processes."""
    together = "WORLD_SIZE" in os.environ
    if together:
        distributed.init_process_group()
    rank = distributed.get_rank() if together else 0
    share = size // (distributed.get_world_size() if together else 1)
    fa.manual_seed(seed)
    net, batches = {"digits": digits, "gpt": gpt}[model](size, seed)
    net = net.double()
    if together:
        net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
        net = nn.parallel.DistributedDataParallel(net)
    optimizer = optim.AdamW(net.parameters(), lr=3e-3)
    losses = []
    start = time.perf_counter()
    for step in range(steps):
        inputs, targets = (t[rank * share : (rank + 1) * share] for t in batches(step))
        scores = net(inputs)
        loss = F.cross_entropy(scores.flatten(0, -2), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach()
        if together:
            distributed.all_reduce(total, distributed.ReduceOp.AVG)
        losses.append(total.item())
        if rank == 0 and (step + 1) % max(1, steps // 5) == 0:
            print(f"step {step + 1:4d}  loss {losses[-1]:.12f}", file=sys.stderr)
    if rank == 0:
        print(f"loss {losses[-1]:.12f} after {steps} steps, {time.perf_counter() - start:.1f} s")
    if together:
        distributed.destroy_process_group()
    return losses


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m facula.examples.parallel",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", choices=["digits", "gpt"], default="digits")
    parser.add_argument("--steps", type=int, default=50, help="batches to train on")
    parser.add_argument("--batch", type=int, default=64, help="of all processes together")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if args.steps < 1 or args.batch < 1 or args.batch % processes:
        parser.error(
            f"--steps is {args.steps} and --batch {args.batch}; give numbers from 1, and a batch"
            " that"
            f" divides among {processes} processes"
        )
    run(args.model, args.steps, args.batch, args.seed)


if __name__ == "__main__":
    main()
