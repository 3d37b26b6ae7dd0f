"""The older place of what shards and replicates a module in place."""

from facula.as_torch._refused import refused_function
from facula.distributed.fsdp import fully_shard

__all__ = ["contract", "fully_shard", "replicate"]

contract = refused_function("distributed._composable.contract")
replicate = refused_function("distributed._composable.replicate")
