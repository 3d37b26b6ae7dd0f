"""Dtypes that the parts of an operator make, which a device with few of them may lack."""

from __future__ import annotations

import functools
import re

from facula.testing._arguments import dtype_name, made, tensors
from facula.testing._samples import OpRecord, operators

_WORD = re.compile(r"[A-Za-z_]\w*")


def _text(op: OpRecord) -> str:
    """The formulas of an operator: its composition and its derivatives."""
    return f"{op.data.get('composite', '')} {op.data.get('derivative', '')}"


@functools.cache
def _records() -> dict[str, OpRecord]:
    return {op.name: op for op in operators()}


@functools.cache
def _of_kernel(name: str) -> frozenset[str]:
    """Dtypes of the results of an operator that is a kernel and no composition.

    Real floats are those of the arguments: who asks for another width than the device has, errs.
    """
    op = _records()[name]
    if op.composite or op.scalar or not op.dispatch or not op.samples() or op.function() is None:
        return frozenset()
    results = []
    for dtype in ("float32", "float64"):
        args, kwargs = made(op.sample(0), dtype)
        results.append(op.function()(*args, **kwargs))
    made_of = [t.dtype for t in tensors(results) if not t.is_floating_point()]
    return frozenset(map(dtype_name, made_of))


@functools.cache
def made_within(name: str) -> frozenset[str]:
    """Dtypes of results of the kernels that an operator calls, or that those which it calls do."""
    records, seen, found, left = _records(), set(), set(), [name]
    while left:
        at = left.pop()
        if at in seen or at not in records:
            continue
        seen.add(at)
        found |= _of_kernel(at)
        left += _WORD.findall(_text(records[at]))
        if "any" in (records[at].dispatch or {}):  # in C++, of helpers that have its name
            left += [n for n in records if n.startswith(at + "_")]
    return frozenset(found)
