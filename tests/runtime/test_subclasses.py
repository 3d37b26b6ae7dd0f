"""Objects of a subclass of Tensor: what operations on them give, and what keeps its own class."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import facula as fa
import numpy as np
import pytest


class Named(fa.Tensor):
    pass


class Narrower(Named):
    __slots__ = ("note",)


def named(*values: float) -> Named:
    return fa.tensor(list(values)).as_subclass(Named)


def test_operations_keep_the_class() -> None:
    x, plain = named(1.0, -2.0), fa.tensor([3.0, 4.0])
    results: list[Any] = [
        x + x, x + plain, plain + x, 2 * x, x - 1, -x, abs(x), x**2, 2**x, x @ plain, x == plain, x
        < 1,
        x.sin(), fa.sin(x), fa.add(plain, x), fa.nn.functional.relu(x), fa.cat([plain, x]),
        fa.stack((x, x)),
        fa.where(x > 0, x, plain), x.sum(), x.view(2, 1), x.reshape(1, 2), x.T, x.real, x.data,
        x.detach(),
        x.clone(), x.to(fa.float64), x.double(), x.type(fa.int32), x[0], x[:1], x[x > 0], x[None],
        x.unsqueeze(0),
        fa.zeros_like(x), x.new_zeros(3),
        x.new_tensor([1]), x.new_tensor(plain), x.new(2), x.new([1.0]),
        x.expand(3, 2), fa.einsum("i,i->", x, plain),
        x.requires_grad_(False),
        np.ones(2) * x, np.float64(2) * x, x.clamp(0, 1), fa.nn.functional.softmax(x, 0),
        x.contiguous(),
        fa.nn.functional.linear(x[None], fa.ones(3, 2)), x.fill_(1.0), x.add_(1), x.to("meta"),
    ]  # fmt: skip
    for i, result in enumerate(results):
        assert type(result) is Named, i
    for many in (
        x.max(0),
        x.sort(),
        fa.topk(x, 1),
        x.unbind(),
        x.split(1),
        fa.meshgrid(x, x),
        list(x),
        x.aminmax(),
    ):
        assert [type(t) for t in many] == [Named] * len(many)
    x += 1
    assert type(x) is Named
    assert x.max(0).values.shape == ()
    assert isinstance(x.shape, fa.Size)
    assert isinstance(x.item() if x.numel() == 1 else x[0].item(), float)


def test_the_most_derived_class_wins() -> None:
    x, y = named(1.0), fa.tensor([1.0]).as_subclass(Narrower)
    for result in (x + y, y + x, fa.cat([x, y])):
        assert type(result) is Narrower
    y.note = "kept"
    assert not hasattr(y + 1, "note")
    assert (y + 1).tolist() == [2.0]


def test_what_exists_already_keeps_its_class() -> None:
    x, out = named(1.0, 2.0), fa.empty(2)
    assert fa.add(x, x, out=out) is out
    assert type(out) is fa.Tensor
    plain = fa.ones(2)
    assert plain.add_(x) is plain
    assert type(plain) is fa.Tensor
    plain += x
    assert type(plain) is fa.Tensor
    assert x.contiguous() is x
    assert x.to(x.dtype) is x
    assert x.numpy().tolist() == [1.0, 2.0]
    assert type(fa.ones(2) + fa.ones(2)) is fa.Tensor


def test_copies_and_files() -> None:
    x = named(1.0, 2.0)
    x.label = "a"
    for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(other) is Named
        assert other.tolist() == [1.0, 2.0]
        assert other.label == "a"


def test_autograd_goes_through() -> None:
    x = named(1.0, 2.0).requires_grad_()
    y = (x * x).sum()
    assert type(y) is Named
    y.backward()
    assert x.grad.tolist() == [2.0, 4.0]
    assert type(y.grad_fn).__name__ == "SumBackward0"
    held = x.sin()
    gone = weakref.ref(held)
    other = held.exp()
    del held
    gc.collect()
    assert type(other) is Named
    other.sum().backward()
    del other
    gc.collect()
    assert gone() is None


def test_operations_on_parameters_give_tensors() -> None:
    class Weight(fa.nn.Parameter):
        pass

    class Kept(fa.nn.Buffer):
        pass

    for own in (
        fa.nn.Parameter(fa.ones(2)),
        Weight(fa.ones(2)),
        fa.nn.Buffer(fa.ones(2)),
        Kept(fa.ones(2)),
    ):
        named(1.0)  # a subclass is in use
        for result in (
            own + 1,
            own.detach(),
            own[0],
            own.data,
            fa.cat([own, own]),
            own.clone(),
            own.T,
            next(iter(own)),
        ):
            assert type(result) is fa.Tensor
        assert type(copy.deepcopy(own)) is type(own)
        assert type(own + named(1.0, 2.0)) is Named


def test_errors_leave_no_trace() -> None:
    x = named(1.0, 2.0)
    with pytest.raises(RuntimeError):
        x + fa.ones(3)
    with pytest.raises(TypeError):
        x + "a"
    assert type(fa.ones(2) + 1) is fa.Tensor
