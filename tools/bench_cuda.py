#!/usr/bin/env python3
"""Measures CUDA beside torch on the same card: `python tools/bench_cuda.py [--small]`.

Memory-bound rows are given as a share of the rate of a device-to-device copy, small calls in
microseconds of host time, products in TFLOP/s. Medians; facula and torch take turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import facula as fa
import torch


def seconds(calls: list[Callable[[], Any]], rounds: int = 7, inner: int = 5) -> list[float]:
    """The median time of one call of each, by events on the default streams."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        for _ in range(2):
            call()
    torch.cuda.synchronize()
    for _ in range(rounds):
        for at, call in zip(times, calls, strict=True):
            begin = torch.cuda.Event(enable_timing=True)
            end = torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(inner):
                call()
            end.record()
            torch.cuda.synchronize()
            at.append(begin.elapsed_time(end) / inner / 1e3)
    return [statistics.median(t) for t in times]


def host_time(call: Callable[[], Any], calls: int = 2000) -> float:
    """Microseconds that the host spends on one call."""
    best = float("inf")
    for _ in range(5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - start) / calls)
        torch.cuda.synchronize()
    return best * 1e6


def pair(dtype: str, *shape: int) -> tuple[Any, Any]:
    t = torch.randn(*shape, device="cuda", dtype=getattr(torch, dtype))
    f = fa.randn(*shape, device="cuda", dtype=getattr(fa, dtype))
    return f, t


def memory_rows(n: int) -> list[dict[str, Any]]:
    a, b = torch.empty(n, device="cuda", dtype=torch.float32), torch.empty(n, device="cuda")
    rate = 8 * n / seconds([lambda: b.copy_(a)])[0]
    print(f"copy: {rate / 1e12:.3f} TB/s")
    rows = []
    for dtype, size in (("bfloat16", 2), ("float32", 4)):
        fa.cuda.empty_cache()
        torch.cuda.empty_cache()
        for name, elements, ours, theirs in moves(n, dtype):
            try:
                mine, other = seconds([ours, theirs])
            except Exception as error:  # a row that fails is reported, the others go on
                rows.append({"row": name, "error": str(error)[:200]})
                print(name, error)
                continue
            nbytes = 6 * n if elements == 0 else elements * size
            shares = nbytes / mine / rate, nbytes / other / rate
            rows.append({"row": name, "facula": shares[0], "torch": shares[1]})
            print(f"{name:<36}{shares[0]:8.3f} of copy, torch {shares[1]:.3f}", flush=True)
    return rows


def moves(n: int, dtype: str) -> list[tuple[str, float, Callable[[], Any], Callable[[], Any]]]:
    """Rows with the number of elements that each moves; 0 for a cast between 2 and 4 bytes."""
    f, t = pair(dtype, n)
    g, u = pair(dtype, n)
    w, x = pair(dtype, 1024)
    fo, to = fa.empty_like(f), torch.empty_like(t)
    m, v = f.reshape(-1, 1024), t.reshape(-1, 1024)
    side = int(n**0.5) // 64 * 64
    p, q = f[: side * side].reshape(side, side), t[: side * side].reshape(side, side)
    other = "float32" if dtype == "bfloat16" else "bfloat16"
    ours, theirs = fa.nn.functional, torch.nn.functional
    c, d = f.reshape(-1, 32768), t.reshape(-1, 32768)
    classes = torch.randint(0, 32768, (len(d),), device="cuda")
    targets = fa.tensor(classes.tolist()).to("cuda")

    def both(lib: Any, functions: Any, x: Any, y: Any) -> Any:
        leaf = x.detach().requires_grad_()
        return lib.autograd.grad(functions.cross_entropy(leaf, y), [leaf])

    return [
        (f"add {dtype}", 3 * n, lambda: fa.add(f, g, out=fo), lambda: torch.add(t, u, out=to)),
        (f"copy {dtype}", 2 * n, lambda: fo.copy_(f), lambda: to.copy_(t)),
        (f"gelu {dtype}", 2 * n, lambda: ours.gelu(f), lambda: theirs.gelu(t)),
        (f"cast {dtype} to {other}", 0,
         lambda: f.to(getattr(fa, other)), lambda: t.to(getattr(torch, other))),
        (f"sum {dtype}", n, lambda: f.sum(), lambda: t.sum()),
        (f"sum rows {dtype}", n, lambda: m.sum(1), lambda: v.sum(1)),
        (f"sum columns {dtype}", n, lambda: m.sum(0), lambda: v.sum(0)),
        (f"softmax 1024 {dtype}", 2 * n, lambda: fa.softmax(m, 1), lambda: torch.softmax(v, 1)),
        (f"layer_norm 1024 {dtype}", 2 * n,
         lambda: ours.layer_norm(m, (1024,)), lambda: theirs.layer_norm(v, (1024,))),
        (f"cross_entropy 32768 {dtype}", n,
         lambda: ours.cross_entropy(c, targets), lambda: theirs.cross_entropy(d, classes)),
        (f"cross_entropy both ways {dtype}", 3 * n,
         lambda: both(fa, ours, c, targets), lambda: both(torch, theirs, d, classes)),
        (f"row broadcast {dtype}", 2 * n, lambda: m + w, lambda: v + x),
        (f"transpose {dtype}", 2 * side * side,
         lambda: p.t().contiguous(), lambda: q.t().contiguous()),
        (f"strided {dtype}", n, lambda: m[:, :512].contiguous(), lambda: v[:, :512].contiguous()),
    ]  # fmt: skip


def small_rows() -> list[dict[str, Any]]:
    rows = []
    f, t = pair("float32", 16, 16)
    v, x = pair("float32", 16)
    for name, ours, theirs in (
        ("a + b", lambda: f + f, lambda: t + t),
        ("a + row", lambda: f + v, lambda: t + x),
        ("a * 2", lambda: f * 2, lambda: t * 2),
        ("relu", lambda: f.relu(), lambda: t.relu()),
        ("sum", lambda: f.sum(), lambda: t.sum()),
        ("softmax", lambda: fa.softmax(f, 1), lambda: torch.softmax(t, 1)),
        ("mm", lambda: f @ f, lambda: t @ t),
    ):
        mine, other = host_time(ours), host_time(theirs)
        rows.append({"row": f"host {name}", "facula": mine, "torch": other})
        print(f"host {name:<31}{mine:8.2f} us, torch {other:.2f}", flush=True)
    return rows


def product_rows() -> list[dict[str, Any]]:
    rows = []
    for dtype, sides in (("bfloat16", (1024, 4096, 8192)), ("float32", (4096,))):
        for n in sides:
            f, t = pair(dtype, n, n)
            mine, other = seconds([lambda: f @ f, lambda: t @ t])  # noqa: B023
            rates = 2 * n**3 / mine / 1e12, 2 * n**3 / other / 1e12
            rows.append({"row": f"matmul {dtype} {n}", "facula": rates[0], "torch": rates[1]})
            print(
                f"matmul {dtype} {n:<20}{rates[0]:8.1f} TFLOP/s, torch {rates[1]:.1f}", flush=True
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a sixteenth of the memory")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    rows = small_rows() + product_rows() + memory_rows((256 << 20) // (16 if args.small else 1))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            about = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
            json.dump({**about, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
