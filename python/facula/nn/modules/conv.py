"""Convolutions and their transposes, in one to three dims."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import facula
from facula.nn import functional as F
from facula.nn import init
from facula.nn._pooling import ntuple
from facula.nn.modules.module import Module
from facula.nn.parameter import Parameter

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What all convolutions share: checks, parameters, and printing."""

    _space: int
    _function: Callable[..., Any]
    _transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        output_padding: Any,
        dilation: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        n, name = self._space, type(self).__name__
        if groups <= 0:
            raise ValueError(f"{name}: groups must be a positive integer, got {groups}")
        for what, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups:
                raise ValueError(f"{name}: {what} {channels} must be divisible by groups {groups}")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(
                    f"{name}: padding is {padding!r}, expected 'same', 'valid' or numbers"
                )
            if padding == "same" and any(s != 1 for s in ntuple(stride, n)):
                raise ValueError(
                    f"{name}: padding='same' is not supported for strided convolutions, stride is "
                    f"{stride}"
                )
        if padding_mode not in _PADDING_MODES:
            raise ValueError(
                f"{name}: padding_mode is {padding_mode!r}, expected one of {_PADDING_MODES}"
            )
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride = ntuple(kernel_size, n), ntuple(stride, n)
        self.padding = padding if isinstance(padding, str) else ntuple(padding, n)
        self.output_padding, self.dilation = ntuple(output_padding, n), ntuple(dilation, n)
        self.transposed = self._transposed
        self.groups, self.padding_mode = groups, padding_mode
        self._reversed_padding_repeated_twice = self._margins()
        if self._transposed:
            shape = (in_channels, out_channels // groups, *self.kernel_size)
        else:
            shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(facula.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(facula.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _margins(self) -> tuple[int, ...]:
        """Both margins of each dim, the last first, as `F.pad` takes them."""
        if self.padding == "valid":
            return (0, 0) * self._space
        if self.padding == "same":
            whole = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            return tuple(part for t in reversed(whole) for part in (t // 2, t - t // 2))
        return tuple(p for p in reversed(self.padding) for _ in range(2))

    def reset_parameters(self) -> None:
        """Draw the parameters anew, from U(-k, k) with k = 1 / sqrt(fan in)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}"
        if self.padding != (0,) * self._space:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self._space:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * self._space:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class _Conv(_ConvNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            0,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _pads(self) -> list[int]:
        """Amounts in the order of `F.pad`: the last dim first."""
        if self.padding == "valid":
            return [0] * (2 * self._space)
        pads = []
        for i in reversed(range(self._space)):
            if self.padding == "same":
                total = self.dilation[i] * (self.kernel_size[i] - 1)
                pads += [total // 2, total - total // 2]
            else:
                pads += [self.padding[i]] * 2
        return pads

    def forward(self, input: Any) -> Any:
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._pads(), mode=self.padding_mode)
            padding = (0,) * self._space
        return self._function(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )


class Conv1d(_Conv):
    """Cross-correlation of (N, C, L) or (C, L) with weight (out, in / groups, kernel).

    Output length floor((L + 2 padding - dilation (kernel - 1) - 1) / stride) + 1.
    padding may be "same" or "valid"; padding_mode "zeros", "reflect", "replicate", "circular".
    """

    _function, _space = staticmethod(F.conv1d), 1


class Conv2d(_Conv):
    """Cross-correlation of (N, C, H, W) or (C, H, W) with weight (out, in / groups, kh, kw).

    Each output size is floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1.
    padding may be "same" or "valid"; padding_mode "zeros", "reflect", "replicate", "circular".
    """

    _function, _space = staticmethod(F.conv2d), 2


class Conv3d(_Conv):
    """Cross-correlation of (N, C, D, H, W) or (C, D, H, W)."""

    _function, _space = staticmethod(F.conv3d), 3


class _ConvTransposeNd(_ConvNd):
    _transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(
                f"{type(self).__name__}: padding_mode is {padding_mode!r}, only 'zeros' is possible"
            )
        if isinstance(padding, str):
            raise TypeError(f"{type(self).__name__}: padding must be numbers, got {padding!r}")
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(self, input: Any, output_size: Any) -> tuple[int, ...]:
        """The padding that gives `output_size`, which several input sizes may map to."""
        if output_size is None:
            return self.output_padding
        n = self._space
        wanted = list(output_size)
        if len(wanted) == n + 2 or len(wanted) == input.dim():
            wanted = wanted[-n:]
        if len(wanted) != n:
            raise ValueError(
                f"{type(self).__name__}: output_size has {len(wanted)} entries, expected {n}"
            )
        result = []
        for i in range(n):
            size = input.shape[input.dim() - n + i]
            low = (size - 1) * self.stride[i] - 2 * self.padding[i]
            low += self.dilation[i] * (self.kernel_size[i] - 1) + 1
            high = low + self.stride[i] - 1
            if not low <= wanted[i] <= high:
                raise ValueError(
                    f"{type(self).__name__}: output_size is {tuple(wanted)}, but dim {i} can only "
                    f"be from {low} to {high} for input {tuple(input.shape)}"
                )
            result.append(wanted[i] - low)
        return tuple(result)

    def forward(self, input: Any, output_size: Any = None) -> Any:
        return self._function(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self._output_padding(input, output_size),
            self.groups,
            self.dilation,
        )


class ConvTranspose1d(_ConvTransposeNd):
    """Gradient of Conv1d with respect to its input; weight (in, out / groups, kernel).

    Output length (L - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1.
    """

    _function, _space = staticmethod(F.conv_transpose1d), 1


class ConvTranspose2d(_ConvTransposeNd):
    """Gradient of Conv2d with respect to its input; weight (in, out / groups, kh, kw)."""

    _function, _space = staticmethod(F.conv_transpose2d), 2


class ConvTranspose3d(_ConvTransposeNd):
    """Gradient of Conv3d with respect to its input."""

    _function, _space = staticmethod(F.conv_transpose3d), 3
