"""Train a variational autoencoder on scikit-learn's handwritten digits, and draw new ones.

    python -m facula.examples.vae --epochs 40

The encoder gives mean and variance of a code of 8 numbers, the decoder makes an image of a code
drawn from them, and the loss is the bound of Kingma and Welling (2014): how badly pixels are
reconstructed, and how far codes are from standard normal ones.
"""

from __future__ import annotations

import argparse

import facula as fa
from facula import nn, optim
from facula.examples._text import beside, picture
from facula.nn import functional as F


class VAE(nn.Module):
    def __init__(self, codes: int = 8, width: int = 128) -> None:
        super().__init__()
        self.codes = codes
        self.encoder = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 2 * codes))
        self.decoder = nn.Sequential(nn.Linear(codes, width), nn.ReLU(), nn.Linear(width, 64))

    def forward(self, x: fa.Tensor) -> tuple[fa.Tensor, fa.Tensor, fa.Tensor]:
        """(N, 64) pixels -> scores of the pixels made again, means and log variances of codes."""
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        # The draw is a formula of mean and variance, so that gradients reach the encoder.
        code = mean + fa.randn_like(mean) * (log_variance / 2).exp()
        return self.decoder(code), mean, log_variance

    def loss(self, x: fa.Tensor) -> fa.Tensor:
        """The negative bound, in nats an image."""
        scores, mean, log_variance = self(x)
        pixels = F.binary_cross_entropy_with_logits(scores, x, reduction="sum")
        codes = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()
        return (pixels + codes) / len(x)

    @fa.no_grad()
    def draw(self, count: int) -> fa.Tensor:
        """(count, 8, 8) images of standard normal codes."""
        return self.decoder(fa.randn(count, self.codes)).sigmoid().view(count, 8, 8)


def run(epochs: int, seed: int) -> list[float]:
    """Train; returns the loss of each epoch."""
    from sklearn.datasets import load_digits

    fa.manual_seed(seed)
    images = fa.tensor(load_digits().data / 16.0, dtype=fa.float32)
    model = VAE()
    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    losses = []
    for epoch in range(epochs):
        total = 0.0
        for rows in fa.randperm(len(images)).split(64):
            loss = model.loss(images[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
        losses.append(total / len(images))
        if epoch % 10 == 0 or epoch == epochs - 1:
            print(f"epoch {epoch + 1:3}: {losses[-1]:.2f} nats an image")
    print(beside([picture(image) for image in model.draw(4)]))
    return losses


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m facula.examples.vae")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    run(args.epochs, args.seed)


if __name__ == "__main__":
    main()
