"""What a graphics card does at best: kernels that rows are compared with."""

from __future__ import annotations

import ctypes
import importlib
import time
from functools import cache
from pathlib import Path
from typing import Any

BYTES = 1 << 30
LAUNCHER = Path(__file__).with_name("launch.c")


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
    """`copy` from one block of memory to another, of `work` bytes read and written; or `launch`,
    the driver's call that starts a kernel of nothing."""

    work = 0.0

    def __init__(self, name: str, threads: int) -> None:
        self.run = {"copy": self.copy, "launch": self.launch}[name]()

    def copy(self) -> Any:
        from tools.bench.worker import loop_of, waited

        lib = library()
        source, target = (lib.zeros(BYTES // 4, dtype=lib.float32, device="cuda") for _ in range(2))
        self.work = 2.0 * BYTES
        return waited(loop_of(lambda: target.copy_(source)), lib.cuda.synchronize)

    def launch(self) -> Any:
        from tools.bench.machine import compiled

        driver = compiled(LAUNCHER)
        if status := driver.open_card():
            raise ImportError(f"launches are not measured: the driver says {status}")

        def run(times: int) -> int:
            start = time.perf_counter_ns()
            if status := driver.launch(ctypes.c_size_t(times)):
                raise RuntimeError(f"cuLaunchKernel failed: {status}")
            return time.perf_counter_ns() - start

        return run
