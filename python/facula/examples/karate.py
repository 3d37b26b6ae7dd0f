"""Tell the two sides of a karate club that split up, from who met whom outside of it.

    python -m facula.examples.karate

Zachary (1977) watched the club for two years; a quarrel of the instructor (member 1) and the
president (member 34) parted it. A graph convolution (Kipf and Welling 2017) is told the sides of
these two alone and finds those of the other 32.
"""

from __future__ import annotations

import argparse

import facula as fa
from facula import nn, optim
from facula.examples._text import scatter
from facula.nn import functional as F

FRIENDS = (
    "1-2 1-3 1-4 1-5 1-6 1-7 1-8 1-9 1-11 1-12 1-13 1-14 1-18 1-20 1-22 1-32 2-3 2-4 2-8"
    " 2-14 2-18 2-20 2-22 2-31 3-4 3-8 3-9 3-10 3-14 3-28 3-29 3-33 4-8 4-13 4-14 5-7 5-11"
    " 6-7 6-11 6-17 7-17 9-31 9-33 9-34 10-34 14-34 15-33 15-34 16-33 16-34 19-33 19-34"
    " 20-34 21-33 21-34 23-33 23-34 24-26 24-28 24-30 24-33 24-34 25-26 25-28 25-32 26-32"
    " 27-30 27-34 28-34 29-32 29-34 30-33 30-34 31-33 31-34 32-33 32-34 33-34"
)
MEMBERS = 34
WITH_PRESIDENT = (10, 15, 16, 19, 21, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34)


def graph() -> fa.Tensor:
    """(34, 34): the adjacency matrix with loops, scaled by the roots of the degrees."""
    pairs = fa.tensor([[int(m) - 1 for m in pair.split("-")] for pair in FRIENDS.split()])
    links = fa.eye(MEMBERS)
    links[pairs[:, 0], pairs[:, 1]] = 1.0
    links[pairs[:, 1], pairs[:, 0]] = 1.0
    scale = links.sum(1).rsqrt()
    return scale[:, None] * links * scale


class GCN(nn.Module):
    """Two layers; each mixes what members know with what their friends know."""

    def __init__(self, links: fa.Tensor, width: int = 16) -> None:
        super().__init__()
        self.register_buffer("links", links)
        self.first = nn.Linear(len(links), width, bias=False)
        self.second = nn.Linear(width, 2, bias=False)

    def forward(self, features: fa.Tensor) -> fa.Tensor:
        """(34, F) features of the members -> (34, 2) scores of the sides."""
        hidden = (self.links @ self.first(features)).relu()
        return self.links @ self.second(hidden)


def run(steps: int, seed: int) -> float:
    """Train; returns the share of members whose side is found."""
    fa.manual_seed(seed)
    sides = fa.zeros(MEMBERS, dtype=fa.int64)
    sides[fa.tensor(WITH_PRESIDENT) - 1] = 1
    told = fa.tensor([0, MEMBERS - 1])
    model = GCN(graph())
    features = fa.eye(MEMBERS)  # nothing is known of a member but who it is
    optimizer = optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
    for step in range(steps):
        scores = model(features)
        loss = F.cross_entropy(scores[told], sides[told])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            right = (scores.argmax(1) == sides).to(fa.float32).mean().item()
            print(f"step {step:4}: loss {loss.item():.3f}, {right:.0%} right")
    with fa.no_grad():
        scores = model(features)
    right = (scores.argmax(1) == sides).to(fa.float32).mean().item()
    print(scatter({"i": scores[sides == 0], "p": scores[sides == 1]}))
    print(f"{right:.0%} of the members found (i: instructor's side, p: president's)")
    return right


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m facula.examples.karate")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    run(args.steps, args.seed)


if __name__ == "__main__":
    main()
