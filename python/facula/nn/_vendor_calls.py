"""Functions that name a vendor's library. On "cuda" they are the general ones, which choose cuDNN
themselves; elsewhere they raise, as there is no such library."""

from __future__ import annotations

from typing import Any

import facula
from facula._errors import tell_all

__all__ = [
    "cudnn_affine_grid_generator",
    "cudnn_batch_norm",
    "cudnn_convolution",
    "cudnn_convolution_add_relu",
    "cudnn_convolution_relu",
    "cudnn_convolution_transpose",
    "cudnn_grid_sampler",
    "cudnn_is_acceptable",
    "miopen_batch_norm",
    "miopen_convolution",
    "miopen_convolution_add_relu",
    "miopen_convolution_relu",
    "miopen_convolution_transpose",
    "miopen_ctc_loss",
    "miopen_depthwise_convolution",
    "miopen_rnn",
]


def _on_cuda(t: Any, name: str, instead: str) -> None:
    if t.device.type != "cuda":
        raise RuntimeError(
            f"{name}(): input is on '{t.device.type}', and cuDNN works on 'cuda'; {instead} works "
            f"on every device"
        )


def cudnn_is_acceptable(tensor: Any) -> bool:
    """May cuDNN be used for the tensor: is it on a GPU, of a floating-point dtype, not empty?"""
    return bool(
        tensor.device.type == "cuda"
        and tensor.dtype in (facula.float16, facula.bfloat16, facula.float32, facula.float64)
        and tensor.numel()
    )


def _convolution(name: str, transposed: bool) -> Any:
    def convolution(
        self: Any,
        weight: Any,
        padding: Any,
        *rest: Any,
        **named: Any,
    ) -> Any:
        order = ["output_padding"] if transposed else []
        order += ["stride", "dilation", "groups", "benchmark", "deterministic", "allow_tf32"]
        given = {**dict(zip(order, rest, strict=False)), **named}
        _on_cuda(self, name, "convolution")
        return facula.convolution(
            self,
            weight,
            None,
            given["stride"],
            padding,
            given["dilation"],
            transposed,
            given.get("output_padding", [0] * len(padding)),
            given["groups"],
        )

    convolution.__name__ = convolution.__qualname__ = name
    convolution.__doc__ = f"`facula.convolution` on a GPU{', transposed' if transposed else ''}."
    return convolution


cudnn_convolution = _convolution("cudnn_convolution", False)
cudnn_convolution_transpose = _convolution("cudnn_convolution_transpose", True)


def cudnn_convolution_relu(
    self: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """`relu` of a convolution on a GPU."""
    _on_cuda(self, "cudnn_convolution_relu", "relu of convolution")
    zeros = [0] * len(padding)
    return facula.convolution(
        self, weight, bias, stride, padding, dilation, False, zeros, groups
    ).relu()


def cudnn_convolution_add_relu(
    self: Any,
    weight: Any,
    z: Any,
    alpha: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    """`relu` of a convolution plus alpha * z on a GPU."""
    _on_cuda(self, "cudnn_convolution_add_relu", "relu of convolution + alpha * z")
    zeros = [0] * len(padding)
    out = facula.convolution(self, weight, bias, stride, padding, dilation, False, zeros, groups)
    return (out + z * (1 if alpha is None else alpha)).relu()


def cudnn_batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    exponential_average_factor: float,
    epsilon: float,
) -> tuple[Any, Any, Any, Any]:
    """`native_batch_norm` on a GPU, and a place that backward would reserve, which is empty."""
    _on_cuda(input, "cudnn_batch_norm", "native_batch_norm")
    out = facula.native_batch_norm(
        input,
        weight,
        bias,
        running_mean,
        running_var,
        training,
        exponential_average_factor,
        epsilon,
    )
    return (*out, facula.empty(0, dtype=facula.uint8, device=input.device))


def cudnn_grid_sampler(self: Any, grid: Any) -> Any:
    """`grid_sampler` on a GPU: bilinear, zeros outside, corners aligned."""
    _on_cuda(self, "cudnn_grid_sampler", "grid_sampler")
    return facula.grid_sampler(self, grid, 0, 0, True)


def cudnn_affine_grid_generator(theta: Any, N: int, C: int, H: int, W: int) -> Any:
    """`affine_grid_generator` on a GPU, corners aligned."""
    _on_cuda(theta, "cudnn_affine_grid_generator", "affine_grid_generator")
    return facula.affine_grid_generator(theta, [N, C, H, W], True)


def _miopen(name: str, instead: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"{name}(): facula has no MIOpen, AMD's library; {instead} works on every device"
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Raises RuntimeError: facula has no MIOpen; see {instead}."
    return function


miopen_batch_norm = _miopen("miopen_batch_norm", "native_batch_norm")
miopen_convolution = _miopen("miopen_convolution", "convolution")
miopen_convolution_add_relu = _miopen("miopen_convolution_add_relu", "relu of convolution + z")
miopen_convolution_relu = _miopen("miopen_convolution_relu", "relu of convolution")
miopen_convolution_transpose = _miopen("miopen_convolution_transpose", "convolution")
miopen_ctc_loss = _miopen("miopen_ctc_loss", "ctc_loss")
miopen_depthwise_convolution = _miopen("miopen_depthwise_convolution", "convolution")
miopen_rnn = _miopen("miopen_rnn", "nn.RNN")


tell_all(globals(), __all__)
