"""Train a small convolutional network on scikit-learn's handwritten digits (1,797 real scans).

    python -m facula.examples.digits --epochs 30 --seed 0 --out digits-run

prints the accuracy on a held-out fifth and a confusion matrix, and writes the weights
(`weights.safetensors`) and a picture of the misread digits (`misread.png`) into the output folder.
The same seed gives the same numbers.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import facula as fa
from facula import nn, optim
from facula.nn import functional as F
from facula.utils.data import DataLoader, Dataset, TensorDataset


class DigitNet(nn.Module):
    """Two convolutions with batch norm and two linear layers: 8x8 grey image -> 10 scores."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Dropout(0.25),
            nn.Linear(64 * 4 * 4, 128),
            nn.ReLU(),
            nn.Linear(128, 10),
        )

    def forward(self, images: fa.Tensor) -> fa.Tensor:
        """(N, 1, 8, 8) float images in [0, 1] -> (N, 10) scores."""
        return self.classifier(self.features(images))


def load_digits(device: str) -> tuple[fa.Tensor, fa.Tensor]:
    """(1797, 1, 8, 8) float32 images in [0, 1] and their (1797,) int64 labels."""
    try:
        from sklearn.datasets import load_digits as sklearn_digits
    except ImportError:
        sys.exit("this example reads its scans from scikit-learn: pip install 'facula[examples]'")
    data = sklearn_digits()
    images = fa.tensor(data.images, dtype=fa.float32).unsqueeze(1) / 16
    return images.to(device), fa.tensor(data.target, dtype=fa.int64).to(device)


def split(count: int, generator: fa.Generator) -> tuple[fa.Tensor, fa.Tensor]:
    """Indices of four fifths to learn from and of the held-out fifth."""
    order = fa.randperm(count, generator=generator)
    held_out = count // 5
    return order[held_out:], order[:held_out]


def shifted(images: fa.Tensor, generator: fa.Generator) -> fa.Tensor:
    """The batch moved by up to one pixel each way, so that the network does not learn positions."""
    dy, dx = fa.randint(0, 3, (2,), generator=generator).tolist()
    return F.pad(images, (1, 1, 1, 1))[:, :, dy : dy + 8, dx : dx + 8]


def train_epoch(
    model: nn.Module,
    loader: DataLoader,
    optimizer: optim.Optimizer,
    generator: fa.Generator,
    bar: Any,
) -> float:
    model.train()
    total, count = 0.0, 0
    for images, labels in loader:
        loss = F.cross_entropy(model(shifted(images, generator)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
        count += len(labels)
        bar.update(1)
    return total / count


def predict(model: nn.Module, images: fa.Tensor) -> fa.Tensor:
    model.eval()
    with fa.no_grad():
        return model(images).argmax(1)


def confusion_matrix(truth: list[int], read: list[int]) -> list[list[int]]:
    matrix = [[0] * 10 for _ in range(10)]
    for t, r in zip(truth, read, strict=True):
        matrix[t][r] += 1
    return matrix


def print_confusion(matrix: list[list[int]]) -> None:
    print("\nrows: the digit, columns: what was read")
    print("     " + " ".join(f"{d:3d}" for d in range(10)))
    for digit, row in enumerate(matrix):
        print(f"{digit:3d} |" + " ".join(f"{n:3d}" if n else "  ." for n in row))


def save_misread(images: list[Any], captions: list[str], path: Path, scale: int = 12) -> None:
    """A PNG with one tile for each misread digit under the caption `truth -> read`."""
    from PIL import Image, ImageDraw

    side, band, columns = 8 * scale, 16, 8
    rows = max(1, -(-len(images) // columns))
    sheet = Image.new("L", (columns * (side + 8) + 8, rows * (side + band + 8) + 8), 255)
    draw = ImageDraw.Draw(sheet)
    if not images:
        draw.text((8, 8), "every held-out digit was read right", fill=0)
    for k, (image, caption) in enumerate(zip(images, captions, strict=True)):
        x, y = 8 + k % columns * (side + 8), 8 + k // columns * (side + band + 8)
        pixels = bytes(255 - int(v * 255) for row in image for v in row)
        tile = Image.frombytes("L", (8, 8), pixels).resize((side, side), Image.Resampling.NEAREST)
        sheet.paste(tile, (x, y + band))
        draw.text((x, y), caption, fill=0)
    sheet.save(path)


def run(epochs: int, device: str, seed: int, out: Path, quiet: bool = False) -> float:
    """Train and report; returns the accuracy on the held-out fifth, in [0, 1]."""
    from tqdm import tqdm

    start = time.perf_counter()
    fa.manual_seed(seed)
    generator = fa.Generator().manual_seed(seed)
    images, labels = load_digits(device)
    learn, held_out = split(len(labels), generator)
    dataset: Dataset = TensorDataset(images[learn], labels[learn])
    loader = DataLoader(dataset, batch_size=64, shuffle=True, generator=generator)
    model = DigitNet().to(device)
    optimizer = optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=max(epochs, 1))
    with tqdm(total=epochs * len(loader), unit="batch", disable=quiet, file=sys.stderr) as bar:
        for _ in range(epochs):
            loss = train_epoch(model, loader, optimizer, generator, bar)
            schedule.step()
            bar.set_postfix(loss=f"{loss:.4f}")
    read = predict(model, images[held_out])
    truth = labels[held_out]
    accuracy = (read == truth).float().mean().item()
    print_confusion(confusion_matrix(truth.tolist(), read.tolist()))
    out.mkdir(parents=True, exist_ok=True)
    fa.save(model.state_dict(), out / "weights.safetensors")
    wrong = (read != truth).nonzero().flatten()
    captions = [
        f"{t} -> {r}" for t, r in zip(truth[wrong].tolist(), read[wrong].tolist(), strict=True)
    ]
    save_misread(images[held_out][wrong].squeeze(1).tolist(), captions, out / "misread.png")
    print(f"\nloss {loss if epochs else float('nan'):.6f}")
    print(f"accuracy on {len(truth)} held-out digits: {accuracy:.2%}")
    print(
        f"{time.perf_counter() - start:.1f} s; wrote {out / 'weights.safetensors'}"
        f" and {out / 'misread.png'}"
    )
    return accuracy


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m facula.examples.digits",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--epochs", type=int, default=20, help="passes over the training digits")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, default=Path("digits-run"), help="folder for weights and picture"
    )
    args = parser.parse_args(argv)
    if args.epochs < 0:
        parser.error(f"--epochs must be at least 0, not {args.epochs}")
    run(args.epochs, args.device, args.seed, args.out)


if __name__ == "__main__":
    main()
