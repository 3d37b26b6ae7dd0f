"""What `torch.distributed.tensor.parallel` has beside facula's."""

from facula.as_torch._refused import refused_function

loss_parallel = refused_function("distributed.tensor.parallel.loss_parallel")
