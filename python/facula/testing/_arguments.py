"""Arguments of calls: from samples, moved to a device, laid out in memory in other ways."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import facula
from facula.testing._samples import Named, Sample, Varying

_NESTED = (list, tuple, dict)
LAYOUTS = ("plain", "transposed", "sliced", "offset", "expanded")


def made(sample: Sample, dtype: str) -> tuple[list[Any], dict[str, Any]]:
    """A sample's arguments as tensors on the CPU."""
    return [_tensor(a, dtype) for a in sample.args], {
        k: _tensor(v, dtype) for k, v in sample.kwargs.items()
    }


def _tensor(value: Any, dtype: str) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_tensor(v, dtype) for v in value)
    if isinstance(value, Named):
        return getattr(facula, value)
    if not isinstance(value, np.ndarray):
        return value
    array = np.array(value, order="C", subok=False)
    if not isinstance(value, Varying):
        return facula.tensor(array)
    if dtype == "bool":
        array = array > 0
    elif "int" in dtype:
        array = np.rint(array * 3)
        with np.errstate(invalid="ignore"):  # what no integer holds
            array = (np.abs(array) if dtype == "uint8" else array).astype(np.int64)
    else:
        with np.errstate(over="ignore"):
            array = array.astype(np.float32)
    return facula.tensor(array).to(getattr(facula, dtype))


def spread(t: Any) -> Any:
    """The same values, not contiguous."""
    if t.dim() == 0:
        return t
    wide = facula.zeros(*t.shape[:-1], t.shape[-1] * 2, dtype=t.dtype, device=t.device)
    view = wide[..., ::2]
    return view.copy_(t)


def junk(dtype: Any) -> Any:
    """What shows in a result, where it comes from memory that is none of a tensor's."""
    if dtype.is_floating_point or dtype.is_complex:
        return math.nan
    return dtype == facula.bool or 113


def soil(like: list[Any], number: Any = None) -> None:
    """Leave junk, or a number, in the memory that tensors like these get next."""
    held = [facula.full_like(t, junk(t.dtype) if number is None else number) for t in like]
    del held


def laid(t: Any, layout: str) -> tuple[Any, Callable[[Any], Any]]:
    """A tensor with junk around that holds the values of `t`, and what makes the view of them."""
    shape, ndim = tuple(t.shape), t.dim()
    if layout == "transposed" and ndim > 1:
        return t.transpose(-1, -2).contiguous(), lambda base: base.transpose(-1, -2)
    if layout == "sliced" and ndim > 0:
        last = shape[-1]
        base = facula.full((*shape[:-1], 2 * last + 3), junk(t.dtype), dtype=t.dtype)
        base[..., 1 : 1 + 2 * last : 2] = t
        return base, lambda base: base[..., 1 : 1 + 2 * last : 2]
    if layout == "offset":
        n = t.numel()
        base = facula.full((n + 5,), junk(t.dtype), dtype=t.dtype)
        base[3 : 3 + n] = t.reshape(-1)
        return base, lambda base: base[3 : 3 + n].view(shape)
    if layout == "expanded" and ndim > 0 and shape[0] > 1:
        return t[:1].contiguous(), lambda base: base.expand(shape)
    return t, lambda base: base


_AROUND = 1 << 28  # bytes that are taken to find a place whose neighbours are known


class Around:
    """Device memory before and behind the place that a result gets, watched.

    With a cache of blocks the result lands between the two, where there was junk before.
    """

    def __init__(self, wanted: list[Any], device: Any) -> None:
        self.watched: list[Any] = []
        self.held: list[Any] = []
        holes = []
        for t in wanted:
            if t.numel() == 0 or t.dtype == facula.bool:
                continue
            if t.nbytes % 512:  # what the cache adds to a block is nobody's
                holes.append(facula.full(t.shape, junk(t.dtype), dtype=t.dtype, device=device))
                continue
            parts: list[Any] = []
            # What is free elsewhere is taken first. Large blocks seldom lie side by side.
            for _ in range(min(24, _AROUND // t.nbytes)):
                parts.append(facula.full(t.shape, junk(t.dtype), dtype=t.dtype, device=device))
                places = [p.data_ptr() for p in parts[-3:]]
                steps = {b - a for a, b in itertools.pairwise(places)}
                if len(places) == 3 and len(steps) == 1 and 0 < steps.pop() < t.nbytes + 4096:
                    holes.append(parts.pop(-2))
                    self.watched += parts[-2:]
                    break
            self.held += parts

    def check(self) -> None:
        for t in self.watched:
            a = array(t.cpu())
            good = np.isnan(a) if a.dtype.kind in "fc" else a == 113
            assert good.all(), "memory beside the result was written"


def leaves(value: Any) -> list[Any]:
    """What lists, tuples and dicts hold, in order; a Size is one value."""
    found: list[Any] = []
    _gather(value, found)
    return found


def _gather(value: Any, found: list[Any]) -> None:
    if isinstance(value, _NESTED) and not isinstance(value, facula.Size):
        for v in value.values() if isinstance(value, dict) else value:
            if isinstance(v, _NESTED):
                _gather(v, found)
            else:
                found.append(v)
    else:
        found.append(value)


def tensors(value: Any) -> list[Any]:
    kind = facula.Tensor
    return [v for v in leaves(value) if isinstance(v, kind)]


def mapped(value: Any, fn: Callable[[Any], Any]) -> Any:
    if isinstance(value, facula.Tensor):
        return fn(value)
    if isinstance(value, list | tuple) and not isinstance(value, facula.Size):
        return type(value)(mapped(v, fn) for v in value)
    if isinstance(value, dict):
        return {k: mapped(v, fn) for k, v in value.items()}
    return value


def array(t: Any) -> np.ndarray:
    t = t.detach()
    if t.dtype in (facula.bfloat16, facula.float16):
        t = t.to(facula.float32)
    return t.numpy()


def dtype_name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]
