"""What `torch.distributed.pipelining` has beside facula's: models cut by tracing."""

from facula.as_torch._refused import refused_class, refused_function

Pipe = refused_class("distributed.pipelining.Pipe")
SplitPoint = refused_class("distributed.pipelining.SplitPoint")
pipe_split = refused_function("distributed.pipelining.pipe_split")
pipeline = refused_function("distributed.pipelining.pipeline")
