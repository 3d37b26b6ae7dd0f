"""The values of an operator: against its reference, in every form, layout and on the meta device.

Each check takes a record and mostly the number of one of its samples; it raises, or skips what says
nothing.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest

import facula
from facula.testing._calls import arguments, call, compare, reference, to_numpy
from facula.testing._samples import OpRecord


def tensors(values: list[object]) -> list[facula.Tensor]:
    found = []
    for v in values:
        if isinstance(v, facula.Tensor):
            found.append(v)
        elif isinstance(v, list | tuple):
            found += tensors(list(v))
    return found


def check_value(op: OpRecord, index: int, dtype: str, references: Any = None) -> None:
    """Against its reference."""
    numpy, args, kwargs = arguments(op.sample(index), dtype)
    try:
        got = call(op, args, kwargs)
    except OverflowError:
        if dtype != "uint8":
            raise
        pytest.skip("a negative number does not fit uint8")
    if isinstance(got, facula.Tensor) and kwargs.get("dtype") is not None:
        assert got.dtype == kwargs["dtype"]
    compare(op, to_numpy(got), reference(op, numpy, references), dtype, numpy)


def spread(value: object) -> object:
    """The same tensor as a strided, offset view of a larger one."""
    if isinstance(value, list | tuple):
        return type(value)(spread(v) for v in value)
    if not isinstance(value, facula.Tensor) or value.ndim == 0:
        return value
    shape = list(value.shape)
    big = facula.zeros([n * 2 + 1 for n in shape], dtype=value.dtype)
    view = big[tuple(slice(1, 2 * n + 1, 2) for n in shape)]
    view.copy_(value)
    return view


def check_non_contiguous_inputs(op: OpRecord, index: int) -> None:
    """Layout of the inputs does not change the values."""
    if op.property or op.kind in ("random", "factory") or op.name.startswith("empty"):
        pytest.skip("random or made from nothing")
    _, args, kwargs = arguments(op.sample(index), "float64")
    want = to_numpy(call(op, copy.deepcopy(args), kwargs))
    got = to_numpy(call(op, [spread(a) for a in args], {k: spread(v) for k, v in kwargs.items()}))
    compare(op, got, want, "float64")


def check_out(op: OpRecord, index: int) -> None:
    """out= gives the functional result, into an empty tensor and into a strided one."""
    if op.property or op.kind == "random":
        pytest.skip("random")
    _, args, kwargs = arguments(op.sample(index), "float64")
    want = op.function()(*args, **kwargs)
    many = isinstance(want, tuple)
    wanted = want if many else (want,)
    for make in (
        lambda t: facula.empty([0], dtype=t.dtype),
        lambda t: spread(facula.zeros_like(t)),
    ):
        outs = tuple(make(t) for t in wanted)
        got = op.function()(*args, **kwargs, out=outs if many else outs[0])
        assert (got if many else (got,))[0] is outs[0]
        for o, w in zip(outs, wanted, strict=True):
            compare(op, to_numpy(o), to_numpy(w), "float64")


def inplace_form(op: OpRecord, tensor: facula.Tensor) -> Callable[..., Any] | None:
    """The bound in-place method, or the function where there is only that."""
    name = op.base_name + "_"
    if hasattr(tensor, name):
        return getattr(tensor, name)
    for path in op.python:
        space = op.place(path.rpartition(".")[0])
        if hasattr(space, name):
            return functools.partial(getattr(space, name), tensor)
    return None


def check_inplace(op: OpRecord, index: int) -> None:
    """op_ changes self to the functional result, or says why it cannot."""
    if op.property or op.kind == "random":
        pytest.skip("random")
    _, args, kwargs = arguments(op.sample(index), "float64")
    if not args or not isinstance(args[0], facula.Tensor):
        pytest.skip("self is no tensor here")
    want = op.function()(*args, **kwargs)
    mine = args[0].clone()
    method = inplace_form(op, mine)
    if method is None:
        pytest.skip("its in-place form is not public")
    if tuple(want.shape) != tuple(mine.shape) or want.dtype != mine.dtype:
        try:
            method(*args[1:], **kwargs)
        except (RuntimeError, ValueError, TypeError):
            return
        assert mine.shape == want.shape
        return
    assert method(*args[1:], **kwargs) is mine
    compare(op, to_numpy(mine), to_numpy(want), "float64")


def check_meta(op: OpRecord, index: int) -> None:
    """On the meta device the result has the same shape and dtype, and no data."""
    if op.kind in ("factory", "mutation") or any(
        not r["type"].startswith("Tensor") for r in op.returns
    ):
        pytest.skip("needs values")
    _, args, kwargs = arguments(op.sample(index), "float64")
    if not tensors([*args, *kwargs.values()]):
        pytest.skip("no tensor input")

    def meta(v: object) -> object:
        if isinstance(v, list | tuple):
            return type(v)(meta(x) for x in v)
        return v.to("meta") if isinstance(v, facula.Tensor) else v

    want = op.function()(*args, **kwargs)
    try:
        got = op.function()(*[meta(a) for a in args], **{k: meta(v) for k, v in kwargs.items()})
    except (RuntimeError, NotImplementedError) as error:
        if error.kind == "values":
            pytest.skip("the shape depends on the values")
        raise
    for g, w in zip(
        *([x] if isinstance(x, facula.Tensor) else x for x in (got, want)), strict=True
    ):
        assert g.device.type == "meta"
        assert (tuple(g.shape), g.dtype) == (tuple(w.shape), w.dtype)


def check_bad_arguments(op: OpRecord) -> None:
    """Wrong kinds of arguments raise and name the operator; nothing crashes."""
    function = op.function()
    _, args, kwargs = arguments(op.sample(0), "float64")
    first = next((i for i, a in enumerate(args) if isinstance(a, facula.Tensor)), None)
    with pytest.raises(TypeError):
        function(*args, **kwargs, no_such_argument=1)
    if first is not None and op.properties == []:
        wrong = list(args)
        wrong[first] = "a string"
        with pytest.raises((TypeError, AttributeError)):
            function(*wrong, **kwargs)
