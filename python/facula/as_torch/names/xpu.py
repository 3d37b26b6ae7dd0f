"""`torch.xpu` on a machine without such a device, of which torch says the same as of `mps`."""

from __future__ import annotations

from facula.as_torch.names.mps import (
    device_count,
    empty_cache,
    is_available,
    manual_seed,
    manual_seed_all,
)

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "manual_seed_all"]
