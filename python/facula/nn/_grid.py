"""Sampling of images at points of a grid (Jaderberg et al. 2015, Spatial Transformer Networks)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import facula
from facula import _C

__all__ = ["affine_grid", "grid_sample"]

_MODES = ("bilinear", "nearest", "bicubic")
_PADDING_MODES = ("zeros", "border", "reflection")


def _axis(n: int, align_corners: bool, like: Any) -> Any:
    """Where n pixels lie between -1 and 1: from end to end, or half a pixel within."""
    if n <= 1:
        return facula.zeros(n, dtype=like.dtype, device=like.device)
    points = facula.linspace(-1, 1, n, dtype=like.dtype, device=like.device)
    return points if align_corners else points * ((n - 1) / n)


def affine_grid(theta: Any, size: Sequence[int], align_corners: bool | None = None) -> Any:
    """The grid of points that affine maps make of the pixels of an image.

    Args:
        theta: (N, 2, 3) for images, (N, 3, 4) for volumes; floating.
        size: of the image to be: (N, C, H, W) or (N, C, D, H, W).
        align_corners: -1 and 1 are the middles of the outermost pixels, else their edges.

    Returns a tensor (N, H, W, 2) or (N, D, H, W, 3) for `grid_sample`.

    Raises:
        ValueError: `theta` is not floating, or its shape is not that of `size`.
    """
    if not isinstance(theta, facula.Tensor) or not theta.is_floating_point():
        kind = getattr(theta, "dtype", type(theta).__name__)
        raise ValueError(f"Expected theta to have floating point type, but got {kind}")
    space = len(size) - 2
    if space not in (2, 3):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {tuple(size)}"
        )
    if theta.dim() != 3 or tuple(theta.shape) != (size[0], space, space + 1):
        raise ValueError(
            f"Expected a batch of {space}D affine matrices of shape {size[0]}x{space}x{space + 1} "
            f"for size {tuple(size)}. Got {tuple(theta.shape)}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {tuple(size)}")
    axes = [_axis(n, bool(align_corners), theta) for n in size[2:]]
    points = facula.meshgrid(*axes, indexing="ij")
    base = facula.stack([*reversed(points), facula.ones_like(points[0])], dim=-1)
    grid = base.view(1, -1, space + 1).expand(size[0], -1, -1) @ theta.transpose(1, 2)
    return grid.view(size[0], *size[2:], space)


def _pixels(x: Any, n: int, align_corners: bool) -> Any:
    """Of -1..1, positions in pixels."""
    return (x + 1) / 2 * (n - 1) if align_corners else ((x + 1) * n - 1) / 2


def _within(x: Any, n: int, padding_mode: str, align_corners: bool) -> Any:
    """Positions moved into the image, as the padding says."""
    if padding_mode == "reflection":
        low, span = (0.0, n - 1.0) if align_corners else (-0.5, float(n))
        if span == 0:
            x = facula.zeros_like(x)
        else:
            distance = (x - low).abs()
            rest = distance % span
            even = (distance / span).floor() % 2 == 0
            x = facula.where(even, rest, span - rest) + low
    return x if padding_mode == "zeros" else x.clamp(0, n - 1)


def _taken(image: Any, at: list[Any]) -> Any:
    """Elements of (N, C, pixels) at whole positions (N, points) by axis; 0 outside."""
    sizes = image.shape[2:]
    inside: Any = None
    index: Any = 0
    for n, x in zip(sizes, at, strict=True):
        here = (x >= 0) & (x <= n - 1)
        inside = here if inside is None else inside & here
        index = index * n + facula.where(here, x, 0).to(facula.int64)
    index = facula.where(inside, index, 0)
    flat = image.flatten(2)
    found = flat.gather(2, index.unsqueeze(1).expand(-1, flat.shape[1], -1))
    return facula.where(inside.unsqueeze(1), found, 0)


def _linear(image: Any, at: list[Any]) -> Any:
    lower = [x.floor() for x in at]
    result: Any = None
    for corner in itertools.product((0, 1), repeat=len(at)):
        weight: Any = None
        for x, low, step in zip(at, lower, corner, strict=True):
            share = x - low if step else low + 1 - x
            weight = share if weight is None else weight * share
        places = [low + step for low, step in zip(lower, corner, strict=True)]
        part = _taken(image, places) * weight.unsqueeze(1)
        result = part if result is None else result + part
    return result


def _cubic_weights(t: Any) -> list[Any]:
    """Of the four pixels around."""
    near, far = _C._ops._cubic_near, _C._ops._cubic_far
    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _cubic(image: Any, at: list[Any], padding_mode: str, align_corners: bool) -> Any:
    lower = [x.floor() for x in at]
    weights = [_cubic_weights(x - low) for x, low in zip(at, lower, strict=True)]
    result: Any = None
    for i, j in itertools.product(range(4), repeat=2):
        places = [
            _within(low + step - 1, n, padding_mode, align_corners)
            for low, step, n in zip(lower, (i, j), image.shape[2:], strict=True)
        ]
        part = _taken(image, places) * (weights[0][i] * weights[1][j]).unsqueeze(1)
        result = part if result is None else result + part
    return result


def grid_sample(
    input: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:
    """Values of images at the points of a grid, between pixels by interpolation.

    Args:
        input: (N, C, H, W) or (N, C, D, H, W), floating.
        grid: (N, H_out, W_out, 2) or (N, D_out, H_out, W_out, 3), x before y before z, where the
            image lies from -1 to 1; of the same dtype.
        mode: "bilinear" (of volumes trilinear), "nearest", "bicubic" (of images alone).
        padding_mode: what lies outside: "zeros", the "border" pixels, or the image reflected,
            "reflection".
        align_corners: -1 and 1 are the middles of the outermost pixels, else their edges.

    Returns a tensor (N, C, H_out, W_out) or (N, C, D_out, H_out, W_out).

    Raises:
        ValueError: `mode` or `padding_mode` is another.
        RuntimeError: shapes do not fit.
    """
    if mode not in _MODES:
        raise ValueError(f"grid_sample(): mode is {mode!r}, none of {_MODES}")
    if padding_mode not in _PADDING_MODES:
        raise ValueError(
            f"grid_sample(): padding_mode is {padding_mode!r}, none of {_PADDING_MODES}"
        )
    space = input.dim() - 2
    if space not in (2, 3) or grid.dim() != input.dim() or grid.shape[-1] != space:
        raise RuntimeError(
            f"grid_sampler(): expected input of 4 or 5 dims and a grid of as many with a last "
            f"size of 2 or 3, but got shapes {tuple(input.shape)} and {tuple(grid.shape)}"
        )
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, but got input with "
            f"sizes {tuple(input.shape)} and grid with sizes {tuple(grid.shape)}"
        )
    if input.dtype != grid.dtype:
        raise RuntimeError(
            f"grid_sampler(): expected input and grid to have same dtype, but input has "
            f"{input.dtype} and grid has {grid.dtype}"
        )
    if min(input.shape[2:]) <= 0:
        raise RuntimeError(
            f"grid_sampler(): expected input to have non-empty spatial dimensions, but input has "
            f"sizes {tuple(input.shape)}"
        )
    if mode == "bicubic" and space != 2:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    aligned = bool(align_corners)
    points = grid.flatten(1, -2)
    sizes = input.shape[2:]
    at = [_pixels(points[..., space - 1 - i], n, aligned) for i, n in enumerate(sizes)]
    if mode == "bicubic":
        result = _cubic(input, at, padding_mode, aligned)
    else:
        at = [_within(x, n, padding_mode, aligned) for x, n in zip(at, sizes, strict=True)]
        nearest = mode == "nearest"
        result = _taken(input, [x.round() for x in at]) if nearest else _linear(input, at)
        if nearest and grid.requires_grad:  # its gradient is zero, whatever it is
            zero = facula.zeros((), dtype=grid.dtype, device=grid.device)
            result = result + _C._ops.mul0(zero, grid).sum()
    return result.reshape(*input.shape[:2], *grid.shape[1:-1])
