"""`torch.nn.utils.stateless`: the older place of `torch.func.functional_call`."""

from facula.as_torch.names.func import functional_call

__all__ = ["functional_call"]
