"""`make_tensor`: random values in a range, for any dtype."""

from __future__ import annotations

import math
from typing import Any

import facula

__all__ = ["make_tensor"]


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Any:
    """Make a tensor with values uniform in [low, high).

    Args:
        shape: sizes, or one sequence of sizes.
        low, high: defaults are [0, 2) for bool, [0, 10) for uint8, [-9, 10) for other integers,
            [-9, 9) for floating and complex (both parts).
        noncontiguous: every other element of a larger tensor (needs at least two elements).
        exclude_zero: zeros become the smallest positive value (1 for integers).

    Raises:
        ValueError: low >= high, or a bound that is not finite.
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    floating = dtype.is_floating_point or dtype.is_complex
    if dtype == facula.bool:
        first, last = 0, 2
    elif dtype == facula.uint8:
        first, last = 0, 10
    else:
        first, last = -9, (9 if floating else 10)
    low = first if low is None else low
    high = last if high is None else high
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"make_tensor(): low {low} and high {high} must be finite")
    if low >= high:
        raise ValueError(f"make_tensor(): low {low} must be less than high {high}")
    count = math.prod(sizes)
    doubled = noncontiguous and count > 1
    full = (*sizes[:-1], sizes[-1] * 2) if doubled else sizes
    if floating:
        real = {"complex64": facula.float32, "complex128": facula.float64}
        part = real.get(str(dtype).rpartition(".")[2], dtype)

        def draw() -> Any:
            drawn = facula.rand(full, dtype=part, device=device) * (high - low) + low
            # Rounding may reach the end, which is outside.
            return facula.where(drawn < high, drawn, low)

        result = facula.complex(draw(), draw()) if dtype.is_complex else draw()
    else:
        result = facula.randint(math.ceil(low), math.ceil(high), full, device=device).to(dtype)
    if doubled:
        result = result[..., ::2]
    if exclude_zero:
        smallest = facula.finfo(dtype).tiny if floating else 1
        result = result.masked_fill(result == 0, smallest)
        if doubled:
            spread = facula.empty(full, dtype=dtype, device=device)[..., ::2]
            result = spread.copy_(result)
    if memory_format is not None:
        result = result.contiguous(memory_format=memory_format)
    return result.requires_grad_(True) if requires_grad else result
