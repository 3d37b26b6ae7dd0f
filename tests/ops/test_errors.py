"""What errors say: the operator that was called, and the same text on every device."""

from __future__ import annotations

import re
from typing import Any

import facula
import pytest
from facula.testing._samples import OpRecord, operators
from harness import arguments

pytestmark = pytest.mark.filterwarnings("ignore:.*they are broadcast")

CALLED = [op for op in operators() if op.samples() and not op.derived_from and op.kind != "factory"]
TWICE = re.compile(r"[\w.]+\(\): [\w.]+\(\): ")  # an operator, and one that it is made of
# Errors about values, which a meta tensor does not have.
OF_VALUES = re.compile(
    "depends on|no values|no elements to read|integer division|out of range|leaves the storage"
    "|true elements|do not fit|all zero|add up to|number is complex|out of memory|cannot allocate"
    "|expected float32 or float64"  # a kernel may be all that refuses a dtype
)


def others(value: Any) -> list[Any]:
    """Values of the same kind that mostly do not fit."""
    if isinstance(value, facula.Tensor):
        shape = list(value.shape)
        shapes = [[*shape, 2], shape[:-1] if shape else [3], [n + 1 for n in shape] or [2]]
        for d in {0, len(shape) - 1} if shape else ():
            shapes.append([n + (i == d) for i, n in enumerate(shape)])
        tensors = [facula.zeros(s, dtype=value.dtype) for s in shapes]
        kinds = [facula.bool, facula.complex128]
        return tensors + [value.to(kind) for kind in kinds]
    if isinstance(value, bool):
        return []
    if isinstance(value, int):
        return [value + 50, -1000, 1 << 62]  # padding of 50 in three dims fits any machine
    if isinstance(value, str):
        return ["nope"]
    if isinstance(value, list):
        found = [value + value, value[:-1]]
        if value and all(isinstance(v, int) for v in value):
            found += [[v - 1000 for v in value], [v + 50 for v in value]]
        elif value:
            found += [[other, *value[1:]] for other in others(value[0])]
        return found
    return []


def misfits(op: OpRecord) -> Any:
    """Calls with one argument that was changed."""
    for i in range(len(op.data["samples"])):
        _, args, kwargs = arguments(op.sample(i), "float64")
        for k, value in enumerate(args):
            for other in others(value):
                if op.kind == "random" and isinstance(other, list | int):
                    continue  # an honest request for too much memory
                yield [*args[:k], other, *args[k + 1 :]], kwargs
        for name, value in kwargs.items():
            for other in others(value):
                yield args, {**kwargs, name: other}


def error_of(function: Any, args: list[Any], kwargs: dict[str, Any]) -> Exception | None:
    try:
        function(*[a.clone() if isinstance(a, facula.Tensor) else a for a in args], **kwargs)
    except Exception as error:
        return error
    return None


def meta(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(meta(v) for v in value)
    return value.to("meta") if isinstance(value, facula.Tensor) else value


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in CALLED])
def test_errors(op: OpRecord) -> None:
    """An error begins with the public name, and checks of shapes and dtypes need no data."""
    function = op.function()
    names = {op.base_name, *(path.rpartition(".")[2] for path in op.python)}
    names |= {name.removesuffix("_") for name in names}
    for args, kwargs in misfits(op):
        error = error_of(function, args, kwargs)
        tensors = [v for v in [*args, *kwargs.values()] if isinstance(v, facula.Tensor | list)]
        there = None
        if tensors:
            there = error_of(
                function, [meta(a) for a in args], {k: meta(v) for k, v in kwargs.items()}
            )
        text = str(error or "")
        if error is not None and not op.internal:
            name = re.split(r"[(:]", text)[0].rpartition(".")[2]
            assert name in names, f"{op.name}({args}, {kwargs}): {text}"
            assert not TWICE.match(text), f"{op.name}({args}, {kwargs}): {text}"
        assert "internal error" not in text, f"{op.name}({args}, {kwargs}): {text}"
        if tensors and not OF_VALUES.search(f"{text} {there}"):
            assert (type(there), str(there or "")) == (type(error), text), (
                f"{op.name}({args}, {kwargs}) on meta: {there!r}, on cpu: {error!r}"
            )
