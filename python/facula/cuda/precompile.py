"""Compiles kernels ahead of use, into the cache on disk.

    python -m facula.cuda.precompile [--arch sm_90] [--level 1] [--match TEXT] [--threads N]

An arch such as compute_90 stops at PTX, which says that a kernel is right but is not what runs.
Level 0 is what models in float32 and bfloat16 use most, 1 every kernel once, 2 every kernel in
every dtype; -1 is a quick check that all compiles. Without --arch for the GPU that is there; no GPU
is needed when it is given.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
import time
from dataclasses import dataclass

from facula.cuda import _vendor


@dataclass(frozen=True)
class Report:
    """What was compiled."""

    compiled: int
    found: int
    failed: int
    errors: str


def precompile(arch: str, match: str = "", level: int = 0, threads: int | None = None) -> Report:
    """Compile the kernels whose name holds `match` for an architecture such as "sm_90"."""
    counts = (ctypes.c_int32 * 3)()
    text = ctypes.create_string_buffer(30_000)
    _vendor.module().facula_cuda_precompile(
        arch.encode(),
        match.encode(),
        level,
        threads or os.cpu_count() or 1,
        counts,
        text,
        len(text),
    )
    return Report(*counts, text.value.decode(errors="replace"))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m facula.cuda.precompile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--arch")
    parser.add_argument("--level", type=int, default=0, choices=(-1, 0, 1, 2))
    parser.add_argument("--match", default="")
    parser.add_argument("--threads", type=int)
    args = parser.parse_args(argv)
    if args.arch is None:
        import facula.cuda

        if not facula.cuda.is_available():
            print(f"no GPU ({_vendor.why_not()}): say which --arch", file=sys.stderr)
            return 1
        args.arch = "sm_{}{}".format(*facula.cuda.get_device_capability())
    start = time.perf_counter()
    report = precompile(args.arch, args.match, args.level, args.threads)
    if report.errors:
        print(report.errors, file=sys.stderr)
    print(
        f"{args.arch}: {report.compiled} kernels compiled, {report.found} were there, "
        f"{report.failed} failed, {time.perf_counter() - start:.1f} s"
    )
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
