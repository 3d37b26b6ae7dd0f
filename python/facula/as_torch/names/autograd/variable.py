"""`torch.autograd.variable`."""

from facula.as_torch.names.autograd import Variable

__all__ = ["Variable"]
