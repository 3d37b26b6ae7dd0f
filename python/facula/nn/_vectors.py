"""Functions on vectors: normalisation, distances, one-hot codes, channel shuffles."""

from __future__ import annotations

from typing import Any

import facula

__all__ = [
    "bilinear",
    "channel_shuffle",
    "embedding",
    "instance_norm",
    "local_response_norm",
    "lp_pool1d",
    "lp_pool2d",
    "normalize",
    "one_hot",
    "pairwise_distance",
    "pixel_shuffle",
    "pixel_unshuffle",
]


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Rows of weight (num_embeddings, dim) at integer indices: (*) to (*, dim).

    Args:
        padding_idx: row that gets no gradient; counted from the end when negative.
        max_norm: rows that are looked up are first scaled, in place, to at most this norm.
        norm_type: p of that norm.
        scale_grad_by_freq: divide a row's gradient by how often it occurs in `input`.
        sparse: sparse gradients are not implemented.
    """
    if sparse:
        raise NotImplementedError("embedding(): sparse=True is not implemented")
    if padding_idx is not None:
        rows = weight.shape[0]
        if not -rows <= padding_idx < rows:
            raise ValueError(f"embedding(): padding_idx {padding_idx} is not a row of {rows}")
        padding_idx %= rows
    if max_norm is not None:
        with facula.no_grad():
            taken = facula.unique(input)
            weight[taken] = facula.renorm(weight[taken], norm_type, 0, max_norm)
    last = -1 if padding_idx is None else padding_idx
    return facula.embedding(weight, input, last, scale_grad_by_freq)


def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Any = None) -> Any:
    """Divide by the p-norm along `dim`: input / max(norm, eps)."""
    norm = facula.linalg.vector_norm(input, p, dim, keepdim=True).clamp_min(eps)
    return facula.div(input, norm, out=out) if out is not None else input / norm


def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """Codes of an int64 tensor of shape (*): int64 of shape (*, num_classes).

    With num_classes -1 it is the largest value plus one. Raises RuntimeError for values outside
    [0, num_classes).
    """
    if tensor.dtype != facula.int64:
        raise RuntimeError(f"one_hot(): tensor is {tensor.dtype}, expected int64 class indices")
    if tensor.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError("one_hot(): num_classes cannot be inferred from an empty tensor")
        return facula.empty((*tensor.shape, num_classes), dtype=tensor.dtype, device=tensor.device)
    low, high = int(tensor.min()), int(tensor.max())
    if low < 0:
        raise RuntimeError(f"one_hot(): class values must be non-negative, found {low}")
    if num_classes == -1:
        num_classes = high + 1
    elif high >= num_classes:
        raise RuntimeError(
            f"one_hot(): found class value {high}, num_classes is {num_classes}: "
            "class values must be smaller than num_classes"
        )
    classes = facula.arange(num_classes, dtype=tensor.dtype, device=tensor.device)
    return (tensor.unsqueeze(-1) == classes).to(tensor.dtype)


def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    """p-norm of x1 - x2 + eps over the last dim; the shapes broadcast."""
    return facula.linalg.vector_norm(x1 - x2 + eps, p, -1, keepdim=keepdim)


def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """y_k = x1^T A_k x2 + b_k for x1 (*, I), x2 (*, J), weight (K, I, J), bias (K,)."""
    # (..., 1, I) -> (..., K, J), then a product with x2 summed over J.
    left = facula.matmul(input1.unsqueeze(-2).unsqueeze(-2), weight).squeeze(-2)
    result = (left * input2.unsqueeze(-2)).sum(-1)
    return result if bias is None else result + bias


def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """Rearrange (*, C r^2, H, W) into (*, C, H r, W r) (Shi et al. 2016)."""
    r = upscale_factor
    *batch, channels, height, width = input.shape
    if r <= 0 or channels % (r * r):
        raise RuntimeError(
            f"pixel_shuffle(): {channels} channels of input {tuple(input.shape)} do not divide by "
            f"upscale_factor squared ({r * r})"
        )
    n = len(batch)
    split = input.reshape(*batch, channels // (r * r), r, r, height, width)
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    return split.permute(order).reshape(*batch, channels // (r * r), height * r, width * r)


def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """Rearrange (*, C, H r, W r) into (*, C r^2, H, W)."""
    r = downscale_factor
    *batch, channels, height, width = input.shape
    if r <= 0 or height % r or width % r:
        raise RuntimeError(
            f"pixel_unshuffle(): height and width of input {tuple(input.shape)} do not divide by "
            f"downscale_factor {r}"
        )
    n = len(batch)
    split = input.reshape(*batch, channels, height // r, r, width // r, r)
    order = [*range(n), n, n + 2, n + 4, n + 1, n + 3]
    return split.permute(order).reshape(*batch, channels * r * r, height // r, width // r)


def channel_shuffle(input: Any, groups: int) -> Any:
    """Interleave the channel groups of (N, C, *) (Zhang et al. 2017)."""
    n, channels, *rest = input.shape
    if groups <= 0 or channels % groups:
        raise RuntimeError(f"channel_shuffle(): {channels} channels do not divide by {groups}")
    split = input.reshape(n, groups, channels // groups, *rest)
    return split.transpose(1, 2).reshape(n, channels, *rest)


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
    from facula.nn import functional as F

    n, channels, *space = input.shape

    def tiled(t: Any) -> Any:
        return None if t is None else t.repeat(n)

    mean, var = tiled(running_mean), tiled(running_var)
    result = F.batch_norm(
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
        raise ValueError(f"local_response_norm(): input has {input.dim()} dims, expected >= 3")
    from facula.nn import functional as F

    channels = input.shape[1]
    before = size // 2
    square = F.pad(input.square().transpose(1, -1), (before, size - 1 - before))
    windows = square.unfold(-1, size, 1).mean(-1).transpose(1, -1)
    assert windows.shape[1] == channels
    return input / (windows * alpha + k) ** beta


def _lp_pool(pooled: Any, norm_type: float, count: int) -> Any:
    # The mean becomes a sum; the sign keeps an odd power's negative sum out of the root.
    return (pooled.sign() * pooled.abs().relu() * count) ** (1.0 / norm_type)


def lp_pool1d(
    input: Any, norm_type: float, kernel_size: int, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """(sum of x^p over each window)^(1/p)."""
    from facula.nn import functional as F

    pooled = F.avg_pool1d(input**norm_type, kernel_size, stride, 0, ceil_mode)
    return _lp_pool(pooled, norm_type, kernel_size)


def lp_pool2d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """(sum of x^p over each window)^(1/p)."""
    from facula.nn import functional as F

    height, width = (kernel_size, kernel_size) if isinstance(kernel_size, int) else kernel_size
    pooled = F.avg_pool2d(input**norm_type, kernel_size, stride, 0, ceil_mode)
    return _lp_pool(pooled, norm_type, height * width)
