"""Batch normalisation (Ioffe & Szegedy 2015) and instance normalisation (Ulyanov et al. 2016)."""

from __future__ import annotations

from typing import Any

import facula
from facula.nn import functional as F
from facula.nn import init
from facula.nn.modules.module import Module
from facula.nn.parameter import Parameter

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "SyncBatchNorm",
]


class _NormBase(Module):
    """Per-channel weight, bias and running statistics."""

    # Version 2 added num_batches_tracked.
    _version = 2

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: Any,
        dtype: Any,
        bias: bool,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        if affine:
            self.weight = Parameter(facula.empty(num_features, **where))
        else:
            self.register_parameter("weight", None)
        if affine and bias:
            self.bias = Parameter(facula.empty(num_features, **where))
        else:
            self.register_parameter("bias", None)
        if track_running_stats:
            self.register_buffer("running_mean", facula.zeros(num_features, **where))
            self.register_buffer("running_var", facula.ones(num_features, **where))
            count = facula.tensor(0, dtype=facula.int64, device=device)
            self.register_buffer("num_batches_tracked", count)
        else:
            self.register_buffer("running_mean", None)
            self.register_buffer("running_var", None)
            self.register_buffer("num_batches_tracked", None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Set the running mean to 0 and the running variance to 1."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Reset the statistics; weight 1, bias 0."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: Any) -> None:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias
        )

    def forward(self, input: Any) -> Any:
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # cumulative mean
                factor = 1.0 / float(self.num_batches_tracked)
        use_batch = self.training or (self.running_mean is None and self.running_var is None)
        keep = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if keep else None,
            self.running_var if keep else None,
            self.weight,
            self.bias,
            use_batch,
            factor,
            self.eps,
        )


def _expect_dims(module: Module, input: Any, *allowed: int) -> None:
    if input.dim() not in allowed:
        wanted = " or ".join(f"{d}D" for d in allowed)
        raise ValueError(
            f"{type(module).__name__}: expected {wanted} input, got {tuple(input.shape)}"
        )


class BatchNorm1d(_BatchNorm):
    """(x - mean) / sqrt(var + eps) * weight + bias over all but the channels of (N, C[, L]).

    In training the statistics are the batch's (biased variance) and the running ones move by
    `momentum` towards them (unbiased variance); momentum None keeps the cumulative mean.
    """

    def _check_input_dim(self, input: Any) -> None:
        _expect_dims(self, input, 2, 3)


class BatchNorm2d(_BatchNorm):
    """As BatchNorm1d, for (N, C, H, W)."""

    def _check_input_dim(self, input: Any) -> None:
        _expect_dims(self, input, 4)


class BatchNorm3d(_BatchNorm):
    """As BatchNorm1d, for (N, C, D, H, W)."""

    def _check_input_dim(self, input: Any) -> None:
        _expect_dims(self, input, 5)


class SyncBatchNorm(_BatchNorm):
    """As BatchNorm1d, over (N, C, ...) of all processes of a group; of one process without one.

    `process_group` is a group of `facula.distributed`, all processes by default. Their parts of the
    batch may differ in size.
    """

    #: (input, group) -> mean, biased variance and count over all processes, or None if this one is
    #: alone. `facula.distributed` sets it.
    _statistics: Any = None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: Any) -> Any:
        counts = self.training or (self.running_mean is None and self.running_var is None)
        found = None
        if counts and SyncBatchNorm._statistics is not None:
            self._check_input_dim(input)
            found = SyncBatchNorm._statistics(input, self.process_group)
        if found is None:
            return super().forward(input)
        mean, variance, count = found
        if self.training and self.running_mean is not None and self.running_var is not None:
            factor = self.momentum
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
                if factor is None:
                    factor = 1.0 / float(self.num_batches_tracked)
            unbiased = variance.detach() * (count / max(count - 1, 1))
            for kept, now in ((self.running_mean, mean.detach()), (self.running_var, unbiased)):
                kept.copy_(kept.lerp(now.to(kept.dtype), factor or 0.0))
        shape = [1, -1] + [1] * (input.dim() - 2)
        scale = (variance + self.eps).rsqrt()
        shift = 0.0 if self.bias is None else self.bias.view(shape)
        if self.weight is not None:
            scale = scale * self.weight
        centred = input - mean.view(shape).to(input.dtype)
        return (centred * scale.view(shape) + shift).to(input.dtype)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with a SyncBatchNorm for each BatchNorm, which takes its tensors."""
        result = module
        if isinstance(module, _BatchNorm):
            result = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            result.weight, result.bias = module.weight, module.bias
            result.running_mean, result.running_var = module.running_mean, module.running_var
            result.num_batches_tracked = module.num_batches_tracked
            result.training = module.training
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result


class _InstanceNorm(_NormBase):
    _space: int

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias
        )

    def _check_input_dim(self, input: Any) -> None:
        _expect_dims(self, input, self._space + 1, self._space + 2)

    def forward(self, input: Any) -> Any:
        self._check_input_dim(input)
        single = input.dim() == self._space + 1
        x = input.unsqueeze(0) if single else input
        if self.affine and x.shape[1] != self.num_features:
            raise ValueError(
                f"{type(self).__name__}: expected {self.num_features} channels, input is "
                f"{tuple(input.shape)}"
            )
        result = F.instance_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return result.squeeze(0) if single else result


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each sample of (N, C, L) or (C, L) by itself."""

    _space = 1


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each sample of (N, C, H, W) or (C, H, W) by itself."""

    _space = 2


class InstanceNorm3d(_InstanceNorm):
    """Normalises each channel of each sample of (N, C, D, H, W) or (C, D, H, W) by itself."""

    _space = 3
