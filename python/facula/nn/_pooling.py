"""Max pooling that also gives the places of the maxima where asked, and adaptive pooling."""

from __future__ import annotations

from typing import Any

from facula import _C

__all__ = [
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]

_ops = _C._nn_functional


def _max_pool(dims: int) -> Any:
    values, with_indices = f"max_pool{dims}d", f"max_pool{dims}d_with_indices"

    def function(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        operator = getattr(_ops, with_indices if return_indices else values)
        return operator(input, kernel_size, stride, padding, dilation, ceil_mode)

    function.__name__ = function.__qualname__ = values
    function.__doc__ = (
        f"{getattr(_ops, values).__doc__}\n\n"
        "With `return_indices` also the place of each maximum, counted over the spatial dims."
    )
    return function


def _filled(input: Any, sizes: Any, dims: int) -> Any:
    """`sizes` with the input's own in place of None."""
    if sizes is None:
        sizes = (None,) * dims
    if not isinstance(sizes, tuple | list) or None not in sizes:
        return sizes
    if len(sizes) != dims or input.dim() < dims:
        raise ValueError(
            f"output_size is {tuple(sizes)}, expected {dims} sizes for input {tuple(input.shape)}"
        )
    return [input.shape[i - dims] if size is None else size for i, size in enumerate(sizes)]


def _adaptive_avg_pool(dims: int) -> Any:
    operator = getattr(_ops, f"adaptive_avg_pool{dims}d")

    def function(input: Any, output_size: Any) -> Any:
        return operator(input, _filled(input, output_size, dims))

    function.__name__ = function.__qualname__ = operator.__name__
    function.__doc__ = f"{operator.__doc__}\n\nA size of None keeps a dim as it is."
    return function


def _adaptive_max_pool(dims: int) -> Any:
    name = f"adaptive_max_pool{dims}d"

    def function(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        if dims > 1:
            output_size = _filled(input, output_size, dims)
        values, indices = getattr(_ops, f"{name}_with_indices")(input, output_size)
        return (values, indices) if return_indices else values

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Largest values over windows that give `output_size` over the last {dims} dims.\n\n"
        "A size of None keeps a dim as it is. With `return_indices` also their places."
    )
    return function


max_pool1d, max_pool2d, max_pool3d = (_max_pool(n) for n in (1, 2, 3))
adaptive_avg_pool2d, adaptive_avg_pool3d = (_adaptive_avg_pool(n) for n in (2, 3))
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (
    _adaptive_max_pool(n) for n in (1, 2, 3)
)
