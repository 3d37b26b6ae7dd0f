"""`torch.distributed.constants`."""

from facula.distributed import default_pg_timeout

__all__ = ["default_pg_timeout"]
