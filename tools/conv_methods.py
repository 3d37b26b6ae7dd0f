#!/usr/bin/env python3
"""Times every method of convolution on shapes around the thresholds of aten/cpu/common/tuning.h.

    python tools/conv_methods.py [--result forward|backward_input|backward_weight] [--filter TEXT]

A line is a shape and each method that serves it, the usual choice with a star: microseconds on one
thread, the best of a tenth of a second. FACULA_CONV_FORWARD and the like take each in a process
of its own.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from typing import Any, NamedTuple

fa = importlib.import_module("facula")


class Shape(NamedTuple):
    about: str
    batch: int
    channels: int
    outputs: int
    kernel: int
    side: int
    stride: int = 1
    groups: int = 1
    channels_last: bool = False


SHAPES = [
    *(Shape("3x3, channels", 4, c, c, 3, 28) for c in (8, 12, 16, 24, 64)),
    *(Shape("3x3, side", 1, 64, 64, 3, side) for side in (4, 6, 8, 10, 12, 16)),
    *(Shape("stride, channels", 8, c, c, 3, 28, 2) for c in (4, 8, 12, 16, 32)),
    *(Shape("stride, side", 8, 32, 32, 3, side, 2) for side in (4, 6, 8, 12, 20)),
    *(Shape("NHWC, channels", 4, c, 64, 3, 28, 2, 1, True) for c in (3, 8, 12, 16, 32)),
    *(Shape("groups, outputs", 4, 64, 8 * o, 3, 28, 1, 8) for o in (1, 2, 4, 6, 8, 12)),
    *(Shape("few outputs", 4, 8, o, 3, 28) for o in (1, 2, 4)),
    *(Shape("rows of 14, outputs", 4, 8, o, 3, 14) for o in (32, 64, 96, 160)),
    *(Shape("rows of 9, outputs", 8, 8, o, 3, 9) for o in (8, 16, 24, 32)),
    *(Shape("1x1, side", 4, 64, 64, 1, side) for side in (4, 8, 16, 28)),
]


def counts(result: str) -> dict[str, int]:
    pairs = (word.split("=") for word in fa._C._build_info()[f"conv_{result}"].split())
    return {name: int(number) for name, number in pairs}


def measure(shape: Shape, result: str) -> tuple[str, float]:
    """The method that did it, and its microseconds."""
    x = fa.randn(shape.batch, shape.channels, shape.side, shape.side)
    w = fa.randn(shape.outputs, shape.channels // shape.groups, shape.kernel, shape.kernel)
    form = fa.channels_last if shape.channels_last else fa.contiguous_format
    x = x.contiguous(memory_format=form)
    args = (None, shape.stride, shape.kernel // 2, 1, shape.groups)
    (x if result == "backward_input" else w).requires_grad_(result != "forward")

    def run() -> Any:
        return fa.nn.functional.conv2d(x, w, *args)

    def once() -> float:
        if result == "forward":
            start = time.perf_counter()
            run()
            return time.perf_counter() - start
        out = run()
        start = time.perf_counter()
        out.backward(fa.ones_like(out))
        return time.perf_counter() - start

    before = counts(result)
    once()
    took = next(name for name, number in counts(result).items() if number > before[name])
    best, end = once(), time.perf_counter() + 0.1
    while time.perf_counter() < end:
        best = min(best, once())
    return took, best * 1e6


def child(result: str, shapes: list[Shape]) -> None:
    fa.set_num_threads(1)
    print(json.dumps([measure(shape, result) for shape in shapes]))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument(
        "--result", default="forward", choices=["forward", "backward_input", "backward_weight"]
    )
    p.add_argument("--filter", default="", metavar="TEXT", help="only shapes with this text")
    p.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = p.parse_args()
    shapes = [shape for shape in SHAPES if args.filter in shape.about]
    if args.child:
        child(args.result, shapes)
        return
    variable = f"FACULA_CONV_{args.result.upper()}"
    command = [sys.executable, *sys.argv, "--child"]
    found: dict[str, list[tuple[str, float]]] = {}
    for method in ["", *counts(args.result)]:
        env = {**os.environ, variable: method}
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True)
        found[method] = json.loads(done.stdout)
    usual = found.pop("")
    for i, shape in enumerate(shapes):
        times = [
            f"{method}{'*' if method == usual[i][0] else ''} {row[i][1]:.0f}"
            for method, row in found.items()
            if row[i][0] == method
        ]
        size = f"{shape.batch}x{shape.channels}x{shape.side}x{shape.side} to {shape.outputs}"
        print(f"{shape.about + ': ' + size:42}", ", ".join(times))


if __name__ == "__main__":
    main()
