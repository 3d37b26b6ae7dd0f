"""Nodes of the backward graph as objects: identity, names, calls, what they keep, notes."""

import gc
import warnings
import weakref
from typing import Any

import facula as fa
import pytest
from facula.autograd import Function
from facula.autograd.graph import Node


def test_a_node_has_one_object() -> None:
    x = fa.ones(2, requires_grad=True)
    y = x * 2
    fn = y.grad_fn
    assert y.grad_fn is fn and (y + 1).grad_fn.next_functions[0][0] is fn
    assert fn.next_functions[0][0] is (x + 1).grad_fn.next_functions[0][0]
    assert len({y.grad_fn, fn, y.grad_fn}) == 1
    other = (x * 2).grad_fn
    assert other is not fn and other != fn
    fn.metadata["mine"] = 1
    del fn
    assert y.grad_fn is y.grad_fn and y.grad_fn.metadata == {"mine": 1}


def test_types_are_named_as_the_nodes() -> None:
    x = fa.ones(2, 2, requires_grad=True)
    for y, name in (
        (x * 2, "MulBackward0"),
        (x @ x, "MmBackward0"),
        (x.sum(), "SumBackward0"),
        (x.exp(), "ExpBackward0"),
        (x.t(), "TBackward0"),
    ):
        fn = y.grad_fn
        assert type(fn).__name__ == fn.name() == name and f"<{name} object at" in repr(fn)
        assert isinstance(fn, Node) and type(fn) is type(y.grad_fn) and name in repr(y)
    leaf = (x * 2).grad_fn.next_functions[0][0]
    assert type(leaf).__name__ == "AccumulateGrad" and leaf.variable is x
    with pytest.raises(TypeError):
        type(leaf)()
    with pytest.raises(TypeError):
        Node()


def test_types_of_nodes_go_with_their_functions() -> None:
    def made() -> Any:
        class Twice(Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 2

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g * 2

        return Twice

    x = fa.ones(2, requires_grad=True)
    first, second = made(), made()
    nodes = [f.apply(x).grad_fn for f in (first, first, second)]
    types = [type(n) for n in nodes]
    assert types[0] is types[1] is not types[2]
    assert {t.__name__ for t in types} == {"TwiceBackward"} and issubclass(types[0], Node)

    class Derived(first):  # type: ignore[valid-type, misc]
        pass

    assert type(Derived.apply(x).grad_fn).__name__ == "DerivedBackward"
    gone = [weakref.ref(t) for t in types]
    del first, second, nodes, types, Derived
    gc.collect()
    assert [ref() for ref in gone] == [None] * 3


def test_nodes_can_be_called() -> None:
    x = fa.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    assert y.grad_fn(fa.ones(2))[0].tolist() == [3, 3]
    squared = x * x
    g = squared.grad_fn(fa.ones(2))
    assert [t.tolist() for t in g] == [[1, 2], [1, 2]]
    assert (x**2).grad_fn(fa.ones(2)).requires_grad  # it is recorded
    with fa.no_grad():
        assert not x.exp().requires_grad and not squared.grad_fn(fa.ones(2))[0].requires_grad
    with pytest.raises(TypeError, match="1 outputs, but got 2"):
        squared.grad_fn(fa.ones(2), fa.ones(2))
    with pytest.raises(TypeError, match="must be a Tensor"):
        squared.grad_fn(1.0)
    leaf = squared.grad_fn.next_functions[0][0]
    leaf(fa.ones(2))
    assert x.grad.tolist() == [1, 1]
    values, _ = x.sort()
    assert values.grad_fn(fa.ones(2), None).tolist() == [1, 1]
    squared.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        squared.grad_fn(fa.ones(2))


def test_what_a_node_keeps() -> None:
    x = fa.tensor([1.0, 2.0], requires_grad=True)
    w = fa.tensor([3.0, 4.0])
    fn = (x * w).grad_fn
    assert fn._saved_other is w and "_saved_other" in dir(fn) and "_raw_saved_other" in dir(fn)
    with pytest.raises(AttributeError):
        _ = fn._saved_nothing
    exp = x.exp()
    assert exp.grad_fn._saved_result.tolist() == exp.tolist()
    assert exp.grad_fn._saved_result.grad_fn is exp.grad_fn
    sums = fa.stack([x, x]).sum(1, keepdim=True).grad_fn
    assert sums._saved_dim == (1,) and sums._saved_keepdim is True
    assert sums._saved_self_shape == (2, 2)
    power = (x**3.0).grad_fn
    assert power._saved_exponent == 3 and power._saved_self is x
    assert "_raw_saved_dim" not in dir(sums)
    with pytest.raises(AttributeError):
        _ = sums._raw_saved_dim


def test_hooks_of_one_saved_tensor() -> None:
    x = fa.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    seen = []

    def unpack(kept: Any) -> Any:
        seen.append("unpacked")
        return kept * 10

    raw = y.grad_fn._raw_saved_self
    raw.register_hooks(lambda t: t.detach().clone(), unpack)
    with pytest.raises(RuntimeError, match="hooks already"):
        raw.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(TypeError, match="callable"):
        y.grad_fn._raw_saved_other.register_hooks(1, 2)
    assert y.grad_fn._saved_self.tolist() == [10, 20]
    y.sum().backward()
    assert x.grad.tolist() == [11, 22] and len(seen) == 2
    with pytest.raises(RuntimeError, match="freed"):
        raw.register_hooks(lambda t: t, lambda t: t)


def test_notes_stay_with_the_node() -> None:
    y = fa.ones(2, requires_grad=True) * 2
    y.grad_fn.metadata["name"] = "twice"
    gc.collect()
    assert y.grad_fn.metadata == {"name": "twice"}

    class Thing:
        pass

    thing = Thing()
    y.grad_fn.metadata["cycle"] = (y, thing)
    gone = weakref.ref(thing)
    del thing, y
    gc.collect()
    assert gone() is None


def test_nodes_of_functions() -> None:
    class Twice(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.factor = 2
            return x * 2

        @staticmethod
        def vjp(ctx: Any, g: Any) -> Any:
            return g * ctx.factor

    x = fa.ones(2, requires_grad=True)
    y = Twice.apply(x)
    fn = y.grad_fn
    assert type(fn).__name__ == fn.name() == "TwiceBackward" and fn.factor == 2
    assert fn.saved_tensors[0] is x and fn._saved_tensors[0] is x and y.grad_fn is fn
    assert len(fn._raw_saved_tensors) == 1
    y.sum().backward()
    assert x.grad.tolist() == [2, 2] and Twice.backward is Twice.vjp
    with pytest.raises(RuntimeError, match="two names of one formula"):

        class Both(Function):
            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g

            @staticmethod
            def vjp(ctx: Any, g: Any) -> Any:
                return g


def test_anomaly_mode_names_functions() -> None:
    class Bad(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * float("nan")

    x = fa.ones(2, requires_grad=True)
    with fa.autograd.detect_anomaly():
        y = Bad.apply(x)
        line = y.grad_fn._made_at
        assert line is not None and "test_grad_fn.py:" in line
        with pytest.raises(RuntimeError, match=r"BadBackward.*test_grad_fn\.py:\d+.*nan"):
            y.sum().backward()


def test_reading_the_grad_of_what_is_no_leaf_warns() -> None:
    x = fa.ones(2, requires_grad=True)
    y = x * 2
    with pytest.warns(UserWarning, match=r"not a leaf.*retain_grad\(\)"):
        assert y.grad is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert x.grad is None and fa.ones(2).grad is None and x.detach().grad is None
        y.retain_grad()
        assert y.grad is None
        y.sum().backward()
        assert y.grad.tolist() == [1, 1]


def test_the_names_of_old_programs() -> None:
    import importlib

    module = importlib.import_module("facula.autograd.gradcheck")
    from facula.autograd.gradcheck import GradcheckError, gradcheck

    x = fa.ones(2, dtype=fa.float64, requires_grad=True)
    assert fa.autograd.gradcheck(lambda x: x * x, x) and gradcheck(lambda x: x * x, x)
    assert module(lambda x: x.sin(), x) and issubclass(GradcheckError, RuntimeError)
    v = fa.autograd.Variable(fa.ones(2), requires_grad=True)
    assert isinstance(v, fa.autograd.Variable) and not isinstance(1, fa.autograd.Variable)
    assert fa.autograd.variable.Variable is fa.autograd.Variable and v.requires_grad


def test_arguments_of_functions_by_name_and_by_default() -> None:
    seen: list[Any] = []

    class Power(Function):
        @staticmethod
        def forward(x: Any, n: int = 2) -> Any:
            return x**n

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            seen.append(inputs[1:])
            ctx.save_for_backward(inputs[0])
            ctx.n = inputs[1]

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.n * ctx.saved_tensors[0] ** (ctx.n - 1), None

    class Scaled(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, by: float = 2.0) -> Any:
            ctx.by = by
            return x * by

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.by  # `by` came by name

    x = fa.tensor([3.0], requires_grad=True)
    for y, slope in (
        (Power.apply(x), 6),
        (Power.apply(x, n=3), 27),
        (Power.apply(n=1, x=x), 1),
        (Scaled.apply(x, by=4.0), 4),
    ):
        assert fa.autograd.grad(y, x)[0].tolist() == [slope]
    assert seen == [(2,), (3,), (1,)]
    with pytest.raises(TypeError):
        Power.apply(x, m=3)
    assert not Scaled.__subclasses__()
    by = fa.tensor(4.0, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"Scaled.apply\(\): `by` .* by position"):
        Scaled.apply(x, by=by)
    assert Scaled.apply(x, by=by.detach()).tolist() == [12]


def test_gradients_of_a_call_fit_the_result() -> None:
    x = fa.ones(2, requires_grad=True)
    fn = (x * 3).grad_fn
    assert fn(fa.ones(2))[0].tolist() == [3, 3]
    with pytest.raises(RuntimeError, match=r"\(5,\)"):
        fn(fa.ones(5))


def test_hooks_do_not_hide_a_change() -> None:
    x = fa.tensor([2.0, 3.0], requires_grad=True)
    y = x * x
    with fa.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="changed in place"):
        y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)


def test_a_pack_hook_that_fails_leaves_the_tensor() -> None:
    x = fa.tensor([2.0, 3.0], requires_grad=True)
    y = x * x

    def change(t: fa.Tensor) -> fa.Tensor:
        t.data.view(-1)
        raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        y.grad_fn._raw_saved_self.register_hooks(change, lambda t: t)
    y.sum().backward()
    assert x.grad.tolist() == [4, 6]
