"""Train a classifier of handwritten digits with differential privacy, by gradients of each sample.

    python -m facula.examples.per_sample_gradients --epochs 20 --seed 0

Each step takes the gradient of every sample by itself, cuts it off at a norm, adds noise to the
sum and goes on from there (Abadi and others, "Deep learning with differential privacy", 2016). The
gradients are those of one batched call, `vmap(grad(loss))`, which is timed beside a loop over the
samples. The same seed gives the same numbers.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import facula as fa
from facula import nn
from facula.examples.digits import load_digits, split
from facula.func import functional_call, grad, vmap
from facula.nn import functional as F

Params = dict[str, fa.Tensor]


def make_model() -> nn.Module:
    """A convolution and two linear layers: (N, 1, 8, 8) -> (N, 10) scores."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    )


def sample_loss(model: nn.Module) -> Callable[[Params, fa.Tensor, fa.Tensor], fa.Tensor]:
    """The loss of one image (1, 8, 8) and its label (), as a function of the parameters."""

    def loss(params: Params, image: fa.Tensor, label: fa.Tensor) -> fa.Tensor:
        scores = functional_call(model, params, (image[None],))
        return F.cross_entropy(scores, label[None])

    return loss


def clipped_sum(gradients: Params, norm: float) -> Params:
    """The sum over samples of gradients (N, ...) that are scaled down to at most that norm each."""
    squares = [g.flatten(1).square().sum(1) for g in gradients.values()]
    sizes = fa.stack(squares).sum(0).sqrt()
    factors = (norm / (sizes + 1e-6)).clamp(max=1.0)
    return {
        name: (g * factors.reshape(-1, *[1] * (g.dim() - 1))).sum(0)
        for name, g in gradients.items()
    }


def step(
    params: Params, gradients: Params, lr: float, norm: float, noise: float, count: int
) -> Params:
    """Parameters after a step of noisy, clipped gradients of `count` samples."""
    total = clipped_sum(gradients, norm)
    return {
        name: p - lr / count * (total[name] + noise * norm * fa.randn_like(p))
        for name, p in params.items()
    }


def run(
    epochs: int, seed: int, batch: int = 64, lr: float = 1.0, norm: float = 1.0, noise: float = 0.5
) -> float:
    """Train and report; returns the accuracy on the held-out fifth, in [0, 1]."""
    fa.manual_seed(seed)
    generator = fa.Generator().manual_seed(seed)
    images, labels = load_digits("cpu")
    learn, held_out = split(len(labels), generator)
    model = make_model()
    params = {name: p.detach().clone() for name, p in model.named_parameters()}
    one = grad(sample_loss(model))
    each = vmap(one, in_dims=(None, 0, 0))
    for _ in range(epochs):
        order = learn[fa.randperm(len(learn), generator=generator)]
        for start in range(0, len(order) - batch + 1, batch):
            rows = order[start : start + batch]
            gradients = each(params, images[rows], labels[rows])
            params = step(params, gradients, lr, norm, noise, batch)
    scores = functional_call(model, params, (images[held_out],))
    accuracy = (scores.argmax(1) == labels[held_out]).float().mean().item()
    print(f"accuracy on {len(held_out)} held-out digits: {accuracy:.2%}")
    compare(one, each, params, images[learn[:batch]], labels[learn[:batch]])
    return accuracy


def compare(
    one: Callable[..., Params],
    each: Callable[..., Params],
    params: Params,
    images: fa.Tensor,
    labels: fa.Tensor,
) -> None:
    """Time the batched call beside the loop, and say how far their results are apart."""
    start = time.perf_counter()
    batched = each(params, images, labels)
    middle = time.perf_counter()
    rows = [one(params, x, y) for x, y in zip(images, labels, strict=True)]
    end = time.perf_counter()
    looped = {name: fa.stack([row[name] for row in rows]) for name in params}
    apart = max((batched[name] - looped[name]).abs().max().item() for name in params)
    print(
        f"gradients of {len(images)} samples: {(middle - start) * 1e3:.1f} ms by vmap, "
        f"{(end - middle) * 1e3:.1f} ms by a loop; at most {apart:.1e} apart"
    )


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m facula.examples.per_sample_gradients",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--epochs", type=int, default=20, help="passes over the training digits")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--norm", type=float, default=1.0, help="what gradients are cut off at")
    parser.add_argument("--noise", type=float, default=0.5, help="its deviation, in norms")
    args = parser.parse_args(argv)
    if args.epochs < 0:
        parser.error(f"--epochs must be at least 0, not {args.epochs}")
    run(args.epochs, args.seed, norm=args.norm, noise=args.noise)


if __name__ == "__main__":
    main()
