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
    convolution: Callable[..., Any], size: Any, other: Any, weight_is_leaf: bool, given: Any
) -> Any:
    grad_output, *how = given
    # A convolution is linear in each: its gradient is the same at any input, or any weight.
    leaf = facula.zeros(tuple(size), dtype=other.dtype, device=other.device)
    with facula.enable_grad():
        leaf.requires_grad_()
        pair = (other, leaf) if weight_is_leaf else (leaf, other)
        output = convolution(*pair, None, *how)
    if output.shape != grad_output.shape:
        raise RuntimeError(
            f"grad_output has the shape {tuple(grad_output.shape)}; an output of these sizes, "
            f"stride, padding and dilation has {tuple(output.shape)}"
        )
    further = facula.is_grad_enabled() and (other.requires_grad or grad_output.requires_grad)
    found = facula.autograd.grad(output, leaf, grad_output, create_graph=further)[0]
    return found if further else found.detach()


def _pair(dims: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The two gradients of the convolution of so many dims."""
    name = f"conv{dims}d"
    convolution = getattr(F, name)

    def of_input(
        input_size: Sequence[int],
        weight: Any,
        grad_output: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        given = (grad_output, stride, padding, dilation, groups)
        return _gradient(convolution, input_size, weight, False, given)

    def of_weight(
        input: Any,
        weight_size: Sequence[int],
        grad_output: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        given = (grad_output, stride, padding, dilation, groups)
        return _gradient(convolution, weight_size, input, True, given)

    for function, what in ((of_input, "input"), (of_weight, "weight")):
        function.__name__ = function.__qualname__ = f"{name}_{what}"
        function.__doc__ = (
            f"The gradient of `{name}` with respect to its {what}, whose shape is `{what}_size`."
        )
    return of_input, of_weight


conv1d_input, conv1d_weight = _pair(1)
conv2d_input, conv2d_weight = _pair(2)
conv3d_input, conv3d_weight = _pair(3)
