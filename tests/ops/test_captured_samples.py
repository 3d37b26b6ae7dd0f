"""Every sample of the schema within a compiled function: the bits that it gives outside of one.

The oracle is facula itself run eagerly, which other tests hold against NumPy; what is tested here
is that capture changes nothing. Inputs are results that nothing has computed yet, so that whatever
reads memory without asking finds the NaN that checked captures fill it with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula import _C
from facula.testing._samples import OpRecord, operators
from harness import arguments

OPERATORS = [op for op in operators() if op.samples() and op.function() is not None]


def checked(function: Callable[[], Any]) -> Any:
    with _C._Capture(False, True, False):
        return function()


def mapped(values: Any, change: Callable[[fa.Tensor], fa.Tensor]) -> Any:
    if isinstance(values, fa.Tensor):
        return change(values)
    if isinstance(values, dict):
        return {k: mapped(v, change) for k, v in values.items()}
    if type(values) in (list, tuple):
        return type(values)(mapped(v, change) for v in values)
    return values


def tensors_of(values: Any) -> list[fa.Tensor]:
    if isinstance(values, fa.Tensor):
        return [values]
    if isinstance(values, dict):
        values = list(values.values())
    return [t for v in values for t in tensors_of(v)] if isinstance(values, list | tuple) else []


def pending(t: fa.Tensor) -> fa.Tensor:
    """The same bits, of a product that a capture takes down."""
    if not (t.is_floating_point() or t.is_complex()) or t.layout is not fa.strided:
        return t
    return t * 1


def outcome(op: OpRecord, index: int, grads: bool) -> Any:
    """Results, gradients and random state, or the error."""
    function = op.function()
    assert function is not None
    _, args, kwargs = arguments(
        op.sample(index), "float32" if not op.dtypes or "float" in op.dtypes else None
    )
    args, kwargs = mapped([args, kwargs], lambda t: t.clone())
    leaves = [t for t in tensors_of([args, kwargs]) if grads and t.is_floating_point()]
    for t in leaves:
        t.requires_grad_()
    fa.manual_seed(7)
    try:
        given, named = mapped([args, kwargs], pending)
        results = function(*given, **named)
        found = tensors_of(mapped(results, pending)) or [results]
        outs = [t for t in found if isinstance(t, fa.Tensor) and t.requires_grad]
        if outs:
            flat = sum(((o.abs() if o.is_complex() else o) * 0.5).sum() for o in outs)
            found += [g for g in fa.autograd.grad(flat, leaves, allow_unused=True) if g is not None]
        found += tensors_of([given, named])  # what in-place operators change
    except Exception as error:
        return type(error), str(error)
    return found


def shown(value: Any) -> Any:
    if not isinstance(value, fa.Tensor) or value.layout is not fa.strided:
        return repr(value)
    value = value.detach()
    if value.dtype is fa.bfloat16:
        return value.shape, value.stride(), "bfloat16", value.float().numpy().tobytes()
    if value.is_complex():
        value = value.resolve_conj()
    array = value.numpy()
    return value.shape, value.stride(), str(value.dtype), np.ascontiguousarray(array).tobytes()


def is_undetermined(op: OpRecord) -> bool:
    return any(word in op.name for word in ("empty", "resize"))


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_sample_is_the_same_captured(op: OpRecord) -> None:
    if is_undetermined(op):
        pytest.skip("its result holds whatever was in memory")
    for index in range(min(3, len(op.data["samples"]))):
        for grads in (False, True) if op.differentiable else (False,):
            eager = outcome(op, index, grads)
            captured = checked(lambda i=index, g=grads: outcome(op, i, g))
            where = f"{op.name} {op.data['samples'][index]} grads={grads}"
            if isinstance(eager, tuple):
                assert captured == eager, where
            else:
                assert not isinstance(captured, tuple), (where, captured)
                assert list(map(shown, captured)) == list(map(shown, eager)), where
