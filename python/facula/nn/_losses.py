"""Losses that are short arrangements of operators, each with torch's reduction."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import facula
from facula import _C
from facula.amp.autocast_mode import in_float32
from facula.nn._norms import pairwise_distance

__all__ = [
    "cosine_embedding_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "poisson_nll_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


# Pairs of numbers from which on they are not written down.
_MANY_PAIRS = 1 << 22
_ops = _C._nn_functional
# The mean, the sum or all of the losses; size_average and reduce are older words for the same.
_reduce = _C._ops.reduce_loss


def older_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The one reduction that torch's two older flags mean, if either is given."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def wide(loss: Any) -> Any:
    """Decorates a loss that computes 16-bit tensors in float32 and rounds its result alone."""

    @functools.wraps(loss)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        tensors = [v for v in (*args, *kwargs.values()) if isinstance(v, facula.Tensor)]
        if not any(t.dtype in (facula.float16, facula.bfloat16) for t in tensors):
            return loss(*args, **kwargs)
        dtypes = [t.dtype for t in tensors if t.is_floating_point()]
        result = functools.reduce(facula.promote_types, dtypes)
        args = tuple(_widened(v) for v in args)
        return loss(*args, **{k: _widened(v) for k, v in kwargs.items()}).to(result)

    return decorated


def _floating(x: Any) -> Any:
    """Integers in the default dtype, as arithmetic with floats has them."""
    return x if x.is_floating_point() or x.is_complex() else x.to(facula.get_default_dtype())


def _widened(value: Any) -> Any:
    half = isinstance(value, facula.Tensor) and value.dtype in (facula.float16, facula.bfloat16)
    return value.float() if half else value


@in_float32()
@wide
def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """max(0, -target (input1 - input2) + margin), target 1 or -1."""
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss(): input1, input2 and target must have as many dims, got "
            f"{tuple(input1.shape)}, {tuple(input2.shape)}, {tuple(target.shape)}"
        )
    return _reduce(
        (-target * (input1 - input2) + margin).clamp_min(0),
        reduction,
        size_average,
        reduce,
        "margin_ranking_loss",
    )


@in_float32()
@wide
def hinge_embedding_loss(
    input: Any,
    target: Any,
    margin: float = 1.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """input where target is 1, max(0, margin - input) where it is -1."""
    zeros = facula.zeros_like(input)
    apart = facula.where(target != 1, (margin - input).clamp_min(0), zeros)
    close = facula.where(target != -1, input, zeros)
    return _reduce(apart + close, reduction, size_average, reduce, "hinge_embedding_loss")


@in_float32()
@wide
def soft_margin_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Any:
    """log(1 + exp(-target input)), target 1 or -1."""
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            f"soft_margin_loss(): target is {tuple(target.shape)}, input is {tuple(input.shape)}; "
            "they must have the same shape"
        )
    return _reduce(
        _ops.softplus(-target * input), reduction, size_average, reduce, "soft_margin_loss"
    )


@in_float32()
@wide
def cosine_embedding_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """1 - cos where target is 1, max(0, cos - margin) where it is -1; vectors in the last dim."""
    input1, input2 = _floating(input1), _floating(input2)
    if input1.shape[-1:] != input2.shape[-1:]:
        input1, input2 = facula.broadcast_tensors(input1, input2)

    def unit(x: Any) -> Any:
        # sqrt(|x|^2 + 1e-12), for which no square has to be in the range
        norm = facula.linalg.vector_norm(x, 2, -1, keepdim=True)
        return x / facula.hypot(norm, facula.full_like(norm, 1e-6))

    cos = (unit(input1) * unit(input2)).sum(-1)
    zeros = facula.zeros_like(cos)
    close = facula.where(target == 1, 1 - cos, zeros)
    apart = facula.where(target == -1, (cos - margin).clamp_min(0), zeros)
    return _reduce(close + apart, reduction, size_average, reduce, "cosine_embedding_loss")


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """max(0, d(a, p) - d(a, n) + margin); with swap the smaller of d(a, n) and d(p, n)."""
    if margin <= 0:
        raise ValueError(f"the triplet loss needs a margin greater than 0, got {margin}")
    distance = distance_function if distance_function is not None else pairwise_distance
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "the triplet loss needs anchor, positive and negative with as many dims, got "
            f"{tuple(anchor.shape)}, {tuple(positive.shape)}, {tuple(negative.shape)}"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = facula.minimum(far, distance(positive, negative))
    return _reduce(
        (near - far + margin).clamp_min(0),
        reduction,
        None,
        None,
        "triplet_margin_with_distance_loss",
    )


@in_float32()
@wide
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """max(0, ||a - p|| - ||a - n|| + margin) (Balntas et al. 2016)."""
    return triplet_margin_with_distance_loss(
        anchor,
        positive,
        negative,
        distance_function=lambda a, b: pairwise_distance(a, b, p, eps),
        margin=margin,
        swap=swap,
        reduction=older_reduction(size_average, reduce, reduction),
    )


@in_float32()
@wide
def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    size_average: Any = None,
    eps: float = 1e-8,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """exp(input) - target input, or input - target log(input + eps) without log_input.

    With `full`, Stirling's term target log target - target + log(2 pi target) / 2 is added where
    target > 1.
    """
    input, target = _floating(input), _floating(target)
    if log_input:
        loss = input.exp() - _C._ops.mul0(target, input)
    else:
        loss = input - facula.xlogy(target, input + eps)
    if full:
        big = target > 1
        safe = facula.where(big, target, facula.ones_like(target))
        stirling = safe * safe.log() - safe + 0.5 * (safe.log() + math.log(2 * math.pi))
        loss = loss + facula.where(big, stirling, facula.zeros_like(stirling))
    return _reduce(loss, reduction, size_average, reduce, "poisson_nll_loss")


@wide
def gaussian_nll_loss(
    input: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """(log var + (input - target)^2 / var) / 2, var clamped to eps (Nix & Weigend 1994).

    var has input's shape, or lacks its last dim, or has 1 there; or it is a positive number.
    """
    if not isinstance(var, facula.Tensor):
        if var < 0:
            raise ValueError(f"gaussian_nll_loss(): var must not be negative, got {var}")
        var = facula.full_like(input, float(var))
    elif bool((var < 0).any()):
        raise ValueError(f"gaussian_nll_loss(): var must not be negative, got {float(var.min())}")
    if tuple(var.shape) != tuple(input.shape):
        if tuple(input.shape[:-1]) == tuple(var.shape):
            var = var.unsqueeze(-1)
        elif tuple(input.shape[:-1]) != tuple(var.shape[:-1]) or var.shape[-1] != 1:
            raise ValueError(
                f"gaussian_nll_loss(): var is {tuple(var.shape)}, input is {tuple(input.shape)}; "
                "expected input's shape, or 1 in its last dim"
            )
    # The clamp guards the division; no gradient should see it.
    clamped = var.clone()
    with facula.no_grad():
        clamped.clamp_(min=eps)
    loss = _C._ops.gaussian_nll_elements(input, target, clamped)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduce(loss, reduction, None, None, "gaussian_nll_loss")


@in_float32()
@wide
def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """Sum over j != y of max(0, margin - x_y + x_j)^p, over C; input (N, C), (C,) or ()."""
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss(): p must be 1 or 2, not {p}")
    single = input.dim() <= 1
    x = input.reshape(1, -1) if single else input
    y = target.reshape(-1, 1)
    others = facula.ones_like(x).scatter(1, y, 0.0)
    gap = (margin - x.gather(1, y) + x).relu() * others
    mean = _C._ops._mean_square if p == 2 else facula.mean
    reduction = older_reduction(size_average, reduce, reduction)
    if weight is None and reduction == "mean":
        return mean(gap)
    loss = mean(gap, [1])
    if weight is not None:
        loss = loss * weight[y[:, 0]]
    return _reduce(loss[0] if single else loss, reduction, None, None, "multi_margin_loss")


def _excess(x: Any, bounds: Any, counts: Any, scale: float) -> Any:
    """By how much numbers of a row are above each of its bounds, summed, times scale.

    Args:
        x: (N, C).
        bounds: (N, K).
        counts: which of x count, (N, C).
    """
    # Of x in order the sums from the largest on: no array of all pairs.
    centre = x.detach().mean(1, True)
    centre = facula.where(centre.isfinite(), centre, 0.0)
    top, _ = facula.where(counts, x - centre, -math.inf).sort(1, descending=True)
    bounds = bounds - centre
    with facula.no_grad():
        above = facula.searchsorted(-top, -bounds)
    sums = (facula.where(top == -math.inf, 0.0, top) * scale).cumsum(1)
    sums = facula.cat([facula.zeros_like(sums[:, :1]), sums], 1)
    excess = sums.gather(1, above) - above.to(x.dtype) * scale * bounds
    excess = facula.where(above == 0, 0.0, excess)
    return facula.where(x.isnan().any(1, True), math.nan, excess)


@in_float32()
@wide
def multilabel_margin_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Any:
    """Sum over labels y and non-labels j of max(0, 1 - x_y + x_j), over C.

    input is (N, C), (C,) or (); target holds class indices, ended by the first -1 of each row.
    """
    single = input.dim() <= 1
    x = input.reshape(1, -1) if single else input
    y = target.reshape(1, -1) if single else target
    valid = (y < 0).to(facula.int64).cumsum(1) == 0
    index = y.clamp_min(0)
    hits = facula.zeros_like(x).scatter_add(1, index, valid.to(x.dtype))
    reduction = older_reduction(size_average, reduce, reduction)
    if x.numel() * x.shape[1] > _MANY_PAIRS:
        mean = reduction == "mean"
        scale = 1 / (x.numel() if mean else x.shape[1])
        excess = _excess(x, x.gather(1, index) - 1, hits == 0, scale)
        loss = facula.where(valid, excess, 0.0).sum(1)
        reduction = "sum" if mean else reduction
        return _reduce(loss[0] if single else loss, reduction, None, None, "multilabel_margin_loss")
    others = (hits == 0).to(x.dtype)
    gap = (1 - x.gather(1, index).unsqueeze(2) + x.unsqueeze(1)).relu()
    gap = gap * valid.unsqueeze(2) * others.unsqueeze(1)
    if reduction == "mean":
        return gap.mean() * x.shape[1]
    loss = gap.mean((1, 2)) * x.shape[1]
    return _reduce(loss[0] if single else loss, reduction, None, None, "multilabel_margin_loss")


@wide
def multilabel_soft_margin_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """Mean over classes of the binary cross entropy of sigmoid(input), target 0 or 1."""
    loss = -(
        _C._ops.mul0(target, _ops.logsigmoid(input))
        + _C._ops.mul0(1 - target, _ops.logsigmoid(-input))
    )
    if weight is not None:
        loss = loss * weight
    return _reduce(loss.mean(-1), reduction, size_average, reduce, "multilabel_soft_margin_loss")
