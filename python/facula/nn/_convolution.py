"""Convolutions with padding by name: "same" or "valid"."""

from __future__ import annotations

from typing import Any

from facula import _C

__all__ = ["conv1d", "conv2d", "conv3d"]

_ops = _C._nn_functional


def _tuple(value: Any, n: int) -> tuple[int, ...]:
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * n if len(values) == 1 else values


def _named(
    name: str, n: int, input: Any, weight: Any, stride: Any, padding: str, dilation: Any
) -> tuple[Any, tuple[int, ...]]:
    """The input and the symmetric padding that `padding` asks for."""
    if padding == "valid":
        return input, (0,) * n
    if padding != "same":
        raise RuntimeError(f"{name}(): padding is {padding!r}, expected numbers, 'same' or 'valid'")
    if any(s != 1 for s in _tuple(stride, n)):
        raise RuntimeError(f"{name}(): padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for d, k in zip(_tuple(dilation, n), weight.shape[2:], strict=True)]
    if any(t % 2 for t in total):
        # One more after than before, which no operator's symmetric padding can say.
        from facula.nn import functional as F

        input = F.pad(input, [amount for t in reversed(total) for amount in (0, t % 2)])
    return input, tuple(t // 2 for t in total)


def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Cross-correlation of (N, C, L) with (out, C / groups, kernel); see `nn.Conv1d`."""
    if isinstance(padding, str):
        input, padding = _named("conv1d", 1, input, weight, stride, padding, dilation)
    return _ops.conv1d(input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Cross-correlation of (N, C, H, W) with (out, C / groups, kh, kw); see `nn.Conv2d`."""
    if isinstance(padding, str):
        input, padding = _named("conv2d", 2, input, weight, stride, padding, dilation)
    return _ops.conv2d(input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Cross-correlation of (N, C, D, H, W) with (out, C / groups, kd, kh, kw)."""
    if isinstance(padding, str):
        input, padding = _named("conv3d", 3, input, weight, stride, padding, dilation)
    return _ops.conv3d(input, weight, bias, stride, padding, dilation, groups)
