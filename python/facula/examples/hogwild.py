"""Several processes train one network at the same time, without waiting for each other.

    python -m facula.examples.hogwild --processes 2

The parameters lie in shared memory; each process reads them, computes gradients of its own rows and
writes its steps over those of the others, which does little harm (Niu et al. 2011, "Hogwild!").
"""

from __future__ import annotations

import argparse

import facula as fa
from facula import multiprocessing as mp
from facula import nn, optim
from facula.nn import functional as F


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def data() -> tuple[fa.Tensor, fa.Tensor]:
    """scikit-learn's handwritten digits: (1797, 64) pixels, (1797,) labels."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    return fa.tensor(digits.data / 16.0, dtype=fa.float32), fa.tensor(digits.target)


def work(rank: int, model: nn.Module, x: fa.Tensor, y: fa.Tensor, epochs: int, seed: int) -> None:
    """What each process does."""
    fa.set_num_threads(1)
    fa.manual_seed(seed + rank)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    for _ in range(epochs):
        for rows in fa.randperm(len(x)).split(32):
            loss = F.cross_entropy(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"process {rank}: last loss {loss.item():.3f}")


def run(processes: int, epochs: int, seed: int) -> float:
    """Train; returns the accuracy on rows that no process has seen."""
    fa.manual_seed(seed)
    x, y = data()
    order = fa.randperm(len(x))
    test, train = order[:360], order[360:]
    model = network()
    model.share_memory()
    mp.spawn(work, (model, x[train], y[train], epochs, seed), nprocs=processes)
    with fa.no_grad():
        right = (model(x[test]).argmax(1) == y[test]).to(fa.float32).mean().item()
    print(f"{right:.1%} of {len(test)} unseen digits read, after {processes} processes")
    return right


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m facula.examples.hogwild")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    if args.processes < 1:
        parser.error(f"--processes must be at least 1, not {args.processes}")
    run(args.processes, args.epochs, args.seed)


if __name__ == "__main__":
    main()
