"""`torch._ops`: the types of operators that programs define."""

from facula.library import OpOverload, OpOverloadPacket
from facula.library._operator import Operators

__all__ = ["OpOverload", "OpOverloadPacket"]

_OpNamespace = Operators
