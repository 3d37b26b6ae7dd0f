"""Batch normalisation, as it is in evaluation, folded into the layer before it."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import facula
from facula._errors import tell_all
from facula.nn.modules.module import Module
from facula.nn.parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]

Layer = TypeVar("Layer", bound=Module)


def _scales(
    bias: Any, weight: Any, mean: Any, var: Any, eps: float, gain: Any, shift: Any
) -> tuple[Any, Any]:
    """(factor of each output, new bias)."""
    gain = facula.ones_like(mean) if gain is None else gain
    shift = facula.zeros_like(mean) if shift is None else shift
    bias = facula.zeros_like(mean) if bias is None else bias
    factor = gain * facula.rsqrt(var + eps)
    return factor.to(weight.dtype), ((bias - mean) * factor + shift).to(bias.dtype)


def _ready(layer: Module, bn: Module) -> None:
    if layer.training or bn.training:
        raise RuntimeError(
            "Fusion only for eval! Both modules must be in evaluation mode: call eval() first"
        )
    if bn.running_mean is None or bn.running_var is None:
        raise RuntimeError(
            "the batch normalisation has no running statistics to fold in "
            "(track_running_stats=False)"
        )


def fuse_conv_bn_weights(
    conv_w: Any,
    conv_b: Any,
    bn_rm: Any,
    bn_rv: Any,
    bn_eps: float,
    bn_w: Any,
    bn_b: Any,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """(weight, bias) of the convolution that is this one and then the normalisation.

    Args:
        conv_w, conv_b: of the convolution; the bias may be None.
        bn_rm, bn_rv, bn_eps: running mean and variance, and what is added to the latter.
        bn_w, bn_b: gain and shift; may be None.
        transpose: of a transposed convolution, whose weight has the outputs in dim 1.
    """
    factor, bias = _scales(conv_b, conv_w, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    rest = [1] * (conv_w.dim() - 2)
    shape = [1, -1, *rest] if transpose else [-1, 1, *rest]
    needs = conv_b.requires_grad if conv_b is not None else conv_w.requires_grad
    return (
        Parameter((conv_w * factor.reshape(shape)).detach(), conv_w.requires_grad),
        Parameter(bias.detach(), needs),
    )


def fuse_conv_bn_eval(conv: Layer, bn: Module, transpose: bool = False) -> Layer:
    """A copy of `conv` that gives what `bn(conv(x))` gives in evaluation.

    Raises:
        RuntimeError: one is in training mode, or `bn` has no running statistics.
        ValueError: a transposed convolution of several groups, whose weight cannot say it.
    """
    _ready(conv, bn)
    if transpose and conv.groups > 1:
        raise ValueError(
            f"cannot fuse a transposed convolution of {conv.groups} groups: its weight shares "
            "factors between them"
        )
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight,
        fused.bias,
        bn.running_mean,
        bn.running_var,
        bn.eps,
        bn.weight,
        bn.bias,
        transpose,
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Any,
    linear_b: Any,
    bn_rm: Any,
    bn_rv: Any,
    bn_eps: float,
    bn_w: Any,
    bn_b: Any,
) -> tuple[Parameter, Parameter]:
    """(weight, bias) of the affine map that is this one and then the normalisation."""
    factor, bias = _scales(linear_b, linear_w, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
    needs = linear_b.requires_grad if linear_b is not None else linear_w.requires_grad
    return (
        Parameter((linear_w * factor.unsqueeze(-1)).detach(), linear_w.requires_grad),
        Parameter(bias.detach(), needs),
    )


def fuse_linear_bn_eval(linear: Layer, bn: Module) -> Layer:
    """A copy of `linear` that gives what `bn(linear(x))` gives in evaluation, for x (N, features).

    Raises:
        RuntimeError: one is in training mode, or `bn` has no running statistics.
        ValueError: `bn` has neither one feature nor as many as `linear` gives.
    """
    _ready(linear, bn)
    if bn.num_features not in (1, linear.out_features):
        raise ValueError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1; they are "
            f"{linear.out_features} and {bn.num_features}"
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight,
        fused.bias,
        bn.running_mean,
        bn.running_var,
        bn.eps,
        bn.weight,
        bn.bias,
    )
    return fused


tell_all(globals(), __all__)
