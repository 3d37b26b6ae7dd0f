"""Gradients of convolutions by themselves: of the input from the weight, and the reverse.

They are differentiable in turn, with respect to the weight (or input) and `grad_output`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import facula
from facula.nn import functional as F

__all__ = [
    "conv1d_input",
    "conv1d_weight",
    "conv2d_input",
    "conv2d_weight",
    "conv3d_input",
    "conv3d_weight",
]


def _gradient(
    convolution: Callable[..., Any], leaf: Any, other: Any, weight_is_leaf: bool, given: Any
) -> Any:
    grad_output, *how = given
    with facula.enable_grad():
        leaf = leaf.requires_grad_()
        pair = (other, leaf) if weight_is_leaf else (leaf, other)
        output = convolution(*pair, None, *how)
    if output.shape != grad_output.shape:
        raise RuntimeError(
            f"grad_output has the shape {tuple(grad_output.shape)}; an output of these sizes, "
            f"stride, padding and dilation has {tuple(output.shape)}"
        )
    # The convolution was linear in the leaf, whose own value does not count any more.
    further = facula.is_grad_enabled() and (other.requires_grad or grad_output.requires_grad)
    found = facula.autograd.grad(output, leaf, grad_output, create_graph=further)[0]
    return found if further else found.detach()


def _of_input(
    convolution: Callable[..., Any], size: Sequence[int], weight: Any, *given: Any
) -> Any:
    # A convolution is linear: its gradient is the same at any input.
    at = facula.zeros(tuple(size), dtype=weight.dtype, device=weight.device)
    return _gradient(convolution, at, weight, False, given)


def _of_weight(
    convolution: Callable[..., Any], input: Any, size: Sequence[int], *given: Any
) -> Any:
    at = facula.zeros(tuple(size), dtype=input.dtype, device=input.device)
    return _gradient(convolution, at, input, True, given)


def conv1d_input(
    input_size: Sequence[int],
    weight: Any,
    grad_output: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """The gradient of `conv1d` with respect to its input, whose shape is `input_size`."""
    return _of_input(F.conv1d, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(
    input: Any,
    weight_size: Sequence[int],
    grad_output: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """The gradient of `conv1d` with respect to its weight, whose shape is `weight_size`."""
    return _of_weight(F.conv1d, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Sequence[int],
    weight: Any,
    grad_output: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """The gradient of `conv2d` with respect to its input, whose shape is `input_size`."""
    return _of_input(F.conv2d, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(
    input: Any,
    weight_size: Sequence[int],
    grad_output: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """The gradient of `conv2d` with respect to its weight, whose shape is `weight_size`."""
    return _of_weight(F.conv2d, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Sequence[int],
    weight: Any,
    grad_output: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """The gradient of `conv3d` with respect to its input, whose shape is `input_size`."""
    return _of_input(F.conv3d, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(
    input: Any,
    weight_size: Sequence[int],
    grad_output: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """The gradient of `conv3d` with respect to its weight, whose shape is `weight_size`."""
    return _of_weight(F.conv3d, input, weight_size, grad_output, stride, padding, dilation, groups)
