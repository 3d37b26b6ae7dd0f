"""`torch.jit._trace`: what programs take from there."""

from facula.jit import TopLevelTracedModule, TracerWarning, TracingCheckError, is_tracing, trace

__all__ = ["TopLevelTracedModule", "TracerWarning", "TracingCheckError", "is_tracing", "trace"]
