"""Tests of the operators of an extension, made of their entries as those of facula's own are.

In a test module, after the extension was imported or built:

    globals().update(facula.testing.operators.tests_of("my_extension"))

Values are compared with `reference`, gradients with finite differences, forward mode with reverse,
shapes on the meta device with those of the CPU. It takes pytest, NumPy and what references use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import facula.ops
from facula.testing import _gradients, _values
from facula.testing._calls import dtypes_of
from facula.testing._samples import OpRecord

__all__ = ["tests_of"]


def tests_of(namespace: str, references: Any = None) -> dict[str, Callable[..., None]]:
    """Test functions for pytest, by name.

    `references` is what the name `ref` stands for in entries' `reference`. Raises AttributeError
    when no extension of the name was imported.
    """
    getattr(facula.ops, namespace)
    records = [OpRecord(r, r["name"]) for r in facula.ops._records[namespace]]
    tested = [op for op in records if op.data["samples"] and not op.derived_from]
    cases = [(op, i) for op in tested for i in range(len(op.data["samples"]))]
    typed = [(op, i, d) for op, i in cases if op.reference for d in dtypes_of(op)]
    named = {
        "value": (lambda op, i, d: _values.check_value(op, i, d, references), typed),
        "non_contiguous_inputs": (_values.check_non_contiguous_inputs, cases),
        "out": (_values.check_out, [c for c in cases if _has(c[0], "out")]),
        "inplace": (_values.check_inplace, [c for c in cases if _has(c[0], "inplace")]),
        "meta": (_values.check_meta, cases),
        "bad_arguments": (_values.check_bad_arguments, [(op,) for op in tested]),
    }
    smooth = [c for c in cases if _gradients.is_differentiable(c[0])]
    ahead = [c for c in smooth if _gradients.has_forward(c[0])]
    named |= {
        "gradient": (_gradients.check_gradient, smooth),
        "second_gradient": (_gradients.check_second_gradient, smooth),
        "forward": (_gradients.check_forward, ahead),
        "forward_over_reverse": (_gradients.check_forward_over_reverse, ahead),
    }
    return {f"test_{name}": _test(*of) for name, of in named.items() if of[1]}


def _has(op: OpRecord, variant: str) -> bool:
    return variant in op.variants and not op.internal


def _test(check: Callable[..., None], cases: list[tuple[Any, ...]]) -> Callable[..., None]:
    listed = [pytest.param(c, id="-".join([c[0].name, *map(str, c[1:])])) for c in cases]

    @pytest.mark.parametrize("case", listed)
    def test(case: tuple[Any, ...]) -> None:
        check(*case)

    return test
