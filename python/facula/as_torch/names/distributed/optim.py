"""What `torch.distributed.optim` has beside facula's."""

from facula.as_torch._refused import refused_class

for _name in ("DistributedOptimizer", "PostLocalSGDOptimizer"):
    globals()[_name] = refused_class("distributed.optim." + _name)
