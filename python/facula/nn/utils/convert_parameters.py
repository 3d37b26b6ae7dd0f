"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import facula
from facula._errors import tell_all

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def _one_device(parameters: list[Any]) -> None:
    devices = {str(p.device) for p in parameters}
    if len(devices) > 1:
        raise TypeError(f"parameters are on several devices: {', '.join(sorted(devices))}")


def parameters_to_vector(parameters: Iterable[Any]) -> Any:
    """Flatten and join the parameters: a tensor of shape (total,)."""
    parameters = list(parameters)
    _one_device(parameters)
    return facula.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Any, parameters: Iterable[Any]) -> None:
    """Let the parameters be views of successive pieces of `vec`.

    Raises:
        TypeError: vec is not a Tensor. ValueError: its length is not the parameters' total.
    """
    if not isinstance(vec, facula.Tensor):
        raise TypeError(f"expected a Tensor, but got {type(vec).__name__}")
    parameters = list(parameters)
    _one_device(parameters)
    total = sum(p.numel() for p in parameters)
    if tuple(vec.shape) != (total,):
        raise ValueError(f"vec is {tuple(vec.shape)}, the parameters need ({total},)")
    start = 0
    for parameter in parameters:
        stop = start + parameter.numel()
        parameter.data = vec[start:stop].view(parameter.shape).data
        start = stop


tell_all(globals(), __all__)
