"""What `torch.nn` has beside facula's layers."""

from facula.as_torch.names.nn.parallel import DataParallel

__all__ = ["DataParallel"]
