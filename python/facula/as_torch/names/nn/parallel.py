"""`torch.nn.parallel`: what it has beside `facula.nn.parallel`."""

from __future__ import annotations

from facula.as_torch._refused import refused_class
from facula.nn.parallel import *  # noqa: F403

DistributedDataParallel = refused_class("nn.parallel.DistributedDataParallel")
