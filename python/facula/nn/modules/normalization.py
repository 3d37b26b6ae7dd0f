"""Normalisation within each sample: layer, group, RMS and local response."""

from __future__ import annotations

from typing import Any

import facula
from facula.nn import functional as F
from facula.nn import init
from facula.nn._pooling import ntuple
from facula.nn.modules.module import Module
from facula.nn.parameter import Parameter

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class LayerNorm(Module):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dims (Ba et al. 2016).

    Args:
        normalized_shape: sizes of those dims, a number for the last one alone.
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = ntuple(normalized_shape, 1)
        self.eps, self.elementwise_affine = eps, elementwise_affine

        def make(wanted: bool) -> Parameter | None:
            if not wanted:
                return None
            return Parameter(facula.empty(self.normalized_shape, device=device, dtype=dtype))

        self.register_parameter("weight", make(elementwise_affine))
        self.register_parameter("bias", make(elementwise_affine and bias))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1, bias 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Any) -> Any:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class GroupNorm(Module):
    """Normalises (N, C, *) over groups of C / num_groups channels (Wu & He 2018)."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ValueError(
                f"GroupNorm: num_channels {num_channels} must be divisible by num_groups "
                f"{num_groups}, which is at least 1"
            )
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine

        def make(wanted: bool) -> Parameter | None:
            if not wanted:
                return None
            return Parameter(facula.empty(num_channels, device=device, dtype=dtype))

        self.register_parameter("weight", make(affine))
        self.register_parameter("bias", make(affine and bias))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1, bias 0."""
        if self.affine:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Any) -> Any:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """x / sqrt(mean(x^2) + eps) * weight over the last dims (Zhang & Sennrich 2019).

    eps None means the machine epsilon of the input's dtype.
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = ntuple(normalized_shape, 1)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(facula.empty(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Any) -> Any:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class LocalResponseNorm(Module):
    """x / (k + alpha * mean of squares over `size` channels)^beta for (N, C, *)."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Any) -> Any:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """x / (k + alpha / size * s)^beta, of (N, C, H, W); s sums x^2 over neighbouring channels.

    Those are the (size - 1) // 2 ones on either side, and the first channel, which torch's class
    does not take out of the sum again; `LocalResponseNorm` is without that.

    Raises:
        ValueError: the input has not 4 dims.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Any) -> Any:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        channel = facula.arange(input.shape[1], device=input.device)
        apart = channel - channel[:, None]
        reach = (self.size - 1) // 2
        near = (apart <= reach) & ((apart >= -reach) | (channel == 0))
        sums = near.to(input.dtype) @ input.square().flatten(2)
        scale = self.k + self.alpha / self.size * sums.view_as(input)
        return input * scale.pow(-self.beta)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
