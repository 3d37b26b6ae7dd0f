"""`torch.nn.utils.stateless`: a module's tensors replaced for a while."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from facula.nn.utils.stateless import _replaced

__all__ = ["_reparametrize_module"]


def _reparametrize_module(
    module: Any,
    parameters_and_buffers: Mapping[str, Any],
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> AbstractContextManager[None]:
    """Within it the module has these parameters and buffers: see `functional_call`."""
    return _replaced(module, dict(parameters_and_buffers), tie_weights, strict)
