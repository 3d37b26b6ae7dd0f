"""Foresee a wave: an LSTM learns sines and continues one that it has not seen.

    python -m facula.examples.series --steps 12

All of the data is one batch and the network is small, so that L-BFGS (Liu and Nocedal 1989), which
takes many looks at one function, learns it in a few steps.
"""

from __future__ import annotations

import argparse

import facula as fa
from facula import nn, optim
from facula.examples._text import scatter
from facula.nn import functional as F


class Forecast(nn.Module):
    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, width, batch_first=True)
        self.out = nn.Linear(width, 1)

    def forward(self, x: fa.Tensor, future: int = 0) -> fa.Tensor:
        """(N, L) values -> (N, L + future): after each the next one, and then on from there."""
        hidden, state = self.lstm(x.unsqueeze(-1))
        found = [self.out(hidden)]
        for _ in range(future):
            hidden, state = self.lstm(found[-1][:, -1:], state)
            found.append(self.out(hidden))
        return fa.cat(found, dim=1).squeeze(-1)


def waves(count: int, length: int) -> fa.Tensor:
    """(count, length) sines of one frequency that begin anywhere."""
    start = fa.rand(count, 1, dtype=fa.float64) * 40
    return ((fa.arange(length, dtype=fa.float64) + start) / 4).sin()


def run(steps: int, seed: int, length: int = 60, future: int = 60) -> float:
    """Train; returns the mean square error of the values foreseen."""
    fa.manual_seed(seed)
    data = waves(20, length + future)
    model = Forecast().double()
    optimizer = optim.LBFGS(model.parameters(), lr=0.8, max_iter=20, line_search_fn="strong_wolfe")
    known = data[3:, :length]

    def closure() -> fa.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(known[:, :-1]), known[:, 1:])
        loss.backward()
        return loss

    for step in range(steps):
        loss = optimizer.step(closure)
        print(f"step {step:3}: error before it {loss.item():.6f}")
    with fa.no_grad():
        seen = data[:3, :length]
        ahead = model(seen, future - 1)[:, length - 1 :]
    error = F.mse_loss(ahead, data[:3, length:]).item()
    time = fa.arange(length + future, dtype=fa.float64)
    real = fa.stack([time, data[0]], dim=1)
    made = fa.stack([time[length:], ahead[0]], dim=1)
    print(scatter({".": real, "o": made}, width=90, height=15))
    print(f"mean square error of {future} values ahead: {error:.5f}")
    return error


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m facula.examples.series")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    run(args.steps, args.seed)


if __name__ == "__main__":
    main()
