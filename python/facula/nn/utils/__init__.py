"""Helpers on modules and their parameters.

Clip gradients, pack parameters into one vector, normalise or prune weights, fuse layers,
parametrize tensors, call modules with other parameters, and sum a network up.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from facula.nn.utils import rnn
from facula.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from facula.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters

# Now, not when used: these functions have the names of their files, which else would be found.
from facula.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from facula.nn.utils.weight_norm import remove_weight_norm, weight_norm

if TYPE_CHECKING:
    from facula.nn.utils._summary import summary
    from facula.nn.utils.fusion import (
        fuse_conv_bn_eval,
        fuse_conv_bn_weights,
        fuse_linear_bn_eval,
        fuse_linear_bn_weights,
    )
    from facula.nn.utils.init import skip_init
    from facula.nn.utils.memory_format import (
        convert_conv2d_weight_memory_format,
        convert_conv3d_weight_memory_format,
    )

# Loaded when used.
_SOURCES = {
    "convert_conv2d_weight_memory_format": "memory_format",
    "convert_conv3d_weight_memory_format": "memory_format",
    "fuse_conv_bn_eval": "fusion",
    "fuse_conv_bn_weights": "fusion",
    "fuse_linear_bn_eval": "fusion",
    "fuse_linear_bn_weights": "fusion",
    "skip_init": "init",
    "summary": "_summary",
}
_SUBMODULES = ("fusion", "init", "memory_format", "parametrizations", "parametrize", "prune")
_SUBMODULES += ("stateless",)

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format",
    "convert_conv3d_weight_memory_format",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "parameters_to_vector",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "summary",
    "vector_to_parameters",
    "weight_norm",
]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"facula.nn.utils.{name}")
    if name not in _SOURCES:
        raise AttributeError(f"module 'facula.nn.utils' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"facula.nn.utils.{_SOURCES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_SOURCES, *_SUBMODULES})
