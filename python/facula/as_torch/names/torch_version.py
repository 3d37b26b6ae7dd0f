"""The type of `torch.__version__`."""

from facula.as_torch._version import TorchVersion
from facula.as_torch._version import __version__ as __version__

FIRST = ("__version__",)
__all__ = ["TorchVersion"]
