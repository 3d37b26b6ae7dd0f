"""Eight threads train: models of their own, and one that they share.

`python threads_training.py 60` goes on for a minute; the test does the same for a moment.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import facula as fa
from facula import nn

THREADS = 8


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.LayerNorm(16), nn.Linear(16, 3))


def data(seed: int) -> tuple[fa.Tensor, fa.Tensor]:
    generator = fa.Generator().manual_seed(seed)
    x = fa.randn(32, 6, generator=generator)
    return x, (x[:, 0] > 0).to(fa.int64) + (x[:, 1] > 0).to(fa.int64)


def in_threads(work: Callable[[int], None]) -> None:
    """Runs `work(number)` in each thread; the first error is raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(THREADS)

    def run(number: int) -> None:
        try:
            start.wait()
            work(number)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


def train(model: nn.Module, seed: int, steps: int) -> list[float]:
    optimizer = fa.optim.Adam(model.parameters(), lr=0.01)
    x, label = data(seed)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), label)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def separate(steps: int) -> None:
    """Models of their own learn what they learn alone, number for number."""
    fa.manual_seed(0)
    first = network().state_dict()
    models = [network() for _ in range(THREADS)]
    alone = network()
    for model in (*models, alone):
        model.load_state_dict(first)
    found: list[list[float]] = [[] for _ in models]

    def work(number: int) -> None:
        found[number] = train(models[number], number, steps)

    in_threads(work)
    for number in (0, THREADS - 1):
        alone.load_state_dict(first)
        assert train(alone, number, steps) == found[number]


def summed(rounds: int) -> None:
    """Gradients that threads add to one leaf are all there: whole numbers, so in any order."""
    w = fa.ones(64, requires_grad=True)
    shared = w * 3  # a node that all threads go through

    def work(number: int) -> None:
        for _ in range(rounds):
            ((w * (number + 1)).sum() + shared.sum()).backward(retain_graph=True)

    in_threads(work)
    expected = rounds * (sum(range(1, THREADS + 1)) + 3 * THREADS)
    assert w.grad is not None and w.grad.tolist() == [float(expected)] * 64


def together(steps: int) -> None:
    """One model, trained by all without a lock (Niu et al., "Hogwild!", 2011), learns too."""
    fa.manual_seed(1)
    model = network()
    x, label = data(0)

    def loss() -> float:
        with fa.no_grad():
            return nn.functional.cross_entropy(model(x), label).item()

    before = loss()
    rate = 0.02

    def work(number: int) -> None:
        own, labels = data(number)
        parameters = list(model.parameters())
        for _ in range(steps):
            grads = fa.autograd.grad(nn.functional.cross_entropy(model(own), labels), parameters)
            with fa.no_grad():
                for p, g in zip(parameters, grads, strict=True):
                    p.data.sub_(g, alpha=rate)

    in_threads(work)
    after = loss()
    assert after < 0.8 * before, (before, after)


def main(seconds: float) -> int:
    """Goes on for so long; how many rounds that were."""
    end, rounds = time.monotonic() + seconds, 0
    while rounds == 0 or time.monotonic() < end:
        separate(20)
        summed(50)
        together(60)
        rounds += 1
    return rounds


if __name__ == "__main__":
    print(main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0), "rounds without a fault")
