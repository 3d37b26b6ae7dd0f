"""NaN and infinities in each tensor of the calls that the schema's samples make: no process dies.

Forward and backward, with and without the optional tensors.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
from collections.abc import Iterator
from typing import Any

import facula as fa
import pytest
from facula.testing._samples import OpRecord, operators
from harness import arguments, call

FILLS = (math.nan, math.inf, -math.inf)
OPERATORS = [
    op
    for op in operators()
    if op.samples() and not op.derived_from and (not op.dtypes or "float" in op.dtypes)
]
ALLOWED = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)


def filled(x: fa.Tensor, number: float, whole: bool) -> fa.Tensor:
    y = x.clone()
    if whole:
        return y.fill_(number)
    y.view(-1)[x.numel() // 2] = number
    return y


def floats_of(values: list[Any]) -> list[int]:
    return [
        i
        for i, v in enumerate(values)
        if isinstance(v, fa.Tensor) and v.is_floating_point() and v.numel() > 0
    ]


def run(op: OpRecord, args: list[Any], kwargs: dict[str, Any]) -> None:
    given = [args[i] for i in floats_of(args)]
    if op.differentiable:
        for x in given:
            x.requires_grad_()
    outs = call(op, args, kwargs)
    outs = [outs] if isinstance(outs, fa.Tensor) else list(outs)
    outs = [y for y in outs if isinstance(y, fa.Tensor) and y.requires_grad]
    if outs:
        fa.autograd.grad(
            [y.real if y.is_complex() else y for y in outs],
            given,
            [fa.ones_like(y.real if y.is_complex() else y) for y in outs],
            allow_unused=True,
        )


def without_optional(op: OpRecord, args: list[Any]) -> Iterator[list[Any]]:
    """The arguments as they are, and with those left out that may be."""
    yield args
    types = [a["type"] for a in op.data["arguments"]]
    least = [None if t == "Tensor?" else a for a, t in zip(args, types, strict=False)]
    if any(a is not b for a, b in zip(args, least, strict=False)):
        yield least


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_lives(op: OpRecord) -> None:
    for index, dtype in itertools.product(
        range(len(op.data["samples"])), ("float32", "float64", "bfloat16")
    ):
        _, given, kwargs = arguments(op.sample(index), dtype)
        for args in without_optional(op, given):
            for number, whole, at in itertools.product(FILLS, (False, True), floats_of(args)):
                mine = [a.clone() if isinstance(a, fa.Tensor) else copy.copy(a) for a in args]
                mine[at] = filled(mine[at], number, whole)
                with contextlib.suppress(*ALLOWED):
                    run(op, mine, kwargs)
