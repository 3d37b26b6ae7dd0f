"""What an operator did before, and what else is asked of it, changes no bit of what it gives.

A call on NaN leaves NaN in the memory of its results and of its work, which the next call of the
same sizes is given. And each gradient alone is the gradient that comes beside the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.testing._gradients import function_of_floats, is_differentiable
from facula.testing._samples import OpRecord, Sample, Varying, operators
from harness import arguments, to_numpy

from tests.grouped import grouped

# What lies there before is what these show.
UNSET = ("empty_like", "new_empty", "new_empty_strided", "resize_", "resize_as_")
FUNCTIONS = [
    pytest.param(op, i, id=f"{op.name}-{i}")
    for op in operators()
    if op.function() is not None
    and op.name not in UNSET
    and "random" not in (op.traits or ())
    and op.kind != "factory"
    for i in range(len(op.data["samples"]))
]
GRADIENTS = [
    pytest.param(op, i, id=f"{op.name}-{i}")
    for op in operators()
    if is_differentiable(op)
    for i in range(len(op.data["samples"]))
]


def _spoilt(value: Any) -> Any:
    if isinstance(value, list):
        return [_spoilt(v) for v in value]
    if isinstance(value, Varying):
        return np.full_like(np.asarray(value), np.nan).view(type(value))
    return value


def _flat(results: Any) -> list[np.ndarray]:
    if isinstance(results, tuple | list):
        return [leaf for r in results for leaf in _flat(r)]
    return [np.asarray(to_numpy(results))]


def _same(got: Any, want: Any) -> None:
    for g, w in zip(_flat(got), _flat(want), strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_array_equal(g, w)


@grouped(("op", "index"), FUNCTIONS)
def test_values_after_nan(op: OpRecord, index: int) -> None:
    sample = op.sample(index)
    spoilt = Sample(
        [_spoilt(a) for a in sample.args], {k: _spoilt(v) for k, v in sample.kwargs.items()}
    )
    for dtype in ("float32", "float64"):

        def call(given: Sample, dtype: str = dtype) -> Any:
            _, args, kwargs = arguments(given, dtype)
            return op.function()(*args, **kwargs)  # type: ignore[misc]

        try:
            want = call(sample)
        except RuntimeError:  # a dtype that it does not take
            continue
        try:
            call(spoilt)
        except (RuntimeError, ValueError):  # values that it does not take
            continue
        _same(call(sample), want)


def _gradients(function: Any, inputs: Sequence[fa.Tensor], wanted: Sequence[bool]) -> Any:
    given = [t.detach().requires_grad_(w) for t, w in zip(inputs, wanted, strict=True)]
    results = function(*given)
    results = results if isinstance(results, tuple | list) else (results,)
    roots = [r for r in results if r.requires_grad]
    if not roots:
        return [None for w in wanted if w]
    # Different weights, so that nothing cancels.
    weights = [fa.arange(1.0, r.numel() + 1).view(r.shape).to(r.dtype) for r in roots]
    leaves = [t for t in given if t.requires_grad]
    return fa.autograd.grad(roots, leaves, weights, allow_unused=True)


def _plain(results: Sequence[fa.Tensor | None]) -> list[fa.Tensor]:
    return [fa.zeros(0) if r is None else r for r in results]


@grouped(("op", "index"), GRADIENTS)
def test_gradients_after_nan(op: OpRecord, index: int) -> None:
    function, inputs = function_of_floats(op, index)
    if not inputs:
        return
    every = [True] * len(inputs)
    want = _plain(_gradients(function, inputs, every))
    try:
        _gradients(function, [fa.full_like(t, float("nan")) for t in inputs], every)
    except (RuntimeError, ValueError):
        return
    _same(_plain(_gradients(function, inputs, every)), want)


@grouped(("op", "index"), GRADIENTS)
def test_each_gradient_alone(op: OpRecord, index: int) -> None:
    function, inputs = function_of_floats(op, index)
    if len(inputs) < 2:
        return
    together = _plain(_gradients(function, inputs, [True] * len(inputs)))
    for k in range(len(inputs)):
        alone = _plain(_gradients(function, inputs, [i == k for i in range(len(inputs))]))
        got, want = _flat(alone), _flat([together[k]])
        for g, w in zip(got, want, strict=True):
            # Another of several methods may be chosen.
            size = np.abs(w[np.isfinite(w)]).max(initial=1e-300)
            np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-13 * size)
