"""Registration of the CUDA module, and where NVIDIA's libraries are."""

from __future__ import annotations

import ctypes
import glob
import os
import sys
from functools import lru_cache

from facula import _C

# Beside the compiled module, which an editable install has elsewhere than the Python files.
LIBRARY = os.path.join(os.path.dirname(_C.__file__), "_cuda.so")


def folders() -> list[str]:
    """Folders of libraries that the `nvidia-*` wheels brought, newest CUDA first."""
    found = []
    for place in dict.fromkeys(p for p in sys.path if p):
        found += sorted(glob.glob(os.path.join(place, "nvidia", "*", "lib")), reverse=True)
    return found


@lru_cache(maxsize=1)
def module() -> ctypes.CDLL:
    """The functions that the module exports beside the device interface's."""
    if not os.path.exists(LIBRARY):
        raise RuntimeError(f"facula was built without CUDA: there is no {LIBRARY}")
    library = ctypes.CDLL(LIBRARY)
    library.facula_cuda_folders.argtypes = [ctypes.c_char_p]
    library.facula_cuda_why.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.facula_cuda_precompile.argtypes = [
        ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_int32,
        ctypes.POINTER(ctypes.c_int32), ctypes.c_char_p, ctypes.c_size_t,
    ]  # fmt: skip
    library.facula_cuda_folders(":".join(folders()).encode())
    return library


def why_not() -> str:
    """Why there is no device; empty when there is one."""
    text = ctypes.create_string_buffer(1000)
    module().facula_cuda_why(text, len(text))
    return text.value.decode()


def register() -> None:
    """Called by facula when the device is first named."""
    from facula import backends

    module()
    backends.load_library(LIBRARY)
