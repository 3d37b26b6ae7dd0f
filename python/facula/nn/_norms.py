"""Normalisation and distances that are arrangements of operators."""

from __future__ import annotations

import math
from typing import Any

import facula
from facula import _C
from facula.nn._resize import pad

__all__ = [
    "instance_norm",
    "local_response_norm",
    "normalize",
    "pairwise_distance",
    "pdist",
]

_ops = _C._nn_functional


def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Any = None) -> Any:
    """Divide by the p-norm along `dim`: input / max(norm, eps)."""
    dims = range(input.dim()) if dim is None else [dim] if isinstance(dim, int) else dim
    unit = _C._ops._unit(input, p, list(dims), eps)
    return unit if out is None else facula.mul(unit, 1, out=out)


def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    """p-norm of x1 - x2 + eps over the last dim; the shapes broadcast."""
    return facula.linalg.vector_norm(x1 - x2 + eps, p, -1, keepdim=keepdim)


# Elements of differences of rows that are written down at a time.
_MANY = 1 << 22


def _distances(input: Any, start: int, stop: int, p: float) -> Any:
    """Those of the rows from start to stop to all after each of them."""
    rows = input[start:stop]
    table = facula.cdist(rows, input[start:], p, "donot_use_mm_for_euclid_dist")
    return table.masked_select(facula.ones_like(table, dtype=facula.bool).triu(1))


def pdist(input: Any, p: float = 2.0) -> Any:
    """p-norms of the differences of all pairs of rows of (N, M): (N (N - 1) / 2,).

    The pairs are in the order (0, 1), (0, 2), ..., (1, 2), ..., as SciPy has them.
    """
    if input.dim() != 2:
        raise ValueError(f"pdist(): input is {tuple(input.shape)}, expected (N, M)")
    if not p >= 0:
        raise ValueError(f"pdist(): p must not be negative, got {p}")
    count, width = input.shape
    if count > 1 and count * count * width > _MANY and input.is_floating_point():
        step = max(1, _MANY // (count * width))
        input.new_empty((count * (count - 1) // 2,))  # that there is memory for the result
        parts = [_distances(input, at, at + step, p) for at in range(0, count - 1, step)]
        return facula.cat(parts)
    first, second = facula.triu_indices(count, count, 1, device=input.device)
    return facula.linalg.vector_norm(input[first] - input[second], p, -1)


def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Normalise each channel of each sample of (N, C, *) by itself (Ulyanov et al. 2016).

    It is batch norm of the batch seen as (1, N C, *): running statistics are averages over N.
    """
    n, channels, *space = input.shape

    def tiled(t: Any) -> Any:
        return None if t is None else t.repeat(n)

    mean, var = tiled(running_mean), tiled(running_var)
    result = _ops.batch_norm(
        input.reshape(1, n * channels, *space),
        mean,
        var,
        tiled(weight),
        tiled(bias),
        use_input_stats,
        momentum,
        eps,
    )
    if use_input_stats and running_mean is not None:
        with facula.no_grad():
            running_mean.copy_(mean.view(n, channels).mean(0))
            running_var.copy_(var.view(n, channels).mean(0))
    return result.reshape(input.shape)


def local_response_norm(
    input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    """input / (k + alpha * mean of squares over `size` channels)^beta (Krizhevsky 2012)."""
    if input.dim() < 3:
        raise ValueError(
            f"local_response_norm(): input is {tuple(input.shape)}, expected (N, C, *)"
        )
    if size < 1:
        raise ValueError(f"local_response_norm(): size must be at least 1, got {size}")
    # No channel has more neighbours than there are channels.
    before, after = (min(n, input.shape[1]) for n in (size // 2, size - 1 - size // 2))
    half = input.dtype in (facula.float16, facula.bfloat16)
    whole = not (input.is_floating_point() or input.is_complex())
    x = input.float() if half or whole else input
    if input.numel() == 0:
        return input.clone()
    windows = pad(x.transpose(1, -1), (before, after)).unfold(-1, before + 1 + after, 1)
    # alpha * mean + k as a product of two factors, for which no square has to be in the range.
    scale = math.sqrt(abs(alpha) / size)
    norm = _C._ops._scaled_norm(windows, 2, [-1], False, None, scale).transpose(1, -1)
    root = facula.full_like(norm, math.sqrt(abs(k)))
    if alpha >= 0 and k >= 0:
        low = high = facula.hypot(norm, root)
    elif alpha < 0 and k < 0:
        high = facula.hypot(norm, root)
        low = -high
    else:
        low, high = (norm - root if alpha >= 0 else root - norm), norm + root
    result = x / low**beta / high**beta
    return result.to(input.dtype) if half else result
