"""Learn to balance a pole on a cart, by trial and error.

    python -m facula.examples.policy_gradient --rounds 60

The cart and its equations are those of Barto, Sutton and Anderson (1983). The policy is improved by
REINFORCE (Williams 1992): actions are made likelier, the more steps the pole stayed up after them.
"""

from __future__ import annotations

import argparse
import math

import facula as fa
from facula import nn, optim
from facula.distributions import Categorical

LIMIT = 200  # steps of an episode


class Carts:
    """Many carts at once; their state is (N, 4): place, speed, angle, speed of the angle."""

    gravity, cart, pole, half_length, force, tick = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02

    def __init__(self, count: int) -> None:
        self.state = fa.rand(count, 4) * 0.1 - 0.05

    def push(self, right: fa.Tensor) -> fa.Tensor:
        """Push each to the right (1) or the left (0); returns which still stand."""
        _, v, angle, turn = self.state.unbind(1)
        push = (2.0 * right - 1.0) * self.force
        mass = self.cart + self.pole
        pull = (push + self.pole * self.half_length * turn**2 * angle.sin()) / mass
        lever = self.half_length * (4 / 3 - self.pole * angle.cos() ** 2 / mass)
        faster = (self.gravity * angle.sin() - angle.cos() * pull) / lever
        speed = pull - self.pole * self.half_length * faster * angle.cos() / mass
        change = fa.stack([v, speed, turn, faster], dim=1)
        self.state = self.state + self.tick * change
        return (self.state[:, 0].abs() < 2.4) & (self.state[:, 2].abs() < 12 * math.pi / 180)


def play(policy: nn.Module, count: int) -> tuple[fa.Tensor, fa.Tensor]:
    """One episode of each cart: (steps, N) log probabilities of what was done, and who stood."""
    carts, up = Carts(count), fa.ones(count, dtype=fa.bool)
    chances, stood = [], []
    for _ in range(LIMIT):
        choice = Categorical(logits=policy(carts.state))
        right = choice.sample()
        chances.append(choice.log_prob(right))
        stood.append(up)
        up = up & carts.push(right)
        if not bool(up.any()):
            break
    return fa.stack(chances), fa.stack(stood).to(fa.float32)


def run(rounds: int, seed: int, count: int = 16) -> list[float]:
    """Learn; returns the mean number of steps of each round's episodes."""
    fa.manual_seed(seed)
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = optim.Adam(policy.parameters(), lr=1e-2)
    lengths = []
    for number in range(rounds):
        chances, stood = play(policy, count)
        left = stood.flip(0).cumsum(0).flip(0)  # steps still to come
        gain = (left - left.sum() / stood.sum()) / (left[stood > 0].std() + 1e-6)
        loss = -(chances * gain * stood).sum() / stood.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lengths.append(stood.sum(0).mean().item())
        if number % 10 == 0 or number == rounds - 1:
            print(f"round {number:3}: {lengths[-1]:6.1f} steps  {'#' * round(lengths[-1] / 4)}")
    return lengths


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m facula.examples.policy_gradient")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    run(args.rounds, args.seed)


if __name__ == "__main__":
    main()
