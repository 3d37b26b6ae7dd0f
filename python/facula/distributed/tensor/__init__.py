"""Tensors spread over processes: where the parts are, and layers that work on parts."""

from facula.distributed.device_mesh import DeviceMesh, init_device_mesh
from facula.distributed.tensor._dtensor import DTensor, distribute_module, distribute_tensor
from facula.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "init_device_mesh",
]
