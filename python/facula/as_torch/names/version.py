"""What `torch.version` tells; the GPU's toolkit is none of torch's, so `cuda` is None."""

from facula.as_torch._version import __version__ as __version__

FIRST = ("__version__",)

cuda = None
debug = False
git_version = "unknown"
hip = None
xpu = None
