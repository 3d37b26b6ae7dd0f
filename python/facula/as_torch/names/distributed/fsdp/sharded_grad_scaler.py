"""`torch.distributed.fsdp.sharded_grad_scaler`: facula's scaler knows parameters in parts."""

from __future__ import annotations

from typing import Any

from facula.amp import GradScaler

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """`GradScaler`; `process_group` is that of the parameters."""

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        backoff_factor: float = 0.5,
        growth_factor: float = 2.0,
        growth_interval: int = 2000,
        enabled: bool = True,
        process_group: Any = None,
    ) -> None:
        super().__init__(
            device, init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )
