"""Differences along grids, places in them, and histograms over them."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import facula
from facula._errors import tell_all

__all__ = ["gradient", "histogram", "histogramdd", "range", "unravel_index"]


class histogram_result(NamedTuple):
    """What `histogram` gives."""

    hist: Any
    bin_edges: Any


class histogramdd_result(NamedTuple):
    """What `histogramdd` gives."""

    hist: Any
    bin_edges: tuple[Any, ...]


def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Places in an array of `shape` that indices into its flattened form mean, by dim.

    >>> fa.unravel_index(fa.tensor([5, 1]), (2, 3))
    (tensor([1, 0]), tensor([2, 1]))

    Args:
        indices: integers; negative ones count from the end.
        shape: an int or a sequence of ints.
    """
    if not isinstance(indices, facula.Tensor):
        raise TypeError(f"unravel_index(): indices must be a tensor, not {type(indices).__name__}")
    if indices.is_floating_point() or indices.is_complex() or indices.dtype == facula.bool:
        raise ValueError(f"unravel_index(): indices must be integers, not {indices.dtype}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(not isinstance(n, int) or isinstance(n, bool) for n in sizes):
        raise TypeError(f"unravel_index(): shape must be ints, not {shape!r}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"unravel_index(): shape must not be negative, it is {sizes}")
    result = []
    indices = indices.to(facula.int64)
    for n in reversed(sizes):
        size = max(n, 1)
        result.append(indices.remainder(size))
        indices = indices.div(size, rounding_mode="floor")
    return tuple(reversed(result))


# ---- gradient


def _spacings(spacing: Any, dims: tuple[int, ...]) -> list[Any]:
    if spacing is None:
        return [1.0] * len(dims)
    if isinstance(spacing, int | float | complex):
        return [spacing] * len(dims)
    found = list(spacing)
    if len(found) != len(dims):
        raise RuntimeError(
            f"gradient(): spacing has {len(found)} entries, but {len(dims)} dims are differentiated"
        )
    return found


def _slope(x: Any, dim: int, spacing: Any, edge_order: int) -> Any:
    """The derivative along a dim, by differences of second order within (Fornberg 1988)."""
    n = x.shape[dim]

    def part(start: int, length: int) -> Any:
        return x.narrow(dim, start, length)

    if isinstance(spacing, facula.Tensor):
        if spacing.dim() != 1 or spacing.shape[0] != n:
            raise RuntimeError(
                f"gradient(): coordinates of dim {dim} must be a vector of {n}, "
                f"not of shape {tuple(spacing.shape)}"
            )
        shape = [1] * x.dim()
        shape[dim] = n - 1
        steps = spacing.diff().reshape(shape)
        left, right = steps.narrow(dim, 0, n - 2), steps.narrow(dim, 1, n - 2)
        inner = (
            part(0, n - 2) * (-right / (left * (left + right)))
            + part(1, n - 2) * ((right - left) / (left * right))
            + part(2, n - 2) * (left / (right * (left + right)))
        )
        first, last = steps.narrow(dim, 0, 1), steps.narrow(dim, n - 2, 1)
        if edge_order == 2:
            second, before = steps.narrow(dim, 1, 1), steps.narrow(dim, n - 3, 1)
    else:
        step = spacing
        inner = (part(2, n - 2) - part(0, n - 2)) / (2 * step)
        first = last = second = before = step
    if edge_order == 1:
        low = (part(1, 1) - part(0, 1)) / first
        high = (part(n - 1, 1) - part(n - 2, 1)) / last
    else:
        low = (
            part(0, 1) * (-(2 * first + second) / (first * (first + second)))
            + part(1, 1) * ((first + second) / (first * second))
            + part(2, 1) * (-first / (second * (first + second)))
        )
        high = (
            part(n - 3, 1) * (last / (before * (before + last)))
            + part(n - 2, 1) * (-(before + last) / (before * last))
            + part(n - 1, 1) * ((2 * last + before) / (last * (before + last)))
        )
    return facula.cat([low, inner, high], dim)


def gradient(
    input: Any, *, spacing: Any = None, dim: Any = None, edge_order: int = 1
) -> tuple[Any, ...]:
    """Derivatives of a function on a grid, along each dim, by central differences.

    >>> fa.gradient(fa.tensor([1., 4., 9., 16.]))
    (tensor([3., 4., 6., 7.]),)

    Args:
        input: values at the points of a grid.
        spacing: a number, a number for each dim, or the coordinates of each dim as vectors.
        dim: an int or a sequence of ints; None for all dims.
        edge_order: 1 or 2, of the differences at the ends; a dim must have one point more.

    Returns:
        A tuple of tensors of the input's shape.
    """
    if isinstance(dim, int):
        dims: tuple[int, ...] = (dim,)
    elif dim is None:
        dims = tuple(builtins.range(input.dim()))
        if isinstance(spacing, Sequence) and len(spacing) != len(dims):
            raise RuntimeError(
                f"gradient(): spacing has {len(spacing)} entries, but input has {len(dims)} dims"
            )
    else:
        dims = tuple(dim)
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient(): edge_order must be 1 or 2, not {edge_order}")
    steps = _spacings(spacing, dims)
    if not (input.is_floating_point() or input.is_complex()):
        input = input.to(facula.get_default_dtype())
    # Differences of 16-bit numbers may leave their range, and are rounded once.
    wide = input.float() if input.dtype in (facula.float16, facula.bfloat16) else input
    result, seen = [], set()
    for d, step in zip(dims, steps, strict=True):
        if not -input.dim() <= d < input.dim():
            raise IndexError(
                f"gradient(): dim {d} is out of range for a tensor of {input.dim()} dims "
                f"(expected {-input.dim()} to {input.dim() - 1})"
            )
        at = d % input.dim()
        if at in seen:
            raise RuntimeError(f"gradient(): dim {at} is named twice")
        seen.add(at)
        if input.shape[at] <= edge_order:
            raise RuntimeError(
                f"gradient(): each dimension size must be at least edge_order+1, "
                f"but dim {at} has {input.shape[at]}"
            )
        result.append(_slope(wide, at, step, edge_order).to(input.dtype))
    return tuple(result)


def range(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """start, start + step, ... up to `end`, which is included; `arange` leaves it out.

    >>> fa.range(1, 3)
    tensor([1., 2., 3.])
    """
    if end is None:
        start, end = 0, start
    if step == 0:
        raise RuntimeError("range(): step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("range(): upper bound and lower bound inconsistent with step sign")
    count = math.floor((end - start) / step) + 1
    dtype = facula.get_default_dtype() if dtype is None else dtype
    exact = facula.float64 if dtype.is_floating_point else dtype
    made = facula.arange(count, dtype=exact, device=device) * step + start
    return made.to(dtype).requires_grad_(requires_grad)


# ---- histograms


def _edges(who: str, x: Any, bins: Any, ends: Any) -> Any:
    """Edges as they are given, or of equal intervals over `ends` or all elements."""
    if isinstance(bins, facula.Tensor):
        if bins.dim() != 1 or bins.numel() < 2 or bins.dtype != x.dtype:
            raise RuntimeError(
                f"{who}(): edges must be vectors of 2 or more {x.dtype}, "
                f"not {tuple(bins.shape)} of {bins.dtype}"
            )
        return bins
    if bins < 1:
        raise RuntimeError(f"{who}(): bins must be 1 or more, not {bins}")
    if ends is not None:
        low, high = float(ends[0]), float(ends[1])
    elif x.numel():
        low, high = float(x.min()), float(x.max())
    else:
        low, high = 0.0, 1.0
    if not (math.isfinite(low) and math.isfinite(high)) or low > high:
        raise RuntimeError(f"{who}(): the range is {low} to {high}; it must be finite and ascend")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return facula.linspace(low, high, bins + 1, dtype=x.dtype, device=x.device)


def histogram(
    input: Any,
    bins: Any,
    *,
    range: Any = None,
    weight: Any = None,
    density: bool = False,
) -> Any:
    """How many elements lie in each of several intervals.

    >>> fa.histogram(fa.tensor([1., 2., 1.]), bins=2, range=(0., 3.)).hist
    tensor([2., 1.])

    Args:
        input: floats.
        bins: how many equal intervals, or a vector of ascending edges.
        range: two floats, the ends; else those of the input.
        weight: of the input's shape, what each element counts.
        density: divide by the total and the widths.

    Returns:
        `hist`, and `bin_edges`, one more.
    """
    if range is not None and len(range) != 2:
        raise RuntimeError(f"histogram(): range must have 2 numbers, not {len(range)}")
    edges = _edges("histogram", input.detach(), bins, range)
    return histogram_result(
        *facula._C._ops._histogram(input, edges, weight=weight, density=density)
    )


def histogramdd(
    input: Any,
    bins: Any,
    *,
    range: Any = None,
    weight: Any = None,
    density: bool = False,
) -> Any:
    """How many rows of (..., D) fall into each box of a grid.

    >>> fa.histogramdd(fa.tensor([[0., 1.], [1., 0.], [1., 1.]]), bins=[2, 2]).hist
    tensor([[0., 1.],
            [1., 1.]])

    Args:
        input: (..., D) floats.
        bins: one number for all D dims, D numbers of equal intervals, or D vectors of edges.
        range: 2 D floats, the ends of each dim; else those of the input.
        weight: (...), what each row counts.
        density: divide by the sum and the volumes of the boxes.

    Returns:
        `hist` of D dims, and `bin_edges`, a tuple of D vectors.
    """
    if input.dim() < 2:
        raise RuntimeError(f"histogramdd(): input must have 2 dims or more, not {input.dim()}")
    count = input.shape[-1]
    rows = input.detach().reshape(-1, count)
    each = [bins] * count if isinstance(bins, int) else list(bins)
    if len(each) != count:
        raise RuntimeError(f"histogramdd(): bins has {len(each)} entries for rows of {count}")
    if range is not None and len(range) != 2 * count:
        raise RuntimeError(f"histogramdd(): range must have {2 * count} numbers, not {len(range)}")
    edges, place = [], facula.zeros(rows.shape[0], dtype=facula.int64, device=input.device)
    inside = facula.ones(rows.shape[0], dtype=facula.bool, device=input.device)
    for d, wanted in enumerate(each):
        x = rows[:, d].contiguous()
        pair = None if range is None else range[2 * d : 2 * d + 2]
        ends = _edges("histogramdd", x, wanted, pair)
        n = ends.numel() - 1
        at = facula.searchsorted(ends, x, right=True) - 1
        at = facula.where(x == ends[-1], n - 1, at)
        inside = inside & (at >= 0) & (at < n)
        place = place * n + at.clamp(0, n - 1)
        edges.append(ends)
    sizes = [e.numel() - 1 for e in edges]
    counted = input.new_ones(rows.shape[0]) if weight is None else weight.reshape(-1)
    counted = facula.where(inside, counted, 0)
    hist = counted.new_zeros(math.prod(sizes)).scatter_add(0, place, counted).reshape(sizes)
    if density:
        hist = hist / hist.sum()
        for d, ends in enumerate(edges):
            hist = hist / ends.diff().reshape([-1 if k == d else 1 for k, _ in enumerate(sizes)])
    return histogramdd_result(hist, tuple(edges))


tell_all(globals(), __all__)
