"""Of every differentiable operator: inputs, results and gradients die when the last name does."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import facula
from facula.testing._gradients import function_of_floats, is_differentiable
from facula.testing._samples import operators


def test_graphs_die() -> None:
    refs: list[tuple[str, weakref.ref[Any]]] = []

    def build(op: Any, index: int) -> None:
        function, inputs = function_of_floats(op, index)
        if not inputs:
            return
        try:
            results = function(*inputs)
        except RuntimeError:  # values that it does not take
            return
        results = results if isinstance(results, tuple | list) else (results,)
        roots = [r for r in results if r.requires_grad]
        if not roots:
            return
        try:
            facula.autograd.backward(roots, [facula.ones_like(r) for r in roots], create_graph=True)
        except RuntimeError:  # no second derivative
            facula.autograd.backward(roots, [facula.ones_like(r) for r in roots])
        for what, tensors in (("input", inputs), ("result", roots)):
            for t in tensors:
                t.tag = t
                refs.append((f"{op.name}-{index}: {what}", weakref.ref(t)))
        refs.extend(
            (f"{op.name}-{index}: grad", weakref.ref(t.grad)) for t in inputs if t.grad is not None
        )

    for op in filter(is_differentiable, operators()):
        for index in range(len(op.data["samples"])):
            build(op, index)
    assert len(refs) > 1000
    gc.collect()
    assert [name for name, ref in refs if ref() is not None] == []
