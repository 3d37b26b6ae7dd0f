"""What `torch.distributed.fsdp` has beside facula's: the older wrapper and its options."""

from facula.as_torch._refused import refused_class

for _name in (
    "BackwardPrefetch CPUOffload FullOptimStateDictConfig FullStateDictConfig"
    " FullyShardedDataParallel LocalStateDictConfig MixedPrecision OptimStateKeyType"
    " ShardedOptimStateDictConfig ShardedStateDictConfig ShardingStrategy StateDictType"
).split():
    globals()[_name] = refused_class("distributed.fsdp." + _name)
