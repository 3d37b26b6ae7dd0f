"""`torch.nn.parallel`: `DataParallel` as it is with one device at most."""

from __future__ import annotations

from typing import Any

from facula import nn
from facula.as_torch._refused import refused_class, refused_function

__all__ = ["DataParallel"]


class DataParallel(nn.Module):
    """The module, called as it is; it moves to `device_ids[0]` where one is given.

    Args:
        module: what is called.
        device_ids: at most one device; None means the one where the module is.
        output_device, dim: taken; they matter with several devices alone.

    Raises:
        RuntimeError: several devices are named.
    """

    def __init__(
        self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        ids = list(device_ids or [])
        if len(ids) > 1:
            raise RuntimeError(
                f"DataParallel(): device_ids is {ids}, but facula runs a module on one device; "
                f"name one, or none"
            )
        self.module = module
        self.dim = dim
        self.device_ids = ids
        self.output_device = output_device
        if ids:
            self.module.to(f"cuda:{ids[0]}" if isinstance(ids[0], int) else ids[0])

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


DistributedDataParallel = refused_class("nn.parallel.DistributedDataParallel")
for _name in ("data_parallel", "gather", "parallel_apply", "replicate", "scatter"):
    globals()[_name] = refused_function("nn.parallel." + _name)
