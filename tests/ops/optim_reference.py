"""Steps of the optimizers as their papers state them: the written arguments after one step."""

from __future__ import annotations

from typing import Any

import numpy as np

Arrays = list[np.ndarray[Any, Any]]


def _directions(params: Arrays, grads: Arrays, decay: float, maximize: bool) -> Arrays:
    sign = -1 if maximize else 1
    return [sign * g + decay * p for p, g in zip(params, grads, strict=True)]


def sgd_step(
    params: Arrays,
    grads: Arrays,
    buffers: Arrays,
    lr: float,
    momentum: float,
    dampening: float,
    decay: float,
    nesterov: bool,
    maximize: bool,
    first: bool,
) -> list[Arrays]:
    steps = _directions(params, grads, decay, maximize)
    new: Arrays = []
    if momentum:
        for b, d in zip(buffers, steps, strict=True):
            new.append(d if first else momentum * b + (1 - dampening) * d)
        steps = [d + momentum * b for d, b in zip(steps, new, strict=True)] if nesterov else new
    return [[p - lr * d for p, d in zip(params, steps, strict=True)], new]


def _means(means: Arrays, directions: Arrays, beta: float) -> Arrays:
    return [beta * m + (1 - beta) * d for m, d in zip(means, directions, strict=True)]


def _squares(squares: Arrays, directions: Arrays, beta: float) -> Arrays:
    return [beta * v + (1 - beta) * d**2 for v, d in zip(squares, directions, strict=True)]


def adam_step(
    params: Arrays,
    grads: Arrays,
    means: Arrays,
    squares: Arrays,
    largest: Arrays,
    steps: Arrays,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    decay: float,
    decoupled: bool,
    maximize: bool,
) -> list[Arrays]:
    directions = _directions(params, grads, 0 if decoupled else decay, maximize)
    means, squares = _means(means, directions, beta1), _squares(squares, directions, beta2)
    largest = [np.maximum(h, v) for h, v in zip(largest, squares, strict=False)]
    counts = [t + 1 for t in steps]
    new = []
    for p, m, v, t in zip(params, means, largest or squares, counts, strict=True):
        start = p * (1 - lr * decay) if decoupled else p
        unbiased = m / (1 - beta1**t), v / (1 - beta2**t)
        new.append(start - lr * unbiased[0] / (np.sqrt(unbiased[1]) + eps))
    return [new, means, squares, largest, counts]


def nadam_step(
    params: Arrays,
    grads: Arrays,
    means: Arrays,
    squares: Arrays,
    products: Arrays,
    steps: Arrays,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    decay: float,
    momentum_decay: float,
    decoupled: bool,
    maximize: bool,
) -> list[Arrays]:
    directions = _directions(params, grads, 0 if decoupled else decay, maximize)
    means, squares = _means(means, directions, beta1), _squares(squares, directions, beta2)
    counts = [t + 1 for t in steps]
    new, mus = [], []
    for p, d, m, v, product, t in zip(
        params, directions, means, squares, products, counts, strict=True
    ):
        mu, after = (beta1 * (1 - 0.96 ** (k * momentum_decay) / 2) for k in (t, t + 1))
        mus.append(product * mu)
        mean = after * m / (1 - mus[-1] * after) + (1 - mu) * d / (1 - mus[-1])
        start = p * (1 - lr * decay) if decoupled else p
        new.append(start - lr * mean / (np.sqrt(v / (1 - beta2**t)) + eps))
    return [new, means, squares, mus, counts]


def adamax_step(
    params: Arrays,
    grads: Arrays,
    means: Arrays,
    largest: Arrays,
    steps: Arrays,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    decay: float,
    maximize: bool,
) -> list[Arrays]:
    directions = _directions(params, grads, decay, maximize)
    means = _means(means, directions, beta1)
    norms = [np.maximum(beta2 * u, abs(d) + eps) for u, d in zip(largest, directions, strict=True)]
    counts = [t + 1 for t in steps]
    new = [
        p - lr / (1 - beta1**t) * m / u
        for p, m, u, t in zip(params, means, norms, counts, strict=True)
    ]
    return [new, means, norms, counts]


def rmsprop_step(
    params: Arrays,
    grads: Arrays,
    squares: Arrays,
    means: Arrays,
    buffers: Arrays,
    steps: Arrays,
    lr: float,
    alpha: float,
    eps: float,
    decay: float,
    momentum: float,
    maximize: bool,
) -> list[Arrays]:
    directions = _directions(params, grads, decay, maximize)
    squares = _squares(squares, directions, alpha)
    spreads = squares
    if means:
        means = _means(means, directions, alpha)
        spreads = [v - m**2 for v, m in zip(squares, means, strict=True)]
    moves = [d / (np.sqrt(v) + eps) for d, v in zip(directions, spreads, strict=True)]
    if buffers:
        moves = buffers = [momentum * b + d for b, d in zip(buffers, moves, strict=True)]
    new = [p - lr * d for p, d in zip(params, moves, strict=True)]
    return [new, squares, means, buffers, [t + 1 for t in steps]]


def adagrad_step(
    params: Arrays,
    grads: Arrays,
    sums: Arrays,
    steps: Arrays,
    lr: float,
    lr_decay: float,
    eps: float,
    decay: float,
    maximize: bool,
) -> list[Arrays]:
    directions = _directions(params, grads, decay, maximize)
    sums = [s + d**2 for s, d in zip(sums, directions, strict=True)]
    new = [
        p - lr / (1 + t * lr_decay) * d / (np.sqrt(s) + eps)
        for p, d, s, t in zip(params, directions, sums, steps, strict=True)
    ]
    return [new, sums, [t + 1 for t in steps]]


def adadelta_step(
    params: Arrays,
    grads: Arrays,
    squares: Arrays,
    moved: Arrays,
    steps: Arrays,
    lr: float,
    rho: float,
    eps: float,
    decay: float,
    maximize: bool,
) -> list[Arrays]:
    directions = _directions(params, grads, decay, maximize)
    squares = _squares(squares, directions, rho)
    moves = [
        np.sqrt(u + eps) / np.sqrt(v + eps) * d
        for u, v, d in zip(moved, squares, directions, strict=True)
    ]
    new = [p - lr * d for p, d in zip(params, moves, strict=True)]
    return [new, squares, _squares(moved, moves, rho), [t + 1 for t in steps]]


def unscale_grads(grads: Arrays, found_inf: Any, inv_scale: Any) -> list[Any]:
    bad = not all(np.isfinite(g).all() for g in grads)
    return [[g * inv_scale for g in grads], np.asarray(1.0 if bad else found_inf)]


def update_scale(
    scale: Any, tracker: Any, found_inf: Any, growth: float, backoff: float, interval: int
) -> list[Any]:
    if found_inf:
        return [scale * backoff, np.zeros_like(tracker)]
    if tracker + 1 < interval:
        return [scale, tracker + 1]
    return [scale * growth, np.zeros_like(tracker)]
