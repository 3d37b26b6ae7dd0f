"""Use what a network knows for another task: from the digits 0 to 4 to the digits 5 to 9.

    python -m facula.examples.transfer --checkpoint zero-to-four.pt

A first network learns 0 to 4 from many images and is saved as a `.pt` file, which torch reads too.
The second one takes its layers from the file, keeps them as they are, and learns 5 to 9 in ten
steps from five images of each with a new last layer. The same network without the file shows what
that is worth.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import facula as fa
from facula import nn, optim
from facula.nn import functional as F


class Net(nn.Module):
    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.head = nn.Linear(32 * 4 * 4, classes)

    def forward(self, x: fa.Tensor) -> fa.Tensor:
        """(N, 1, 8, 8) images -> (N, classes) scores."""
        return self.head(self.features(x))


def digits(first: int, last: int) -> tuple[fa.Tensor, fa.Tensor]:
    """The images of some digits in a random order, and which of them each is."""
    from sklearn.datasets import load_digits

    found = load_digits()
    images = fa.tensor(found.images / 16.0, dtype=fa.float32).unsqueeze(1)
    labels = fa.tensor(found.target)
    rows = ((labels >= first) & (labels <= last)).nonzero().squeeze(1)
    rows = rows[fa.randperm(len(rows))]
    return images[rows], labels[rows] - first


def fit(model: nn.Module, x: fa.Tensor, y: fa.Tensor, epochs: int) -> None:
    optimizer = optim.Adam([p for p in model.parameters() if p.requires_grad], lr=2e-3)
    for _ in range(epochs):
        for rows in fa.randperm(len(x)).split(64):
            loss = F.cross_entropy(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@fa.no_grad()
def accuracy(model: nn.Module, x: fa.Tensor, y: fa.Tensor) -> float:
    return (model(x).argmax(1) == y).to(fa.float32).mean().item()


def run(
    checkpoint: Path, epochs: int, seed: int, steps: int = 10, few: int = 5
) -> tuple[float, float]:
    """Returns the accuracy on 5 to 9 with the layers of the file, and without it."""
    fa.manual_seed(seed)
    if not checkpoint.exists():
        first = Net()
        fit(first, *digits(0, 4), epochs)
        fa.save(first.state_dict(), checkpoint)
        print(f"wrote {checkpoint}")

    x, y = digits(5, 9)
    rows = fa.cat([(y == label).nonzero().squeeze(1)[:few] for label in range(5)])
    rest = fa.ones(len(x), dtype=fa.bool)
    rest[rows] = False
    found = []
    for with_file in (True, False):
        model = Net()
        if with_file:
            state = fa.load(checkpoint)
            kept = {name: tensor for name, tensor in state.items() if name.startswith("features.")}
            model.load_state_dict(kept, strict=False)  # the new head stays as it is
            model.features.requires_grad_(False)
        fit(model, x[rows], y[rows], steps)  # all of the images are one batch
        found.append(accuracy(model, x[rest], y[rest]))
        how = "the layers of the file" if with_file else "no file"
        print(f"{how:<23} {found[-1]:.1%} of {int(rest.sum())} digits read")
    return found[0], found[1]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m facula.examples.transfer")
    parser.add_argument("--checkpoint", type=Path, default=Path("zero-to-four.pt"))
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    run(args.checkpoint, args.epochs, args.seed)


if __name__ == "__main__":
    main()
