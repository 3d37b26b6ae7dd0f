"""Functions whose arguments are more than their operator's: `inplace`, or a `dim` left out."""

from __future__ import annotations

import warnings
from typing import Any

import facula
from facula import _C
from facula.autograd._levels import drawn_into

__all__ = [
    "celu",
    "elu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "log_softmax",
    "mish",
    "relu",
    "relu6",
    "rrelu",
    "rrelu_",
    "selu",
    "silu",
    "softmax",
    "softmin",
    "threshold",
]

_ops = _C._nn_functional


def relu(input: Any, inplace: bool = False) -> Any:
    """max(0, x)."""
    return _ops.relu_(input) if inplace else _ops.relu(input)


def relu6(input: Any, inplace: bool = False) -> Any:
    """min(max(0, x), 6)."""
    return _ops.relu6_(input) if inplace else _ops.relu6(input)


def selu(input: Any, inplace: bool = False) -> Any:
    """scale * (max(0, x) + min(0, alpha * (exp(x) - 1))) (Klambauer et al. 2017)."""
    return _ops.selu_(input) if inplace else _ops.selu(input)


def silu(input: Any, inplace: bool = False) -> Any:
    """x * sigmoid(x)."""
    return _ops.silu_(input) if inplace else _ops.silu(input)


def mish(input: Any, inplace: bool = False) -> Any:
    """x * tanh(softplus(x))."""
    return _ops.mish_(input) if inplace else _ops.mish(input)


def hardswish(input: Any, inplace: bool = False) -> Any:
    """x * relu6(x + 3) / 6."""
    return _ops.hardswish_(input) if inplace else _ops.hardswish(input)


def hardsigmoid(input: Any, inplace: bool = False) -> Any:
    """relu6(x + 3) / 6."""
    return _ops.hardsigmoid_(input) if inplace else _ops.hardsigmoid(input)


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x where positive, else alpha * (exp(x) - 1)."""
    return _ops.elu_(input, alpha) if inplace else _ops.elu(input, alpha)


def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    return _ops.celu_(input, alpha) if inplace else _ops.celu(input, alpha)


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """x where positive, else negative_slope * x."""
    if inplace:
        return _ops.leaky_relu_(input, negative_slope)
    return _ops.leaky_relu(input, negative_slope)


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """x limited to [min_val, max_val]."""
    if min_val > max_val:
        raise ValueError(f"hardtanh(): min_val {min_val} is greater than max_val {max_val}")
    if not (input.is_floating_point() or input.is_complex() or input.dtype == facula.bool):
        span = facula.iinfo(input.dtype)  # integers stay integers
        min_val, max_val = (int(max(span.min, min(v, span.max))) for v in (min_val, max_val))
    if inplace:
        return _ops.hardtanh_(input, min_val, max_val)
    return _ops.hardtanh(input, min_val, max_val)


def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """x where x > threshold, else value."""
    if inplace:
        return _ops.threshold_(input, threshold, value)
    return _ops.threshold(input, threshold, value)


def rrelu(
    input: Any,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Any:
    """Leaky ReLU, its slopes from U(lower, upper) in training, else their mean (Xu et al. 2015)."""
    if lower > upper:
        raise ValueError(f"rrelu(): lower {lower} is greater than upper {upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    with facula.no_grad():
        slope = drawn_into(input.shape, input.dtype, input.device).uniform_(lower, upper)
    if not inplace:
        return _C._ops.prelu_elements(input, slope)
    with facula.no_grad():
        above = input > 0
        # In place where `slope` has a row for each of `above`: within vmap it may have none.
        slope = (
            slope.masked_fill(above, 1.0) if _C._level_depth() else slope.masked_fill_(above, 1.0)
        )
    return input.mul_(slope)


def rrelu_(
    input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Any:
    """`rrelu` over its input."""
    return rrelu(input, lower, upper, training, inplace=True)


def _implicit(name: str, dim: int | None, input: Any) -> int:
    if dim is not None:
        return dim
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=3,
    )
    return 0 if input.dim() in (0, 1, 3) else 1


def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """exp(x) / sum of exp(x) along `dim`."""
    return _ops.softmax(input, _implicit("softmax", dim, input), dtype=dtype)


def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """log(softmax(x)) along `dim`."""
    return _ops.log_softmax(input, _implicit("log_softmax", dim, input), dtype=dtype)


def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """softmax(-x) along `dim`."""
    return _ops.softmin(input, _implicit("softmin", dim, input), dtype=dtype)
