"""Learn the law of a motion from where things were: a neural ordinary differential equation.

    python -m facula.examples.ode --steps 500

The law dx/dt = f(x) of a spiral is a network (Chen et al. 2018). A path of it is computed by the
classical method of Runge and Kutta, and gradients go back through all of its steps.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import facula as fa
from facula import nn, optim
from facula.examples._text import scatter


class Law(nn.Module):
    """x -> dx/dt."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2))

    def forward(self, x: fa.Tensor) -> fa.Tensor:
        return self.net(x**3)


def path(law: Callable[[fa.Tensor], fa.Tensor], x: fa.Tensor, steps: int, h: float) -> fa.Tensor:
    """(N, 2) starts -> (steps + 1, N, 2): where they are after each time h."""
    places = [x]
    for _ in range(steps):
        k1 = law(x)
        k2 = law(x + h / 2 * k1)
        k3 = law(x + h / 2 * k2)
        k4 = law(x + h * k3)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        places.append(x)
    return fa.stack(places)


def spiral(x: fa.Tensor) -> fa.Tensor:
    """The true law."""
    return x**3 @ fa.tensor([[-0.1, 2.0], [-2.0, -0.1]])


def run(steps: int, seed: int, window: int = 10, batch: int = 32) -> tuple[float, float]:
    """Train; returns the last loss, and the mean distance of the found path from the true one."""
    fa.manual_seed(seed)
    h, length = 0.025, 200
    start = fa.tensor([[2.0, 0.0]])
    with fa.no_grad():
        true = path(spiral, start, length, h).squeeze(1)
    law, loss = Law(), fa.zeros(())
    optimizer = optim.Adam(law.parameters(), lr=1e-2)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        at = fa.randint(0, length - window, (batch,))
        found = path(law, true[at], window, h)
        wanted = true[at + fa.arange(window + 1)[:, None]]
        loss = (found - wanted).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            print(f"step {step:4}: mean distance {loss.item():.4f} over {window} times")
    with fa.no_grad():
        found = path(law, start, length, h).squeeze(1)
    distance = (found - true).norm(dim=1).mean().item()
    print(scatter({".": true, "o": found[::4]}))
    print(f"mean distance over all {length} times: {distance:.3f}")
    return loss.item(), distance


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m facula.examples.ode")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    run(args.steps, args.seed)


if __name__ == "__main__":
    main()
