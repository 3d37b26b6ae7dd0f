"""NVIDIA GPUs: the device `cuda`.

A vendor like any other (docs/vendors.md), in facula's own wheel. It needs NVIDIA's driver, and
NVRTC, which `pip install 'facula[cuda]'` brings. Kernels are compiled when they are first used and
kept on disk; `python -m facula.cuda.precompile` does so ahead.

    FACULA_CUDA=0         switches it off
    FACULA_CUDA_SYNC=1    waits for each kernel, so that errors show where they arise
    FACULA_CUDA_TF32=1    lets float32 products and convolutions round their operands to 10 bits
    FACULA_CUDNN=0        leaves cuDNN alone: kernels of facula's own, and the same bits each time
    FACULA_CACHE          folder of compiled kernels; FACULA_CACHE_SIZE bounds it, in MiB
"""

import os as _os

from facula import backends as _backends
from facula.cuda import _vendor

if _os.path.exists(_vendor.LIBRARY):
    _backends._load("cuda")
else:  # built without the module: naming the device raises, asking for it does not

    def is_available() -> bool:
        """Is there at least one such device?"""
        return False

    def device_count() -> int:
        """How many there are."""
        return 0


def ipc_collect() -> None:
    """Let go of memory that was sent to other processes and that these have let go of.

    That happens by itself, soon after.
    """
    from facula.multiprocessing import _device_memory

    _device_memory.collect()


def __getattr__(name: str):
    """Names that answer where there is no device."""
    if name[:1] != "_":
        from importlib import import_module

        without = import_module("facula.cuda._without")
        if hasattr(without, name) and not is_available():
            return getattr(without, name)
    raise AttributeError(f"module 'facula.cuda' has no attribute '{name}'")
