"""Kernels of machine.c, compiled for this very machine, that rates are compared with."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("machine.c")
ELEMENTS = 1 << 24  # of a stream: far more than caches hold
ROUNDS = 1 << 21  # of multiply-adds a thread


def library() -> ctypes.CDLL:
    return compiled(SOURCE)


@cache
def compiled(source: Path) -> ctypes.CDLL:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise ImportError("no C compiler: rates of this machine are not measured")
    text = source.read_bytes()
    name = f"facula-bench-{hashlib.sha256(text).hexdigest()[:16]}-{os.getuid()}.so"
    target = Path(tempfile.gettempdir()) / name
    if not target.exists():
        made = target.with_suffix(f".{os.getpid()}")
        options = ["-O3", "-march=native", "-shared", "-fPIC", "-ffp-contract=fast"]
        subprocess.run([compiler, *options, str(source), "-o", str(made), "-ldl"], check=True)
        made.rename(target)
    return ctypes.CDLL(str(target))


class Kernel:
    """A kernel on so many threads; `work` is what one call does, in bytes or operations."""

    def __init__(self, name: str, threads: int) -> None:
        self.threads = ThreadPoolExecutor(threads) if threads > 1 else None
        self.count = threads
        kind, _, dtype = name.partition(" ")
        self.piece, self.work = self.peak(dtype) if kind == "peak" else self.stream(kind)
        self.run = self.timed()

    def stream(self, name: str) -> tuple[Callable[[int], object], float]:
        import numpy as np

        operands = {"copy": 2, "add": 3}[name]
        function = getattr(library(), name)
        arrays = [np.ones(ELEMENTS, np.float32) for _ in range(operands)]
        part = ELEMENTS // self.count

        def piece(index: int) -> object:
            starts = [ctypes.c_void_p(a.ctypes.data + 4 * part * index) for a in arrays]
            return function(*starts, ctypes.c_size_t(part))

        return piece, 4.0 * operands * part * self.count

    def peak(self, dtype: str) -> tuple[Callable[[int], object], float]:
        function = getattr(library(), f"peak_{dtype}")
        function.restype = ctypes.c_float if dtype == "float32" else ctypes.c_double
        counted = getattr(library(), f"operations_{dtype}")
        counted.restype = ctypes.c_size_t
        return lambda _: function(ctypes.c_size_t(ROUNDS)), float(counted()) * ROUNDS * self.count

    def timed(self) -> Callable[[int], int]:
        from tools.bench.worker import loop_of

        if self.threads is None:
            return loop_of(lambda: self.piece(0))
        pool = self.threads
        return loop_of(lambda: list(pool.map(self.piece, range(self.count))))
