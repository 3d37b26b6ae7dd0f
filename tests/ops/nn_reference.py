"""Plain NumPy definitions of network operators: `ref.NAME` in the references of ops.yaml."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray
Numbers = int | Sequence[int]


def _each(value: Any, n: int) -> list[int]:
    return [int(value)] * n if np.isscalar(value) else [int(v) for v in value]


def _batched(x: Array, spatial: int) -> tuple[Array, bool]:
    return (x, True) if x.ndim == spatial + 2 else (x[None], False)


def conv(
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Numbers,
    padding: Any,
    dilation: Numbers,
    groups: int,
) -> Array:
    """Convolution with the spatial dims of `weight`: a sum over its taps of shifted images."""
    n = weight.ndim - 2
    x, batch = _batched(input, n)
    kernel = weight.shape[2:]
    stride, dilation = _each(stride, n), _each(dilation, n)
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        margins = [(t // 2, t - t // 2) for t in total]
    else:
        margins = [(p, p) for p in _each(0 if padding == "valid" else padding, n)]
    x = np.pad(x, [(0, 0), (0, 0), *margins])
    sizes = [
        (s - d * (k - 1) - 1) // st + 1
        for s, d, k, st in zip(x.shape[2:], dilation, kernel, stride, strict=True)
    ]
    out = np.zeros((x.shape[0], weight.shape[0], *sizes), dtype=x.dtype)
    per_out, per_in = weight.shape[0] // groups, weight.shape[1]
    for tap in itertools.product(*map(range, kernel)):
        window = tuple(
            slice(t * d, t * d + (o - 1) * s + 1, s)
            for t, d, o, s in zip(tap, dilation, sizes, stride, strict=True)
        )
        seen = x[(slice(None), slice(None), *window)]
        for g in range(groups):
            w = weight[(slice(g * per_out, (g + 1) * per_out), slice(None), *tap)]
            out[:, g * per_out : (g + 1) * per_out] += np.einsum(
                "oc,nc...->no...", w, seen[:, g * per_in : (g + 1) * per_in]
            )
    if bias is not None:
        out = out + bias.reshape(1, -1, *[1] * n)
    return out if batch else out[0]


def conv_transpose(
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Numbers,
    padding: Numbers,
    output_padding: Numbers,
    groups: int,
    dilation: Numbers,
) -> Array:
    """Every input element puts a scaled copy of the kernel into the output."""
    n = weight.ndim - 2
    x, batch = _batched(input, n)
    kernel = weight.shape[2:]
    stride, padding, dilation = _each(stride, n), _each(padding, n), _each(dilation, n)
    extra = _each(output_padding, n)
    full = [
        (s - 1) * st + d * (k - 1) + 1 + e
        for s, st, d, k, e in zip(x.shape[2:], stride, dilation, kernel, extra, strict=True)
    ]
    per_in, per_out = weight.shape[0] // groups, weight.shape[1]
    out = np.zeros((x.shape[0], per_out * groups, *full), dtype=x.dtype)
    for tap in itertools.product(*map(range, kernel)):
        window = tuple(
            slice(t * d, t * d + (s - 1) * st + 1, st)
            for t, d, s, st in zip(tap, dilation, x.shape[2:], stride, strict=True)
        )
        for g in range(groups):
            w = weight[(slice(g * per_in, (g + 1) * per_in), slice(None), *tap)]
            out[(slice(None), slice(g * per_out, (g + 1) * per_out), *window)] += np.einsum(
                "co,nc...->no...", w, x[:, g * per_in : (g + 1) * per_in]
            )
    out = out[
        (slice(None), slice(None), *(slice(p, f - p) for p, f in zip(padding, full, strict=True)))
    ]
    if bias is not None:
        out = out + bias.reshape(1, -1, *[1] * n)
    return out if batch else out[0]


def _windows(
    size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool
) -> list[list[int]]:
    """For each output place the input places of its window, outside ones included."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (-(-room // stride) if ceil_mode else room // stride) + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1
    return [[o * stride - padding + k * dilation for k in range(kernel)] for o in range(count)]


def _reduce_windows(x: Array, windows: list[list[list[int]]], pick: Any) -> Array:
    """pick(values of a window, places in the volume, window by dim) at each output place."""
    n = len(windows)
    lead = x.shape[: x.ndim - n]
    volume = x.shape[x.ndim - n :]
    flat = x.reshape(-1, *volume)
    out = []
    for plane in flat:
        for places in itertools.product(*windows):
            inside = [
                [p for p in axis if 0 <= p < s] for axis, s in zip(places, volume, strict=True)
            ]
            index = np.ix_(*inside)
            numbers = np.ravel_multi_index(np.meshgrid(*inside, indexing="ij"), volume)
            out.append(pick(plane[index].ravel(), numbers.ravel(), places, volume))
    return np.array(out).reshape(*lead, *(len(w) for w in windows))


def _pool_windows(
    x: Array, n: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Any:
    kernel = _each(kernel, n)
    stride = kernel if stride is None else _each(stride, n)
    return [
        _windows(*a, ceil_mode)
        for a in zip(
            x.shape[-n:], kernel, stride, _each(padding, n), _each(dilation, n), strict=True
        )
    ]


def _empty(x: Array, windows: list[list[list[int]]], dtype: Any = None) -> Array:
    return np.zeros(
        (*x.shape[: x.ndim - len(windows)], *(len(w) for w in windows)), dtype or x.dtype
    )


def max_pool(
    x: Array, n: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> list[Array]:
    """Values and places."""
    windows = _pool_windows(x, n, kernel, stride, padding, dilation, ceil_mode)
    if x.size == 0:
        return [_empty(x, windows), _empty(x, windows, np.int64)]
    values = _reduce_windows(x, windows, lambda v, p, *_: v.max())
    places = _reduce_windows(x, windows, lambda v, p, *_: p[v.argmax()])
    return [values, places]


def avg_pool(
    x: Array,
    n: int,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None = None,
) -> Array:
    windows = _pool_windows(x, n, kernel, stride, padding, 1, ceil_mode)
    margins = _each(padding, n)

    def mean(values: Array, places: Array, axes: Any, volume: Any) -> Any:
        counted = np.prod(
            [sum(p < s + m for p in axis) for axis, s, m in zip(axes, volume, margins, strict=True)]
        )
        return values.sum() / (divisor or (counted if count_include_pad else values.size))

    return _reduce_windows(x, windows, mean) if x.size else _empty(x, windows)


def _adaptive_windows(x: Array, output: Any, n: int) -> list[list[list[int]]]:
    return [
        [list(range(o * s // out, -(-(o + 1) * s // out))) for o in range(out)]
        for s, out in zip(x.shape[-n:], _each(output, n), strict=True)
    ]


def adaptive_avg_pool(x: Array, n: int, output: Any) -> Array:
    windows = _adaptive_windows(x, output, n)
    return _reduce_windows(x, windows, lambda v, *_: v.mean()) if x.size else _empty(x, windows)


def adaptive_max_pool(x: Array, n: int, output: Any) -> list[Array]:
    windows = _adaptive_windows(x, output, n)
    return [
        _reduce_windows(x, windows, lambda v, p, *_: v.max()),
        _reduce_windows(x, windows, lambda v, p, *_: p[v.argmax()]),
    ]


def unfold(input: Array, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Array:
    x, batch = _batched(input, 2)
    kernel, dilation, padding, stride = (_each(v, 2) for v in (kernel, dilation, padding, stride))
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    sizes = [
        (s - d * (k - 1) - 1) // st + 1
        for s, d, k, st in zip(x.shape[2:], dilation, kernel, stride, strict=True)
    ]
    taps = [
        x[:, :, i * dilation[0] :, j * dilation[1] :][
            :,
            :,
            : (sizes[0] - 1) * stride[0] + 1 : stride[0],
            : (sizes[1] - 1) * stride[1] + 1 : stride[1],
        ]
        for i in range(kernel[0])
        for j in range(kernel[1])
    ]
    out = np.stack(taps, 2).reshape(x.shape[0], x.shape[1] * len(taps), sizes[0] * sizes[1])
    return out if batch else out[0]


def fold(input: Array, output: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Array:
    batch = input.ndim == 3
    x = input if batch else input[None]
    output, kernel, dilation, padding, stride = (
        _each(v, 2) for v in (output, kernel, dilation, padding, stride)
    )
    padded = [o + 2 * p for o, p in zip(output, padding, strict=True)]
    sizes = [
        (s - d * (k - 1) - 1) // st + 1
        for s, d, k, st in zip(padded, dilation, kernel, stride, strict=True)
    ]
    channels = x.shape[1] // (kernel[0] * kernel[1])
    blocks = x.reshape(x.shape[0], channels, kernel[0], kernel[1], *sizes)
    out = np.zeros((x.shape[0], channels, *padded), x.dtype)
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            a, b = i * dilation[0], j * dilation[1]
            out[
                :,
                :,
                a : a + (sizes[0] - 1) * stride[0] + 1 : stride[0],
                b : b + (sizes[1] - 1) * stride[1] + 1 : stride[1],
            ] += blocks[:, :, i, j]
    out = out[:, :, padding[0] : padding[0] + output[0], padding[1] : padding[1] + output[1]]
    return out if batch else out[0]


def pixel_shuffle(x: Array, r: int) -> Array:
    *lead, c, h, w = x.shape
    n = len(lead)
    split = x.reshape(*lead, c // (r * r), r, r, h, w)
    return split.transpose(*range(n), n, n + 3, n + 1, n + 4, n + 2).reshape(
        *lead, c // (r * r), h * r, w * r
    )


def pixel_unshuffle(x: Array, r: int) -> Array:
    *lead, c, h, w = x.shape
    n = len(lead)
    split = x.reshape(*lead, c, h // r, r, w // r, r)
    return split.transpose(*range(n), n, n + 2, n + 4, n + 1, n + 3).reshape(
        *lead, c * r * r, h // r, w // r
    )


def attention(
    query: Array, key: Array, value: Array, mask: Array | None, causal: bool, scale: float | None
) -> Array:
    if key.ndim > 2 and key.shape[-3] != query.shape[-3]:
        times = query.shape[-3] // key.shape[-3]
        key, value = np.repeat(key, times, -3), np.repeat(value, times, -3)
    scores = query @ key.swapaxes(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if scores.size == 0:
        return np.zeros((*scores.shape[:-1], value.shape[-1]), query.dtype)
    top = scores.max(-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    return (e / np.where(total > 0, total, 1)) @ value


def _reduce(loss: Array, total: Any, reduction: str) -> Array:
    if reduction == "none":
        return loss
    return np.asarray(loss.sum() if reduction == "sum" else loss.sum() / total)


def nll_loss(
    input: Array, target: Array, weight: Array | None, ignore: int, reduction: str
) -> Array:
    x = input if input.ndim > 1 else input[None]
    t = np.asarray(target) if input.ndim > 1 else np.asarray(target)[None]
    w = np.ones(x.shape[1]) if weight is None else weight
    counted = t != ignore
    classes = np.where(counted, t, 0)
    each = np.where(counted, w[classes], 0)
    loss = -np.take_along_axis(x, np.expand_dims(classes, 1), 1).squeeze(1) * each
    if input.ndim == 1:
        loss = loss[0]
    return _reduce(loss, each.sum(), reduction)


def softmax_nll(x: Array, target: Array, weight: Any, ignore: int, reduction: str) -> list[Any]:
    top = x.max(axis=1, initial=-np.inf)
    below = np.log(np.exp(x - top[:, None]).sum(axis=1))
    kept = target != ignore
    scale = (np.ones(x.shape[1]) if weight is None else weight)[target] * kept
    logp = (x - top[:, None]) - below[:, None]
    return [
        nll_loss(logp, target, weight, ignore, reduction),
        scale.sum(),
        np.stack([top, below], axis=1),
    ]


def cross_entropy(
    input: Array, target: Array, weight: Array | None, ignore: int, reduction: str, smoothing: float
) -> Array:
    axis = 0 if input.ndim == 1 else 1
    classes = input.shape[axis]
    logp = input - np.log(np.exp(input).sum(axis, keepdims=True))
    shape = [1] * input.ndim
    shape[axis] = classes
    w = (np.ones(classes) if weight is None else weight).reshape(shape)
    if np.shape(target) == input.shape:
        share = target * (1 - smoothing) + smoothing / classes
        loss = -(logp * share * w).sum(axis)
        return _reduce(loss, loss.size, reduction)
    t = np.asarray(target)
    counted = t != ignore
    share = np.moveaxis(np.eye(classes)[np.where(counted, t, 0)], -1, axis)
    each = np.where(counted, (share * w).sum(axis), 0)
    share = share * (1 - smoothing) + smoothing / classes
    # The target's own part carries its weight, the smoothed part that of every class.
    loss = np.where(counted, -(logp * share * w).sum(axis), 0)
    return _reduce(loss, each.sum(), reduction)


def diagonal_scatter(
    x: np.ndarray, src: np.ndarray, offset: int, dim1: int, dim2: int
) -> np.ndarray:
    out = x.copy()
    at = np.arange(src.shape[-1])
    np.moveaxis(out, (dim1, dim2), (-2, -1))[..., at + max(-offset, 0), at + max(offset, 0)] = src
    return out


def constant_pad(x: np.ndarray, pad: list[int], value: float) -> np.ndarray:
    """Element i of a padded dim is element i - before of the input, else `value`."""
    for i in range(len(pad) // 2):
        d, n = x.ndim - 1 - i, x.shape[x.ndim - 1 - i]
        at = np.arange(n + pad[2 * i] + pad[2 * i + 1]) - pad[2 * i]
        inside = ((at >= 0) & (at < n)).reshape([-1, *[1] * i])
        if n == 0:
            shape = [len(at) if k == d else size for k, size in enumerate(x.shape)]
            x = np.full(shape, value, x.dtype)
        else:
            taken = np.take(x, np.clip(at, 0, n - 1), axis=d)
            x = np.where(inside, taken, np.asarray(value, x.dtype))
    return x
