"""Pooling over windows, and to a given output size."""

from __future__ import annotations

from typing import Any

from facula.nn import functional as F
from facula.nn.modules.module import Module

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "LPPool1d",
    "LPPool2d",
    "MaxPool1d",
    "MaxPool2d",
]


class _MaxPool(Module):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def _pool(self, function: Any, input: Any) -> Any:
        # Given only when asked for: an operator that returns the values alone has no such argument.
        extra = {"return_indices": True} if self.return_indices else {}
        return function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            **extra,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """Largest value in each window of (N, C, L) or (C, L); padding counts as -inf."""

    def forward(self, input: Any) -> Any:
        return self._pool(F.max_pool1d, input)


class MaxPool2d(_MaxPool):
    """Largest value in each window of (N, C, H, W) or (C, H, W); padding counts as -inf."""

    def forward(self, input: Any) -> Any:
        return self._pool(F.max_pool2d, input)


class AvgPool1d(Module):
    """Mean of each window of (N, C, L) or (C, L)."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(stride if stride is not None else kernel_size)
        self.padding = _single(padding)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Any) -> Any:
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


def _single(value: Any) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)


class AvgPool2d(Module):
    """Mean of each window of (N, C, H, W) or (C, H, W); divisor_override replaces the count."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Any) -> Any:
        return F.avg_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _LPPool(Module):
    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type, self.kernel_size = norm_type, kernel_size
        self.stride, self.ceil_mode = stride, ceil_mode

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """(sum of x^p)^(1/p) over each window of (N, C, L) or (C, L)."""

    def forward(self, input: Any) -> Any:
        return F.lp_pool1d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class LPPool2d(_LPPool):
    """(sum of x^p)^(1/p) over each window of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Any) -> Any:
        return F.lp_pool2d(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )


class _AdaptiveAvg(Module):
    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvg):
    """Mean over windows that give `output_size` values: (N, C, L) to (N, C, output_size)."""

    def forward(self, input: Any) -> Any:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvg):
    """Mean over windows that give `output_size`; None keeps a dim as it is."""

    def forward(self, input: Any) -> Any:
        return F.adaptive_avg_pool2d(input, _filled(self.output_size, input))


class _AdaptiveMax(Module):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMax):
    """Largest value in windows that give `output_size` values."""

    def forward(self, input: Any) -> Any:
        extra = {"return_indices": True} if self.return_indices else {}
        return F.adaptive_max_pool1d(input, self.output_size, **extra)


class AdaptiveMaxPool2d(_AdaptiveMax):
    """Largest value in windows that give `output_size`; None keeps a dim as it is."""

    def forward(self, input: Any) -> Any:
        extra = {"return_indices": True} if self.return_indices else {}
        return F.adaptive_max_pool2d(input, _filled(self.output_size, input), **extra)


def _filled(size: Any, input: Any) -> Any:
    if isinstance(size, int) or size is None:
        size = (size, size)
    return [n if s is None else s for s, n in zip(size, input.shape[-2:], strict=True)]
