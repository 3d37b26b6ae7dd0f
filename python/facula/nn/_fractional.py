"""Pooling over windows at random places (Graham, Fractional Max-Pooling, 2014)."""

from __future__ import annotations

import math
from typing import Any

import facula
from facula.nn._pooling import ntuple
from facula.nn._sizes import check_size

__all__ = [
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
]


def _starts(samples: Any, size: int, out: int, kernel: int) -> Any:
    """Where the windows of one dim start, (N, C, out), from numbers (N, C) in [0, 1)."""
    last = facula.full_like(samples, size - kernel)
    if out == 1:
        return last.to(facula.int64).unsqueeze(-1)
    step = (size - kernel) / (out - 1)
    places = facula.arange(out - 1, device=samples.device, dtype=samples.dtype)
    u = samples.unsqueeze(-1)
    starts = ((places + u) * step).floor() - (u * step).floor()
    return facula.cat([starts, last.unsqueeze(-1)], -1).to(facula.int64)


def _pool(
    space: int,
    input: Any,
    kernel_size: Any,
    output_size: Any,
    output_ratio: Any,
    samples: Any,
) -> tuple[Any, Any]:
    name = f"fractional_max_pool{space}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if input.dim() not in (space + 1, space + 2):
        raise ValueError(
            f"{name}: expected {space + 1}D or {space + 2}D input, got {tuple(input.shape)}"
        )
    single = input.dim() == space + 1
    x = input.unsqueeze(0) if single else input
    sizes = tuple(x.shape[2:])
    kernel = ntuple(kernel_size, space)
    if output_size is None:
        ratios = ntuple(output_ratio, space)
        if not all(0 < r < 1 for r in ratios):
            raise ValueError(f"{name}: output_ratio must be between 0 and 1, not {output_ratio}")
        outs = tuple(int(s * r) for s, r in zip(sizes, ratios, strict=True))
    else:
        outs = ntuple(output_size, space)
    for what, numbers in (("kernel_size", kernel), ("the output size", outs)):
        if min(numbers) < 1:
            raise ValueError(f"{name}: {what} must be at least 1, got {numbers}")
    for size, out, k in zip(sizes, outs, kernel, strict=True):
        if out + k - 1 > size:
            raise RuntimeError(
                f"{name}: {out} windows of {k} do not fit into {size}: the input is "
                f"{tuple(input.shape)}, kernel_size {kernel}, output size {outs}"
            )
    n, c = x.shape[:2]
    check_size(name, (n, c, *outs), x)
    if samples is None:
        real = x.dtype if x.is_floating_point() else facula.float32
        samples = facula.rand(n, c, space, dtype=real, device=x.device)
    elif samples.dim() != 3 or len(samples) < n or tuple(samples.shape[1:]) != (c, space):
        raise RuntimeError(
            f"{name}: _random_samples is {tuple(samples.shape)}, expected {(n, c, space)}"
        )
    samples = samples[:n]
    # Numbers go with dims as torch has them: in the plane the last dim comes first.
    order = [1, 0] if space == 2 else [0, 1, 2]
    with facula.no_grad():
        best = x.detach()
        places = facula.arange(math.prod(sizes), device=x.device).reshape(sizes).expand(x.shape)
        # The last dim first: of equal numbers the first one of a window stays.
        for d in reversed(range(space)):
            starts = _starts(samples[..., order[d]], sizes[d], outs[d], kernel[d])
            best, places = _along(best, places, 2 + d, starts, kernel[d])
    values = x.flatten(2).gather(2, places.flatten(2)).reshape(places.shape)
    return (values.squeeze(0), places.squeeze(0)) if single else (values, places)


def _along(values: Any, places: Any, dim: int, starts: Any, kernel: int) -> tuple[Any, Any]:
    """The largest of `kernel` neighbours along a dim from each start on, and its place.

    From those of 1, 2, 4 ... neighbours, of which two overlap to any number of them.
    """
    length = 1
    while 2 * length <= kernel:
        rest = values.shape[dim] - length
        values, places = _larger(
            *(t.narrow(dim, 0, rest) for t in (values, places)),
            *(t.narrow(dim, length, rest) for t in (values, places)),
        )
        length *= 2
    shape = [1] * values.dim()
    shape[0], shape[1], shape[dim] = starts.shape
    whole = [*values.shape]
    whole[dim] = starts.shape[2]
    first = starts.reshape(shape).expand(whole)
    ends = [t.gather(dim, at) for at in (first, first + kernel - length) for t in (values, places)]
    return _larger(*ends)


def _larger(values: Any, places: Any, others: Any, other_places: Any) -> tuple[Any, Any]:
    """The larger numbers, NaN above all, and their places; of equals those of the first."""
    take = others > values
    if values.is_floating_point():
        take = take | (others.isnan() & ~values.isnan())
    return facula.where(take, others, values), facula.where(take, other_places, places)


def fractional_max_pool2d_with_indices(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> tuple[Any, Any]:
    """(values, indices) of `fractional_max_pool2d`."""
    return _pool(2, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool3d_with_indices(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> tuple[Any, Any]:
    """(values, indices) of `fractional_max_pool3d`."""
    return _pool(3, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool2d(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """Maxima of windows of (N, C, H, W) or (C, H, W), whose distances vary at random.

    Args:
        kernel_size: of a window.
        output_size: how many windows along each dim; or
        output_ratio: that over the input's size, in (0, 1).
        return_indices: give the places of the maxima in the flattened plane too.
    """
    both = _pool(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return both if return_indices else both[0]


def fractional_max_pool3d(
    input: Any,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """As `fractional_max_pool2d`, of (N, C, T, H, W) or (C, T, H, W)."""
    both = _pool(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return both if return_indices else both[0]
