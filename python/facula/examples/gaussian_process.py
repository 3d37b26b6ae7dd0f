"""Fit a curve and say how sure one is of it: regression by a Gaussian process.

    python -m facula.examples.gaussian_process

Curves are drawn from a normal distribution whose covariance falls with the distance of two places.
How far it reaches, how high curves are and how much noise there is: the three numbers that make the
data likeliest are found by gradients through a Cholesky factor (Rasmussen and Williams 2006, 2.3).
"""

from __future__ import annotations

import argparse
import math

import facula as fa
from facula import nn, optim
from facula.examples._text import scatter


class GaussianProcess(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        # Logarithms, so that each stays positive.
        self.reach = nn.Parameter(fa.zeros((), dtype=fa.float64))
        self.height = nn.Parameter(fa.zeros((), dtype=fa.float64))
        self.noise = nn.Parameter(fa.full((), -1.0, dtype=fa.float64))

    def covariance(self, a: fa.Tensor, b: fa.Tensor) -> fa.Tensor:
        """(N,) and (M,) places -> (N, M)."""
        distance = (a[:, None] - b) / self.reach.exp()
        return (2 * self.height).exp() * (-0.5 * distance**2).exp()

    def factor(self, x: fa.Tensor) -> fa.Tensor:
        """The lower triangle L: L L^T is the covariance of noisy values at x."""
        noise = (2 * self.noise).exp() * fa.eye(len(x), dtype=x.dtype)
        return fa.linalg.cholesky(self.covariance(x, x) + noise)

    def loss(self, x: fa.Tensor, y: fa.Tensor) -> fa.Tensor:
        """-log of the density of the values y at x."""
        lower = self.factor(x)
        white = fa.linalg.solve_triangular(lower, y[:, None], upper=False)
        half_log_det = lower.diagonal().log().sum()
        return 0.5 * (white**2).sum() + half_log_det + 0.5 * len(x) * math.log(2 * math.pi)

    @fa.no_grad()
    def predict(self, x: fa.Tensor, y: fa.Tensor, at: fa.Tensor) -> tuple[fa.Tensor, fa.Tensor]:
        """Mean and standard deviation of the curve at other places."""
        lower = self.factor(x)
        cross = fa.linalg.solve_triangular(lower, self.covariance(x, at), upper=False)
        white = fa.linalg.solve_triangular(lower, y[:, None], upper=False)
        variance = (2 * self.height).exp() - (cross**2).sum(0)
        return (cross.mT @ white).squeeze(1), variance.clamp(min=0).sqrt()


def run(steps: int, seed: int) -> tuple[GaussianProcess, float, float]:
    """Fit; returns the process, the last loss, and the share of the true curve within 2 sigma."""
    fa.manual_seed(seed)
    x = fa.rand(40, dtype=fa.float64) * 10
    x = x[(x < 4.5) | (x > 6)]  # nothing is known in between
    y = x.sin() + 0.2 * fa.randn(len(x), dtype=fa.float64)
    model = GaussianProcess()
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    for step in range(steps):
        loss = model.loss(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            print(f"step {step:4}: -log density {loss.item():.3f}")
    at = fa.linspace(0, 10, 91, dtype=fa.float64)
    mean, sigma = model.predict(x, y, at)
    inside = ((mean - at.sin()).abs() < 2 * sigma).to(fa.float64).mean().item()
    edges = [fa.stack([at, mean + sign * 2 * sigma], 1) for sign in (-1, 1)]
    print(scatter({".": fa.cat(edges), "-": fa.stack([at, mean], 1), "o": fa.stack([x, y], 1)}, 91))
    reach, height, noise = (p.exp().item() for p in model.parameters())
    print(f"reach {reach:.2f}, height {height:.2f}, noise {noise:.2f} (0.20 is true)")
    print(f"{inside:.0%} of the true curve lies within two standard deviations")
    return model, loss.item(), inside


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m facula.examples.gaussian_process")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    run(args.steps, args.seed)


if __name__ == "__main__":
    main()
