"""Pooling that takes more than its operator does, its inverse, and pooling by the p-norm."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import facula
from facula import _C
from facula.amp.autocast_mode import in_float32
from facula.nn._sizes import check_size

__all__ = [
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]

_ops = _C._nn_functional


def ntuple(value: Any, n: int) -> tuple[Any, ...]:
    """One value a dim: `value` itself as a tuple if it is iterable, else repeated `n` times."""
    return tuple(value) if isinstance(value, Iterable) else (value,) * n


def _named(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _max_pool(dims: int) -> Callable[..., Any]:
    name = f"max_pool{dims}d"
    plain, indexed = getattr(_ops, name), getattr(_ops, f"{name}_with_indices")

    def function(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        operator = indexed if return_indices else plain
        return operator(input, kernel_size, stride, padding, dilation, ceil_mode)

    return _named(
        function,
        name,
        f"{plain.__doc__}\n\n"
        "With `return_indices` also the place of each maximum, counted over the spatial dims.",
    )


def _output_size(name: str, input: Any, size: Any, dims: int) -> list[int]:
    """One size a dim; None keeps a dim as it is."""
    sizes = (size,) * dims if size is None or isinstance(size, int) else tuple(size)
    if len(sizes) != dims:
        raise ValueError(f"{name}(): output_size is {tuple(sizes)}, expected {dims} sizes")
    if None in sizes and input.dim() < dims:
        raise ValueError(f"{name}(): input is {tuple(input.shape)}, expected at least {dims} dims")
    return [input.shape[i - dims] if s is None else s for i, s in enumerate(sizes)]


def _adaptive_avg_pool(dims: int) -> Callable[..., Any]:
    name = f"adaptive_avg_pool{dims}d"
    operator = getattr(_ops, name)

    def function(input: Any, output_size: Any) -> Any:
        return operator(input, _output_size(name, input, output_size, dims))

    return _named(function, name, f"{operator.__doc__}\n\nA size of None keeps a dim as it is.")


def _adaptive_max_pool(dims: int) -> Callable[..., Any]:
    name = f"adaptive_max_pool{dims}d"
    operator = getattr(_ops, f"{name}_with_indices")

    def function(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        values, indices = operator(input, _output_size(name, input, output_size, dims))
        return (values, indices) if return_indices else values

    return _named(
        function,
        name,
        f"Largest values over windows that give `output_size` over the last {dims} dims.\n\n"
        "A size of None keeps a dim as it is. With `return_indices` also their places.",
    )


def _max_unpool(dims: int) -> Callable[..., Any]:
    name = f"max_unpool{dims}d"

    @in_float32("CPU")
    def function(
        input: Any,
        indices: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Any = None,
    ) -> Any:
        kernel, margin = ntuple(kernel_size, dims), ntuple(padding, dims)
        step = kernel if stride is None else ntuple(stride, dims)
        if min(kernel) < 1 or min(step) < 1 or min(margin) < 0:
            raise ValueError(
                f"{name}(): kernel_size {tuple(kernel)} and stride {tuple(step)} must be at least "
                f"1, padding {tuple(margin)} at least 0"
            )
        lead = tuple(input.shape[: input.dim() - dims])
        if input.dim() not in (dims + 1, dims + 2) or indices.shape != input.shape:
            raise ValueError(
                f"{name}(): input is {tuple(input.shape)} and indices {tuple(indices.shape)}, "
                f"expected one shape, (N, C, ...) or (C, ...) with {dims} dims after C"
            )
        sizes = [
            (n - 1) * s - 2 * p + k
            for n, s, p, k in zip(input.shape[-dims:], step, margin, kernel, strict=True)
        ]
        if output_size is not None:
            wanted = list(output_size)[-dims:]
            near = [abs(w - n) < s for w, n, s in zip(wanted, sizes, step, strict=True)]
            if not all(near):
                raise ValueError(
                    f"{name}(): output_size is {tuple(output_size)}; with these windows each size "
                    f"is less than its stride {tuple(step)} away from {tuple(sizes)}"
                )
            sizes = wanted
        check_size(name, [*lead, *sizes], input)
        flat = facula.zeros(*lead, math.prod(sizes), dtype=input.dtype, device=input.device)
        inner = math.prod(input.shape[-dims:])
        places, values = indices.reshape(*lead, inner), input.reshape(*lead, inner)
        return flat.scatter(-1, places, values).reshape(*lead, *sizes)

    return _named(
        function,
        name,
        f"Undo `max_pool{dims}d`: values at the maxima's places `indices`, zeros elsewhere.\n\n"
        "`output_size` chooses among the input sizes that give the same pooled size.",
    )


def _power_scale(x: Any, p: float) -> Any:
    """1, or the largest |x| where its power could leave the range."""
    if x.numel() == 0 or not x.is_floating_point():
        return 1.0
    top = x.detach().abs().amax()
    far = facula.finfo(x.dtype).max ** (0.5 / max(abs(p), 1.0))
    outside = facula.logical_or(top > far, top < 1 / far)
    outside = facula.logical_and(outside, facula.logical_and(top > 0, facula.isfinite(top)))
    return facula.where(outside, top, facula.ones_like(top))


def _lp_pool(dims: int) -> Callable[..., Any]:
    name = f"lp_pool{dims}d"
    average = getattr(_ops, f"avg_pool{dims}d")

    def function(
        input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> Any:
        if norm_type == 0:
            raise ValueError(f"{name}(): norm_type must not be 0")
        scale = _power_scale(input, float(norm_type))
        mean = average((input / scale) ** norm_type, kernel_size, stride, 0, ceil_mode)
        # The same number, but for a gradient of zero where the sum is zero and its root has none.
        total = mean.sign() * mean.abs().relu() * float(math.prod(ntuple(kernel_size, dims)))
        return total ** (1.0 / norm_type) * scale

    return _named(function, name, "(sum of x^p over each window)^(1/p), p being `norm_type`.")


max_pool1d, max_pool2d, max_pool3d = (_max_pool(n) for n in (1, 2, 3))
adaptive_avg_pool2d, adaptive_avg_pool3d = (_adaptive_avg_pool(n) for n in (2, 3))
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (
    _adaptive_max_pool(n) for n in (1, 2, 3)
)
max_unpool1d, max_unpool2d, max_unpool3d = (_max_unpool(n) for n in (1, 2, 3))
lp_pool1d, lp_pool2d, lp_pool3d = (_lp_pool(n) for n in (1, 2, 3))
