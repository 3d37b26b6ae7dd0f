"""Weights of convolutions in the memory format that their inputs have."""

from __future__ import annotations

from typing import Any, TypeVar

from facula.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from facula.nn.modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

M = TypeVar("M", bound=Module)


def _convert(module: M, memory_format: Any, kinds: tuple[type, ...]) -> M:
    for layer in module.modules():
        if isinstance(layer, kinds):
            weight = layer.weight.detach().clone(memory_format=memory_format)
            layer.weight.data = weight
    return module


def convert_conv2d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Lay out the weights of all `Conv2d` and `ConvTranspose2d` below, in place.

    Args:
        memory_format: such as `facula.channels_last`.
    """
    return _convert(module, memory_format, (Conv2d, ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Lay out the weights of all `Conv3d` and `ConvTranspose3d` below, in place.

    Args:
        memory_format: such as `facula.channels_last_3d`.
    """
    return _convert(module, memory_format, (Conv3d, ConvTranspose3d))
