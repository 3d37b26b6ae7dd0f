"""Communication hooks of `nn.parallel.DistributedDataParallel`."""

from facula.distributed.algorithms.ddp_comm_hooks import default_hooks

__all__ = ["default_hooks"]
