"""Tensors of different devices in one call: an error that says so, never a read of memory that is
not there. A crash takes the test process down and so fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import facula as fa
import pytest
from facula.testing._samples import OpRecord, operators
from harness import arguments, find


def tensors_in(value: Any) -> Iterator[fa.Tensor]:
    for v in value if isinstance(value, list | tuple) else [value]:
        if isinstance(v, fa.Tensor):
            yield v


def moved(value: Any, places: list[bool]) -> Any:
    """`value` with its next tensors on meta where `places` says so."""
    if isinstance(value, list | tuple):
        return type(value)(moved(v, places) for v in value)
    if isinstance(value, fa.Tensor):
        return value.to("meta") if places.pop(0) else value
    return value


def count(args: list[Any], kwargs: dict[str, Any]) -> int:
    return sum(1 for v in [*args, *kwargs.values()] for _ in tensors_in(v))


SEVERAL = [
    pytest.param(op, id=op.name)
    for op in operators()
    if op.samples() and any(count(*arguments(s, None)[1:]) > 1 for s in op.samples())
]


@pytest.mark.parametrize("op", SEVERAL)
def test_one_tensor_on_meta(op: OpRecord) -> None:
    function = find(op)
    for sample in op.samples():
        _, args, kwargs = arguments(sample, None)
        n = count(args, kwargs)
        for odd in range(n if n > 1 else 0):
            for others in (False, True):
                places = [others != (i == odd) for i in range(n)]
                a = moved(args, places)
                k = {name: moved(v, places) for name, v in kwargs.items()}
                try:
                    results = list(tensors_in(function(*a, **k)))
                except (RuntimeError, NotImplementedError):
                    continue
                for t in results:  # views and 0-d numbers may stay; their values must be there
                    if t.device.type == "cpu":
                        t.tolist()


@pytest.mark.parametrize(
    "call",
    [
        lambda c, m: fa.mm(c(3, 4), m(4, 5)),
        lambda c, m: fa.mm(m(3, 4), c(4, 5)),
        lambda c, m: fa.nn.functional.linear(c(2, 3), m(4, 3)),
        lambda c, m: fa.nn.functional.conv2d(c(1, 2, 4, 4), c(3, 2, 1, 1), m(3)),
        lambda c, m: fa.nn.functional.layer_norm(c(2, 3), [3], m(3)),
        lambda c, m: c(4, 3)[m(2).to(fa.int64)],
        lambda c, m: c(4).index_add_(0, fa.tensor([0, 1]), m(2)),
        lambda c, m: fa.cat([c(2), m(2)]),
        lambda c, m: fa.mm(c(3, 4), c(4, 5), out=m(3, 5)),
        lambda c, m: fa.nn.functional.cross_entropy(c(2, 3), m(2).to(fa.int64)),
        lambda c, m: fa.nn.Linear(3, 2, device="meta")(c(1, 3)),
    ],
)
def test_kernels_want_one_device(call: Any) -> None:
    with pytest.raises(RuntimeError, match=r"on (the )?meta"):
        call(fa.ones, lambda *size: fa.ones(*size, device="meta"))
