"""`torch.onnx.symbolic_helper`: the decorators of functions for an exporter, which is not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.as_torch._refused import refused_function

__all__ = ["parse_args", "quantized_args"]


def parse_args(*arg_descriptors: str) -> Callable[[Any], Any]:
    """A decorator that leaves the function as it is."""
    return lambda function: function


quantized_args = parse_args

for (
    _name
) in "_get_tensor_dim_size _get_tensor_sizes _is_none _maybe_get_const _unimplemented".split():
    globals()[_name] = refused_function("onnx.symbolic_helper." + _name)
