"""Dropout (Srivastava et al. 2014) and its variants; all are the identity in eval mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.nn import functional as F
from facula.nn.modules.module import Module

__all__ = [
    "AlphaDropout",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "FeatureAlphaDropout",
]


class _Dropout(Module):
    _function: Callable[..., Any]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"{type(self).__name__}: p must be in [0, 1], not {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Any) -> Any:
        return self._function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Zeroes elements with probability p and scales the rest by 1 / (1 - p)."""

    _function = staticmethod(F.dropout)


class Dropout1d(_Dropout):
    """Zeroes whole channels of (N, C, L) or (C, L)."""

    _function = staticmethod(F.dropout1d)


class Dropout2d(_Dropout):
    """Zeroes whole channels of (N, C, H, W) or (C, H, W)."""

    _function = staticmethod(F.dropout2d)


class Dropout3d(_Dropout):
    """Zeroes whole channels of (N, C, D, H, W) or (C, D, H, W)."""

    _function = staticmethod(F.dropout3d)


class AlphaDropout(_Dropout):
    """Keeps mean and variance of selu's outputs (Klambauer et al. 2017)."""

    _function = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(_Dropout):
    """Alpha dropout of whole channels."""

    _function = staticmethod(F.feature_alpha_dropout)
