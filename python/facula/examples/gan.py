"""Train a generator against a discriminator until it draws points from eight heaps on a circle.

    python -m facula.examples.gan --steps 3000

The two networks play the game of Goodfellow et al. (2014): one tells real points from made ones,
the other makes points that the first takes for real.
"""

from __future__ import annotations

import argparse
import math

import facula as fa
from facula import nn, optim
from facula.examples._text import scatter
from facula.nn import functional as F

HEAPS, SPREAD = 8, 0.05


def centers() -> fa.Tensor:
    """(8, 2): the middles of the heaps."""
    angle = fa.arange(HEAPS) * (2 * math.pi / HEAPS)
    return fa.stack([angle.cos(), angle.sin()], dim=1)


def real(count: int) -> fa.Tensor:
    """(count, 2) points, each near the middle of a heap drawn at random."""
    return centers()[fa.randint(0, HEAPS, (count,))] + SPREAD * fa.randn(count, 2)


def network(inputs: int, outputs: int, width: int = 64) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, width),
        nn.LeakyReLU(0.2),
        nn.Linear(width, width),
        nn.LeakyReLU(0.2),
        nn.Linear(width, outputs),
    )


def found(points: fa.Tensor) -> tuple[int, float]:
    """How many heaps have points, and the share of points within 4 spreads of a middle."""
    distance, nearest = fa.cdist(points, centers()).min(dim=1)
    close = distance < 4 * SPREAD
    counts = fa.bincount(nearest[close], minlength=HEAPS)
    return int((counts > len(points) // 100).sum()), close.to(fa.float32).mean().item()


def run(steps: int, seed: int, batch: int = 256, noise: int = 8) -> tuple[int, float]:
    """Train; returns what `found` says of 2,000 made points."""
    fa.manual_seed(seed)
    generator, discriminator = network(noise, 2), network(2, 1)
    make = optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
    tell = optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.9))
    ones, zeros = fa.ones(batch, 1), fa.zeros(batch, 1)
    for step in range(steps):
        made = generator(fa.randn(batch, noise))
        loss = F.binary_cross_entropy_with_logits(discriminator(real(batch)), ones)
        loss = loss + F.binary_cross_entropy_with_logits(discriminator(made.detach()), zeros)
        tell.zero_grad()
        loss.backward()
        tell.step()

        fooled = F.binary_cross_entropy_with_logits(discriminator(made), ones)
        make.zero_grad()
        fooled.backward()
        make.step()
        if step % 500 == 0:
            print(f"step {step:5}: discriminator {loss.item():.3f}, generator {fooled.item():.3f}")
    with fa.no_grad():
        points = generator(fa.randn(2000, noise))
    heaps, share = found(points)
    print(scatter({".": real(400), "o": points[:400]}))
    print(f"{heaps} of {HEAPS} heaps found; {share:.0%} of the points lie in one")
    return heaps, share


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m facula.examples.gan")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    run(args.steps, args.seed)


if __name__ == "__main__":
    main()
