"""`torch.jit.frontend`: the error of programs that are not in the subset."""

from facula.jit import ScriptError as NotSupportedError

__all__ = ["NotSupportedError", "UnsupportedNodeError"]

UnsupportedNodeError = NotSupportedError
