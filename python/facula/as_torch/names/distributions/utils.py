"""`torch.distributions.utils`: helpers of that file which packages call."""

from __future__ import annotations

from typing import Any

import facula
from facula.distributions.utils import lazy_property
from facula.distributions.utils import sum_rightmost as _sum_rightmost

__all__ = ["_lazy_property_and_property", "_standard_normal", "_sum_rightmost"]


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Any:
    """Standard normal numbers of a shape."""
    return facula.randn(shape, dtype=dtype, device=device)


class _lazy_property_and_property(lazy_property, property):
    """An attribute that is computed when first asked for, and that counts as a property."""

    def __init__(self, wrapped: Any) -> None:
        property.__init__(self, wrapped)
        self.wrapped = wrapped
