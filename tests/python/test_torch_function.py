"""`__torch_function__`: classes that answer for their calls, and modes."""

from __future__ import annotations

from typing import ClassVar

import facula as fa
import facula.nn.functional as F
import pytest
from facula.overrides import (
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    TorchFunctionMode,
    handle_torch_function,
    has_torch_function,
    is_tensor_method_or_property,
    overridable,
    resolve_name,
)


class Foreign:
    """No tensor; answers with the name and the arguments of the call."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__, types, args, kwargs or {}


class Logged(fa.Tensor):
    """A tensor that notes its calls."""

    calls: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


@pytest.fixture
def logged():
    Logged.calls = []
    return fa.arange(4.0).as_subclass(Logged)


f = Foreign()


@pytest.mark.parametrize(
    "call, name, kwargs",
    [
        (lambda: fa.add(f, 1), "add", {}),
        (lambda: fa.add(fa.ones(2), f), "add", {}),
        (lambda: fa.cat([fa.ones(1), f], dim=0), "cat", {"dim": 0}),
        (lambda: fa.ones(2).mul(f), "mul", {}),
        (lambda: fa.ones(2).sum(dim=f), "sum", {"dim": f}),
        (lambda: fa.ones(2) + f, "add", {}),
        (lambda: fa.ones(2)[f], "__getitem__", {}),
        (lambda: F.linear(f, fa.ones(2, 2)), "linear", {}),
        (lambda: F.relu(f), "relu", {}),
        (lambda: F.pad(f, (1, 1)), "pad", {}),
    ],
)
def test_foreign_objects_answer_for_calls(call, name, kwargs):
    found = call()
    assert found[0] == name
    assert found[1] == (Foreign,)
    assert found[3] == kwargs
    assert any(f is a or (isinstance(a, list) and f in a) for a in (*found[2], *kwargs.values()))


def test_errors_of_other_objects_stay():
    with pytest.raises(TypeError, match=r"add\(\)"):
        fa.add(fa.ones(2), object())
    with pytest.raises(IndexError):
        fa.ones(2)[object()]


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda t: t + 1, "add"),
        (lambda t: 1 - t, "sub"),
        (lambda t: -t, "neg"),
        (lambda t: t.sum(), "sum"),
        (lambda t: fa.exp(t), "exp"),
        (lambda t: fa.stack([t, t]), "stack"),
        (lambda t: t[1:], "__getitem__"),
        (lambda t: t > 0, "gt"),
        (lambda t: F.leaky_relu(t), "leaky_relu"),
    ],
)
def test_subclasses_are_asked_once_and_keep_their_class(logged, call, name):
    plain = call(logged.as_subclass(fa.Tensor))
    Logged.calls.clear()
    result = call(logged)
    assert Logged.calls == [name]
    assert type(result) is Logged
    assert fa.equal(result.as_subclass(fa.Tensor), plain)


def test_assignment_asks(logged):
    logged[0] = 7
    assert Logged.calls == ["__setitem__"]
    with DisableTorchFunctionSubclass():
        assert logged[0].item() == 7


def test_disabled_classes_give_plain_tensors(logged):
    with DisableTorchFunctionSubclass():
        assert type(logged + 1) is fa.Tensor
    assert Logged.calls == []


def test_subclasses_come_before_their_bases():
    order = []

    class Base(fa.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            order.append(cls.__name__)
            return NotImplemented if cls.__name__ == "Narrow" else "answer"

    class Narrow(Base):
        pass

    base, narrow = fa.ones(4).as_subclass(Base), fa.ones(4).as_subclass(Narrow)
    assert fa.add(base, narrow) == "answer"
    assert order == ["Narrow", "Base"]
    with pytest.raises(TypeError, match=r"no class answers for torch\.add"):
        fa.add(narrow, narrow)


def test_gradients_flow_through_a_class():
    x = fa.ones(3, requires_grad=True)
    y = (x.as_subclass(Logged) * 2).sum()
    y.backward()
    assert x.grad.tolist() == [2, 2, 2]


class Names(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_modes_see_calls_of_plain_tensors():
    with Names() as outer, Names() as inner:
        fa.relu(fa.ones(2))
    assert inner.names == outer.names == ["ones", "relu"]
    fa.ones(2)
    assert len(inner.names) == 2


def test_modes_are_off_within_disable():
    with Names() as mode, DisableTorchFunction():
        fa.ones(2)
    assert mode.names == []


def test_modes_end_with_an_error():
    with pytest.raises(ZeroDivisionError), Names():
        raise ZeroDivisionError
    fa.ones(1)


def test_functions_of_programs_can_ask():
    @overridable
    def double(x, by=2):
        """Documented."""
        return x * by

    assert double(fa.ones(1)).item() == 2
    assert double(f, by=3)[0] == "double"
    assert double.__doc__ == "Documented."
    assert has_torch_function((fa.ones(1), f)) and not has_torch_function((fa.ones(1), 2))
    assert handle_torch_function(double, (f,), f)[0] == "double"


def test_names_of_functions():
    assert resolve_name(fa.add) == "torch.add"
    assert resolve_name(fa.Tensor.add) == "torch.Tensor.add"
    assert resolve_name(F.max_pool2d) == "torch.nn.functional.max_pool2d"
    assert is_tensor_method_or_property(fa.Tensor.add)
    assert not is_tensor_method_or_property(fa.add)


def test_parameters_are_plain_in_results():
    assert type(fa.nn.Parameter(fa.ones(2)) + 1) is fa.Tensor
