"""`torch._dynamo.eval_frame`: whether there is a compiler."""

from facula.as_torch._refused import refused_class

__all__ = ["is_dynamo_supported"]

OptimizedModule = refused_class("_dynamo.eval_frame.OptimizedModule")


def is_dynamo_supported() -> bool:
    """False: nothing is compiled."""
    return False
