"""`torch._dynamo._trace_wrapped_higher_order_op`: a mode that only torch's tracing needs."""

from __future__ import annotations

from typing import Any

from facula.overrides import TorchFunctionMode

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(TorchFunctionMode):
    """Changes nothing: indices that are tensors without dims are tensors anyway."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))
