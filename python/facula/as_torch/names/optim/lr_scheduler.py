"""`torch.optim.lr_scheduler`: the older name of its base class."""

from facula.optim.lr_scheduler import LRScheduler

_LRScheduler = LRScheduler
