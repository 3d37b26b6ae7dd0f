"""Change the spatial size: `pad` in its modes, and `interpolate`."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import facula
from facula import _C
from facula.amp.autocast_mode import in_float32
from facula.nn._pooling import ntuple
from facula.nn._sizes import check_size, empty_result

__all__ = ["interpolate", "pad", "upsample", "upsample_bilinear", "upsample_nearest"]


def _whole(number: Any) -> int:
    """An int; one that a trace follows stays itself."""
    followed = isinstance(number, int) and not isinstance(number, bool)
    return number if followed else operator.index(number)


def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """Pad the last dims of `input`.

    Args:
        input: Tensor of any shape.
        pad: (before, after) for the last dim, then for the one before it, ...; negative crops.
        mode: "constant", "reflect" (without repeating the edge), "replicate" or "circular".
        value: fill of the constant mode, 0 by default.

    Raises:
        ValueError: unknown mode, an odd number of amounts, or an amount too large for the mode.
    """
    amounts = [_whole(p) for p in pad]
    if any(abs(a) > 1 << 62 for a in amounts):
        raise ValueError(f"pad(): amounts must be from -2 ** 62 to 2 ** 62, got {tuple(pad)}")
    if len(amounts) % 2 or len(amounts) > 2 * input.dim():
        raise ValueError(
            f"pad(): got {len(amounts)} amounts for input {tuple(input.shape)}, expected pairs for "
            f"at most {input.dim()} dims"
        )
    if mode == "constant":
        return facula.constant_pad_nd(input, amounts, 0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(
            f"pad(): mode is {mode!r}, expected 'constant', 'reflect', 'replicate' or 'circular'"
        )
    if value is not None and value != 0:
        raise ValueError(f"pad(): mode {mode!r} does not take a value, got {value}")
    result = input
    for i in range(len(amounts) // 2):
        before, after = amounts[2 * i], amounts[2 * i + 1]
        if before or after:
            result = _by_index(result, result.dim() - 1 - i, before, after, mode)
    return result


@in_float32("CPU")
def _by_index(input: Any, dim: int, before: int, after: int, mode: str) -> Any:
    if mode == "circular" and min(before, after) < 0:  # what is left after cropping goes round
        cut = max(0, -before), max(0, -after)
        input = input.narrow(dim, cut[0], max(0, input.shape[dim] - sum(cut)))
        before, after = max(0, before), max(0, after)
    size = input.shape[dim]
    limit = {"reflect": size - 1, "circular": size, "replicate": math.inf}[mode]
    if before > limit or after > limit or (size == 0 and (before > 0 or after > 0)):
        raise RuntimeError(
            f"pad(): ({before}, {after}) at dim {dim} of input {tuple(input.shape)}: "
            f"mode {mode!r} allows at most {max(limit, 0)}"
        )
    if size + before + after < 0:
        raise RuntimeError(
            f"pad(): dim {dim} of size {size} with ({before}, {after}) has a negative size"
        )
    shape = list(input.shape)
    shape[dim] = size + before + after
    check_size("pad", shape, input)
    if 0 in shape:
        return empty_result(input, shape)
    index = facula.arange(-before, size + after, device=input.device)
    if mode == "replicate":
        index = index.clamp(0, size - 1)
    elif mode == "circular":
        index = index.remainder(size)
    else:
        index = (size - 1) - ((size - 1) - index.abs()).abs()
    return input.index_select(dim, index)


def upsample(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:
    """Older name of `interpolate`."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """Older name of `interpolate` in the mode "nearest"."""
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """Older name of `interpolate` in the mode "bilinear" with align_corners."""
    return interpolate(input, size, scale_factor, "bilinear", align_corners=True)


@in_float32("device")
def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """Resample (N, C, L), (N, C, H, W) or (N, C, D, H, W) to another spatial size.

    Args:
        size: output size, a number or one for each spatial dim; or
        scale_factor: factor, likewise; the size is floor(input size * factor).
        mode: "nearest", "nearest-exact", "linear" (1 spatial dim), "bilinear" (2), "trilinear"
            (3), "bicubic" (2; Keys 1981 with a = -0.75), "lanczos" (2, with antialias) or "area"
            (adaptive average).
        align_corners: for the linear and cubic modes: whether corner samples' centres meet.
        recompute_scale_factor: use the ratio of the sizes, not the given factor.
        antialias: for "bilinear", "bicubic" (with a = -0.5) and "lanczos" in 2 spatial dims: where
            the result is smaller the kernel is as much wider, so that every pixel counts.

    In the smooth modes uint8 is resampled in float32 and rounded after each dim; other integers
    are refused.
    """
    space = input.dim() - 2
    if space not in (1, 2, 3):
        raise NotImplementedError(
            f"interpolate(): input is {tuple(input.shape)}, expected 3, 4 or 5 dims"
        )
    wanted = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2, "lanczos": 2}.get(mode)
    if antialias and (mode not in _FILTERS or space != 2):
        raise ValueError(
            f"interpolate(): antialias is for the modes 'bilinear', 'bicubic' and 'lanczos' in 2 "
            f"spatial dims, not for {mode!r} in {space}"
        )
    if mode == "lanczos" and (not antialias or align_corners):
        raise ValueError(
            "interpolate(): mode 'lanczos' needs antialias=True, without align_corners"
        )
    if wanted is None and mode not in ("nearest", "nearest-exact", "area"):
        raise NotImplementedError(
            f"interpolate(): mode is {mode!r}, expected 'nearest', 'nearest-exact', 'linear', "
            "'bilinear', 'trilinear', 'bicubic', 'lanczos' or 'area'"
        )
    if wanted is not None and wanted != space:
        raise NotImplementedError(
            f"interpolate(): mode {mode!r} needs {wanted} spatial dims, input is "
            f"{tuple(input.shape)}"
        )
    if wanted is None and align_corners is not None:
        raise ValueError(f"interpolate(): mode {mode!r} does not take align_corners")
    sizes, scales = _sizes(input, size, scale_factor, space, bool(recompute_scale_factor))
    if mode == "area":
        return getattr(_C._nn_functional, f"adaptive_avg_pool{space}d")(input, sizes)
    shape = [*input.shape[:2], *sizes]
    check_size("interpolate", shape, input)
    if 0 in shape:
        return empty_result(input, shape)
    result = input
    if wanted is not None and not (input.is_floating_point() or input.is_complex()):
        if input.dtype != facula.uint8:
            raise NotImplementedError(
                f"interpolate(): mode {mode!r} is not implemented for {input.dtype}; convert it to "
                "a floating-point dtype"
            )
        result = input.to(facula.float32)
    # What shrinks first: nothing between is larger than both ends. Bytes are bytes between the dims
    # too, of which the last comes first, as image programs have it.
    order = sorted(range(space), key=lambda i: sizes[i] > input.shape[2 + i])
    in_bytes = result.dtype != input.dtype
    for i in reversed(range(space)) if in_bytes else order:
        length = input.shape[2 + i]
        # A factor that leaves a size as it is, or in two dims doubles it, counts as exact; not in
        # the modes "bicubic" and "nearest-exact".
        exact = sizes[i] == length and mode.endswith("linear")
        exact |= sizes[i] in (length, 2 * length) and mode == "nearest" and space == 2
        scale = None if exact else scales[i]
        if antialias:
            result = _filtered(result, 2 + i, sizes[i], scale, mode, bool(align_corners))
        else:
            result = _resample(result, 2 + i, sizes[i], scale, mode, bool(align_corners))
        if in_bytes:
            result = result.round().clamp(0, 255)
    return result.to(input.dtype)


def _sizes(
    input: Any, size: Any, scale_factor: Any, space: int, recompute: bool
) -> tuple[list[int], list[float | None]]:
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate(): exactly one of size and scale_factor must be given")
    given = ntuple(scale_factor if size is None else size, space)
    if len(given) != space:
        what = "scale_factor" if size is None else "size"
        raise ValueError(
            f"interpolate(): {what} is {given}, input {tuple(input.shape)} has {space} spatial dims"
        )
    scales: list[float | None] = [None] * space
    if size is not None:
        sizes = [_whole(n) if isinstance(n, int) else int(n) for n in given]
    else:
        if not all(0 < float(f) < math.inf for f in given):
            raise ValueError(
                f"interpolate(): scale_factor is {given}, expected positive finite numbers"
            )
        wide = [n * float(f) for n, f in zip(input.shape[2:], given, strict=True)]
        sizes = [math.floor(min(n, 2.0**62)) for n in wide]  # see check_size
        if not recompute:
            scales = [float(f) for f in given]
    if min(sizes) <= 0 or 0 in input.shape[2:]:
        raise RuntimeError(
            f"interpolate(): input {tuple(input.shape)} to {tuple(sizes)}: sizes must be positive"
        )
    return sizes, scales


def _resample(input: Any, dim: int, size: int, factor: float | None, mode: str, align: bool) -> Any:
    """Resample one dim: gather source rows and, for the smooth modes, weight them."""
    length = input.shape[dim]
    real = input.dtype if input.dtype == facula.float64 else facula.float32
    out = facula.arange(size, dtype=real, device=input.device)
    step = 1.0 / factor if factor else length / size
    if mode.startswith("nearest"):
        shift = 0.5 if mode == "nearest-exact" else 0.0
        index = ((out + shift) * step).floor().to(facula.int64).clamp_max(length - 1)
        return input.index_select(dim, index)
    if align:
        place = out * ((length - 1) / (size - 1) if size > 1 else 0.0)
    else:
        place = (out + 0.5) * step - 0.5
        if mode != "bicubic":
            place = place.clamp_min(0.0)
    low = place.floor()
    t = place - low
    shape = [1] * input.dim()
    shape[dim] = size
    if mode == "bicubic":
        taps = [(k, w) for k, w in zip((-1, 0, 1, 2), _keys(t), strict=True)]
    else:
        taps = [(0, 1 - t), (1, t)]
    base = low.to(facula.int64)
    result = None
    for offset, weight in taps:
        index = (base + offset).clamp(0, length - 1)
        term = input.index_select(dim, index) * weight.to(input.dtype).reshape(shape)
        result = term if result is None else result + term
    return result


def _filtered(input: Any, dim: int, size: int, factor: float | None, mode: str, align: bool) -> Any:
    """Resample one dim with a kernel that is as wide as a pixel of the larger side.

    The kernel's centre is that of the pixel, and what lies beyond the edge does not count.
    """
    length = input.shape[dim]
    if align:
        step = (length - 1) / (size - 1) if size > 1 else 0.0
    else:
        step = 1.0 / factor if factor else length / size
    kernel, reach = _FILTERS[mode]
    wide = max(step, 1.0)
    real = input.dtype if input.dtype == facula.float64 else facula.float32
    centre = (facula.arange(size, dtype=facula.float64, device="cpu") + 0.5) * step
    first = (centre - reach * wide + 0.5).trunc().clamp_min(0)
    last = (centre + reach * wide + 0.5).trunc().clamp_max(length)
    taps = int((last - first).max())
    places = first.unsqueeze(1) + facula.arange(taps, dtype=facula.float64)
    weights = kernel((places - centre.unsqueeze(1) + 0.5) / wide)
    weights = facula.where(places < last.unsqueeze(1), weights, 0.0)
    weights = (weights / weights.sum(1, keepdim=True)).to(input.device, real)
    index = places.to(facula.int64).clamp_max(length - 1).to(input.device)
    shape = [1] * input.dim()
    shape[dim] = size
    result = run = None
    for k in range(taps):  # in runs, as one long sum would lose digits
        weight = weights[:, k].to(input.dtype).reshape(shape)
        term = input.index_select(dim, index[:, k]) * weight
        run = term if run is None else run + term
        if k % 64 == 63 or k == taps - 1:
            result = run if result is None else result + run
            run = None
    return result


def _triangle(x: Any) -> Any:
    return (1 - x.abs()).clamp_min(0)


def _cubic(x: Any) -> Any:
    """The kernel of cubic convolution with a = -0.5, as image programs have it."""
    x = x.abs()
    near, far = (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
    return facula.where(x < 1, near, facula.where(x < 2, far, 0.0))


def _lanczos(x: Any) -> Any:
    return facula.where(x.abs() < 3, facula.sinc(x) * facula.sinc(x / 3), 0.0)


# Kernels of antialiasing, with how far they reach.
_FILTERS = {"bilinear": (_triangle, 1.0), "bicubic": (_cubic, 2.0), "lanczos": (_lanczos, 3.0)}


def _keys(t: Any, a: float = -0.75) -> list[Any]:
    """Weights of the four neighbours in cubic convolution (Keys 1981)."""

    def near(x: Any) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Any) -> Any:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]
