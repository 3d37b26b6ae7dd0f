"""Functions of rows as people write them: one kernel each on a graphics card under `compile`."""

from __future__ import annotations

from collections.abc import Callable

import facula as fa


def softmax(x: fa.Tensor, weight: fa.Tensor) -> list[fa.Tensor]:
    scores = x * 0.125 + weight
    shares = (scores - scores.amax(-1, keepdim=True)).exp()
    return [shares / shares.sum(-1, keepdim=True)]


def rms_norm(x: fa.Tensor, weight: fa.Tensor) -> list[fa.Tensor]:
    wide = x.float()
    wide = wide * fa.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-6)
    return [wide.to(x.dtype) * weight]


def layer_norm(x: fa.Tensor, weight: fa.Tensor) -> list[fa.Tensor]:
    wide = x.float()
    away = wide - wide.mean(-1, keepdim=True)
    scale = fa.rsqrt((away * away).mean(-1, keepdim=True) + 1e-5)
    return [(away * scale).to(x.dtype) * weight, scale.squeeze(-1)]


def log_sum(x: fa.Tensor, weight: fa.Tensor) -> list[fa.Tensor]:
    """The loss of rows, but for the score of the class."""
    wide = (x * 0.5 + weight).float()
    top = wide.amax(-1, keepdim=True)
    total = (wide - top).exp().sum(-1, keepdim=True).log() + top
    return [total, total.squeeze(-1) * 2]


def residual(x: fa.Tensor, weight: fa.Tensor) -> list[fa.Tensor]:
    """A value that is kept, and two reductions of it."""
    made = x + weight
    low, high = made.amin(-1, keepdim=True), made.amax(-1, keepdim=True)
    return [made, (made - low) / (high - low), (made > 0.25).any(-1, keepdim=True)]


def attention(x: fa.Tensor, weight: fa.Tensor) -> list[fa.Tensor]:
    return [fa.softmax(x * 0.125 + weight, -1), fa.log_softmax(x * 2, -1) * weight]


def gradient(x: fa.Tensor, weight: fa.Tensor) -> list[fa.Tensor]:
    """That of a softmax, of two tensors."""
    shares, slope = x * weight, x + 1
    return [shares * (slope - (slope * shares).sum(-1, keepdim=True))]


PROGRAMS: list[Callable[[fa.Tensor, fa.Tensor], list[fa.Tensor]]] = [
    softmax, rms_norm, layer_norm, log_sum, residual, attention, gradient
]  # fmt: skip
