"""What a graphics card does at best: kernels that rates of rows are compared with."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

BYTES = 1 << 30


@cache
def library() -> Any:
    """torch, or facula where there is none: only their copies within the device are used."""
    for name in ("torch", "facula"):
        try:
            found = importlib.import_module(name)
        except ImportError:
            continue
        if found.cuda.is_available():
            return found
    raise ImportError("no CUDA device: rates of the card are not measured")


class Kernel:
    """A copy from one block of memory to another; `work` is the bytes read and written."""

    def __init__(self, name: str, threads: int) -> None:
        from tools.bench.worker import loop_of, waited

        if name != "copy":
            raise ValueError(f"there is no kernel {name!r}")
        lib = library()
        source, target = (lib.zeros(BYTES // 4, dtype=lib.float32, device="cuda") for _ in range(2))
        self.work = 2.0 * BYTES
        self.run = waited(loop_of(lambda: target.copy_(source)), lib.cuda.synchronize)
