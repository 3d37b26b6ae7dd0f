"""Checks of what is no operator: copies in each layout and dtype, streams, random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import facula
from facula import backends
from facula.testing._arguments import LAYOUTS, array, junk, laid
from facula.testing._report import Failure
from facula.testing._sizes import LONG, ROWS, TILES
from facula.testing._suite import Suite

_SHAPES = [*((n,) for n in TILES), (3, 4), (17, 129), (64, 64), (129, 16, 3)]
_SHAPES += [(5, 1, 33), (0, 4), ()]


def check(suite: Suite, sizes: bool) -> None:
    """Copies both ways and within, casts, printing, random numbers; the report is the suite's."""
    report = suite.report
    backends.reset_fallbacks(suite.name)
    device = suite.device
    for name, holds in _checks(suite, sizes):
        try:
            good = holds()
            message = "does not hold"
        except backends.MissingKernelError as error:
            suite.lacks(error)
            continue
        except Exception as error:
            good, message = False, f"{type(error).__name__}: {error}"
        report.checks += 1
        if not good:
            report.failures.append(Failure("device", name, "", "", message[:300]))
    facula.empty(0, device=device).cpu()
    suite.module.synchronize()
    suite.note_ways()


def _checks(suite: Suite, sizes: bool) -> Iterator[tuple[str, Callable[[], bool]]]:
    device, dtypes = suite.device, suite.info["dtypes"]
    for dtype in dtypes:
        x = facula.arange(-3, 9).reshape(3, 4).to(dtype)
        yield f"there and back in {dtype}", lambda x=x: same(x.to(device), x)
        yield f"strided copy in {dtype}", lambda x=x: same(x.to(device).t()[1:], x.t()[1:])
        yield f"assignment in {dtype}", lambda x=x: _assigned(x, device)
        for to in dtypes:
            if not (dtype.is_complex and not to.is_complex):
                yield f"{dtype} to {to}", lambda a=dtype, b=to: _cast(a, b, device)
    yield "a gradient passes through copies", lambda: _gradient(device)
    printed = f"device='{suite.name}"
    yield "the name is printed", lambda: printed in repr(facula.zeros(2, device=device))
    yield "a seed gives the same numbers", lambda: _seeded(suite)
    if not sizes:
        return
    for dtype in dtypes:
        for shape in _SHAPES:
            name = f"of shape {shape} in {dtype}"
            x = _values(shape, dtype)
            for layout in LAYOUTS:
                yield f"copy to and from {layout} memory {name}", (
                    lambda x=x, layout=layout: _copied(x, layout, device))  # fmt: skip
    x = _values((70, 70), dtypes[0])
    for n in ROWS:

        def rows(t: Any, n: int = n) -> Any:
            return t[:n, 70 - n :].contiguous()

        def columns(t: Any, n: int = n) -> Any:
            return t.t()[n - 1 :, :n].contiguous()

        for what, part in (("rows", rows), ("columns", columns)):
            yield f"copy of {what} of {n}", lambda part=part: same(part(x.to(device)), part(x))
    x = _values((LONG,), dtypes[0])
    yield f"copy of {LONG} elements", lambda: same(x.to(device)[1:].clone(), x[1:])
    yield f"copy of every other of {LONG}", lambda: same(x.to(device)[::2].contiguous(), x[::2])


def same(there: Any, here: Any) -> bool:
    """The very same elements."""
    a, b = array(there.cpu()), array(here)
    return bool(a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))


def _values(shape: tuple[int, ...], dtype: Any) -> Any:
    n = int(np.prod(shape))
    if dtype == facula.bool:
        return (facula.arange(n) % 3 == 0).reshape(shape)
    return (facula.arange(n) % 101).reshape(shape).to(dtype)


def _assigned(x: Any, device: Any) -> bool:
    changed = x if x.dtype == facula.bool else x + x
    y, z = x.to(device), x.clone()
    y[1:, ::2] = changed[1:, ::2]
    z[1:, ::2] = changed[1:, ::2]
    return same(y, z)


def _cast(dtype: Any, to: Any, device: Any) -> bool:
    whole = [0, 1, 2, 3, 100, 127]
    if dtype.is_floating_point or dtype.is_complex:
        values = [*whole, 0.25, 0.5, 0.999, 1.5, 2.5, 100.75]
        if to != facula.uint8:  # what others do with it is nobody's to say
            values += [-0.25, -0.5, -1.5, -2.5, -100.75]
        if to.is_floating_point or to.is_complex or to == facula.bool:
            values += [float("nan"), float("inf"), -0.0, 1e-30, 65504.0, 1e30]
    else:
        values = [*whole, -1, -128, 255, 256, 32768, 65537, 2**24 + 1, 2**31 + 5, -(2**40) - 3]
    x = facula.tensor(values).to(dtype)
    y = x.to(device)
    strided = y[1::2].to(to)
    target = facula.zeros(2 * len(values), dtype=to, device=device)
    target[::2] = y
    want = x.to(to)
    return same(y.to(to), want) and same(strided, want[1::2]) and same(target[::2], want)


def _gradient(device: Any) -> bool:
    leaf = facula.ones(3, requires_grad=True)
    (leaf.to(device) * 2).cpu().sum().backward()
    return bool(leaf.grad.tolist() == [2, 2, 2])


def _seeded(suite: Suite) -> bool:
    found = []
    for _ in range(2):
        suite.module.manual_seed(5)
        found.append(facula.rand(8, device=suite.device).cpu())
    return same(*found)


def _copied(x: Any, layout: str, device: Any) -> bool:
    """From host memory, within the device, to another view there, and back, in a layout."""
    base, view = laid(x, layout)
    mine = view(base)
    there = view(base.to(device))
    good = same(there, mine) and same(mine.to(device), mine) and same(there.clone(), mine)
    good = good and same(there.contiguous(), mine)
    if layout == "expanded":
        return good and same(facula.full_like(x, False).to(device).copy_(there), mine)
    # written there, and nothing beside it
    for source in (x.to(device), x):
        blank, place = laid(facula.full_like(x, junk(x.dtype)), layout)
        target = blank.to(device)
        place(target).copy_(source)
        good = good and same(target, base)
    return good
