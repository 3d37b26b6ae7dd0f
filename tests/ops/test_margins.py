"""Operands and results amidst larger memory: what lies around is neither read nor written.

Around operands lies what would show in any result, NaN and large numbers; around results a pattern.
"""

from __future__ import annotations

import itertools
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.testing._samples import OpRecord, operators
from harness import arguments, to_numpy

MARGIN = 40
OUT = [o for o in operators() if o.samples() and o.function() and "out" in o.variants]
INPLACE = [o for o in operators() if o.samples() and o.function() and "inplace" in o.variants]
METHOD = [o for o in INPLACE if hasattr(fa.Tensor, o.base_name + "_")]
PLAIN = [
    o for o in operators() if o.samples() and o.function() and "random" not in (o.traits or ())
]


def _filled(n: int, dtype: fa.dtype) -> fa.Tensor:
    if dtype == fa.bool:
        return fa.ones(n, dtype=dtype)
    if dtype.is_floating_point or dtype.is_complex:
        return fa.full((n,), float("nan"), dtype=dtype)
    return fa.full((n,), 101, dtype=dtype)


def within(t: fa.Tensor) -> tuple[fa.Tensor, fa.Tensor]:
    """The same numbers amidst others, and the memory that holds both."""
    room = _filled(t.numel() + 2 * MARGIN, t.dtype)
    part = room.narrow(0, MARGIN, t.numel()).view(t.shape)
    part.copy_(t.detach())
    return part, room


def around(room: fa.Tensor) -> np.ndarray:
    ends = np.asarray(to_numpy(room.detach()))
    return np.concatenate([ends[:MARGIN], ends[-MARGIN:]])


def untouched(room: fa.Tensor) -> None:
    np.testing.assert_array_equal(around(room), around(_filled(room.numel(), room.dtype)))


def moved(value: Any, rooms: list[fa.Tensor]) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(moved(v, rooms) for v in value)
    if not fa.is_tensor(value) or not value.is_contiguous() or value.layout != fa.strided:
        return value
    part, room = within(value)
    rooms.append(room)
    return part


def leaves(value: Any) -> list[fa.Tensor]:
    if fa.is_tensor(value):
        return [value]
    return [t for v in value for t in leaves(v)] if isinstance(value, list | tuple) else []


def same(got: Any, want: Any) -> None:
    for g, w in itertools.zip_longest(leaves(got), leaves(want)):
        assert g.shape == w.shape and g.dtype == w.dtype
        np.testing.assert_array_equal(to_numpy(g.detach()), to_numpy(w.detach()))


def tried(op: OpRecord) -> list[tuple[list[Any], dict[str, Any]]]:
    kinds = ["float32", "float64"] if "float" in (op.dtypes or ["float"]) else [None]
    found = []
    for sample, dtype in itertools.product(op.samples(), kinds):
        _, args, kwargs = arguments(sample, dtype)
        found.append((args, kwargs))
    return found


# Strides, offsets and memory are what these are about.
BY_MEMORY = ("as_strided", "_storage", "set_", "resize", "empty", "view_as_complex", "data_ptr")


@pytest.mark.parametrize(
    "op", [o for o in PLAIN if not any(w in o.name for w in BY_MEMORY)], ids=lambda o: o.name
)
def test_operands_amidst_others(op: OpRecord) -> None:
    for args, kwargs in tried(op):
        rooms: list[fa.Tensor] = []
        placed = moved(args, rooms)
        named = {k: moved(v, rooms) for k, v in kwargs.items()}
        want = op.function()(*args, **kwargs)
        same(op.function()(*placed, **named), want)
        for room in rooms:
            untouched(room)


@pytest.mark.parametrize(
    "op", [o for o in OUT if not any(w in o.name for w in BY_MEMORY)], ids=lambda o: o.name
)
def test_results_amidst_others(op: OpRecord) -> None:
    for args, kwargs in tried(op):
        fa.manual_seed(3)
        want = op.function()(*args, **kwargs)
        results = leaves(want)
        if any(not t.is_contiguous() for t in results):
            continue
        places = [within(fa.zeros_like(t)) for t in results]
        out: Any = tuple(p for p, _ in places) if len(places) > 1 else places[0][0]
        fa.manual_seed(3)
        op.function()(*args, **kwargs, out=out)
        same(out, want)
        for _, room in places:
            untouched(room)


@pytest.mark.parametrize("op", METHOD, ids=lambda o: o.name)
def test_written_in_place_amidst_others(op: OpRecord) -> None:
    for args, kwargs in tried(op):
        if not fa.is_tensor(args[0]):
            continue
        fa.manual_seed(3)
        want = op.function()(*args, **kwargs)
        if want.shape != args[0].shape or want.dtype != args[0].dtype:
            continue
        part, room = within(args[0])
        fa.manual_seed(3)
        getattr(part, op.base_name + "_")(*args[1:], **kwargs)
        same(part, want)
        untouched(room)
