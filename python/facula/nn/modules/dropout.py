"""Dropout (Srivastava et al. 2014) and its variants; all are the identity in eval mode."""

from __future__ import annotations

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
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Zeroes elements with probability p and scales the rest by 1 / (1 - p)."""

    def forward(self, input: Any) -> Any:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """Zeroes whole channels of (N, C, L) or (C, L)."""

    def forward(self, input: Any) -> Any:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """Zeroes whole channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Any) -> Any:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """Zeroes whole channels of (N, C, D, H, W) or (C, D, H, W)."""

    def forward(self, input: Any) -> Any:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """Keeps mean and variance of selu's outputs (Klambauer et al. 2017)."""

    def forward(self, input: Any) -> Any:
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_Dropout):
    """Alpha dropout of whole channels."""

    def forward(self, input: Any) -> Any:
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)
