"""Cycles through tensors, gradients, graphs, hooks and attributes: all die that are dropped."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.autograd import Function, forward_ad

CASES: list[Callable[[], tuple[Any, ...]]] = []


def case(function: Callable[[], tuple[Any, ...]]) -> Callable[[], tuple[Any, ...]]:
    """A function that makes a cycle and returns what must die."""
    CASES.append(function)
    return function


def leaf(*shape: int) -> Any:
    return fa.ones(*(shape or (3,)), requires_grad=True)


def alive(make: Callable[[], tuple[Any, ...]]) -> list[int]:
    """Which of what `make` returns outlive it."""
    refs = [weakref.ref(o) for o in make()]
    gc.collect()
    return [i for i, r in enumerate(refs) if r() is not None]


@pytest.fixture(autouse=True)
def no_threads_of_others() -> Iterator[None]:
    gc.collect()
    yield


# ---- gradients with a graph ----
@case
def gradient_of_gradient() -> tuple[Any, ...]:
    x = leaf()
    (x * x).sum().backward(create_graph=True)
    return x, x.grad


@case
def two_leaves_of_one_graph() -> tuple[Any, ...]:
    a, b = leaf(), leaf()
    (a * b).exp().sum().backward(create_graph=True)
    return a, b, a.grad, b.grad


@case
def never_seen_by_python() -> tuple[Any, ...]:
    x = leaf()
    (x * x).sum().backward(create_graph=True)
    return (x,)


@case
def gradient_of_third_order() -> tuple[Any, ...]:
    x = leaf()
    (g,) = fa.autograd.grad((x**4).sum(), x, create_graph=True)
    (h,) = fa.autograd.grad(g.sum(), x, create_graph=True)
    h.sum().backward(create_graph=True)
    return x, g, h, x.grad


@case
def gradient_set_by_hand() -> tuple[Any, ...]:
    x = leaf()
    x.grad = x * 2
    return x, x.grad


@case
def retained_gradient() -> tuple[Any, ...]:
    x = leaf()
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward(create_graph=True)
    return x, y, y.grad


@case
def parameters_of_a_network() -> tuple[Any, ...]:
    net = fa.nn.Sequential(fa.nn.Linear(3, 3), fa.nn.Tanh(), fa.nn.Linear(3, 1))
    net(fa.ones(2, 3)).pow(2).sum().backward(create_graph=True)
    return net, *net.parameters()


@case
def parametrised_weight() -> tuple[Any, ...]:
    m = fa.nn.Linear(3, 3)
    m.scaled = m.weight * 2
    m.own = m.scaled.view(9)
    m.weight.module = m
    return m, m.weight, m.scaled, m.own


# ---- attributes ----
@case
def attribute_of_the_gradient() -> tuple[Any, ...]:
    x = leaf()
    (x * x).sum().backward()
    x.grad.owner = x
    return x, x.grad


@case
def attribute_of_a_parameters_gradient() -> tuple[Any, ...]:
    p = fa.nn.Parameter(fa.ones(3))
    p.grad = fa.ones(3)
    p.grad.owner = p
    return p, p.grad


@case
def own_view() -> tuple[Any, ...]:
    x = fa.ones(3, 3)
    x.view_of_it = x[0][1:]
    return x, x.view_of_it


@case
def own_view_deep_in_containers() -> tuple[Any, ...]:
    x = fa.ones(3, 3)
    x.views = {"rows": [(x[0],), {1: x.T}]}
    return x, x.views["rows"][0][0]


@case
def own_result() -> tuple[Any, ...]:
    x = leaf()
    x.result = (x * 2).exp()
    return x, x.result


@case
def own_gradient_with_graph() -> tuple[Any, ...]:
    x = leaf()
    (x.kept,) = fa.autograd.grad((x**3).sum(), x, create_graph=True)
    return x, x.kept


@case
def node_as_attribute() -> tuple[Any, ...]:
    x = leaf()
    y = x * 2
    x.node = (y * x).grad_fn
    return x, y


@case
def iterator_as_attribute() -> tuple[Any, ...]:
    x = fa.ones(3)
    x.iterator = iter(x)
    return (x,)


@case
def memory_of_an_object() -> tuple[Any, ...]:
    np = pytest.importorskip("numpy")

    class Array(np.ndarray):  # type: ignore[misc, name-defined]
        pass

    class Bytes(bytearray):
        pass

    a, b = np.ones(3).view(Array), Bytes(8)
    a.tensor, b.tensor = fa.asarray(a), fa.frombuffer(b, dtype=fa.uint8)
    return a, b, a.tensor, b.tensor


@case
def slots_of_a_subclass() -> tuple[Any, ...]:
    class Slotted(fa.Tensor):
        __slots__ = ("other",)

    s = fa.ones(3).as_subclass(Slotted) if hasattr(fa.Tensor, "as_subclass") else Slotted(3)
    s.other = s[0:1]
    return s, s.other


@case
def tangent() -> tuple[Any, ...]:
    with forward_ad.dual_level():
        t = fa.ones(3)
        dual = forward_ad.make_dual(fa.ones(3), t)
        t.dual = dual
        return t, dual


@case
def error_with_a_traceback() -> tuple[Any, ...]:
    x = leaf()
    y = x * 2
    try:
        y.no_such_attribute  # noqa: B018
    except AttributeError as error:
        x.error = error
    return x, y


# ---- hooks ----
@case
def tensor_hook() -> tuple[Any, ...]:
    x = leaf()
    y = x * 2
    z = y * 3
    y.register_hook(lambda g: z)
    x.register_hook(lambda g: z)
    return x, y, z


@case
def post_accumulate_hook() -> tuple[Any, ...]:
    x = leaf()
    y = x * 2
    x.register_post_accumulate_grad_hook(lambda p: y)
    return x, y


@case
def node_hooks() -> tuple[Any, ...]:
    x = leaf()
    y = x * 2
    node = y.grad_fn
    node.register_hook(lambda *a: node)
    y.exp().grad_fn.register_prehook(lambda *a: y)
    node.register_prehook(lambda *a: (x, y))
    return x, y


@case
def handles() -> tuple[Any, ...]:
    x = leaf()
    y = x * 2
    first = x.register_hook(lambda g: first)
    second = y.grad_fn.register_hook(lambda *a: (second, x))
    third = (y * 2).register_hook(lambda g: (third, y))
    return x, y


@case
def metadata() -> tuple[Any, ...]:
    x = leaf()
    y = x * 2
    node = y.grad_fn
    node.metadata["node"] = (node, y)
    return x, y


def hooked_module(register: str) -> tuple[Any, ...]:
    m = fa.nn.Linear(3, 3)
    getattr(m, register)(lambda *a: None)
    x = leaf(2, 3)
    out = m(x)
    out.pow(2).sum().backward(create_graph=True)
    return m, x, out, *m.parameters()


for name in (
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
    "register_forward_hook",
):
    CASES.append(lambda name=name: hooked_module(name))
    CASES[-1].__name__ = name


# ---- functions ----
def function_case(save: Callable[[Any, Any, Any], None]) -> Callable[[], tuple[Any, ...]]:
    def make() -> tuple[Any, ...]:
        class F(Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                y = x * 2
                save(ctx, x, y)
                return y

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return g * 2

        x = leaf()
        mid = x * 1
        y = F.apply(mid)
        F.kept = y
        z = y.exp()
        z.sum().backward(create_graph=True)
        return x, mid, y, z, F

    return make


SAVES: dict[str, Callable[[Any, Any, Any], None]] = {
    "an input": lambda ctx, x, y: ctx.save_for_backward(x),
    "the output": lambda ctx, x, y: ctx.save_for_backward(y),
    "a view of the output": lambda ctx, x, y: ctx.save_for_backward(y[0:1]),
    "a view of a view": lambda ctx, x, y: ctx.save_for_backward(y[0:2].unsqueeze(0), x.view(3, 1)),
    "attributes": lambda ctx, x, y: vars(ctx).update(x=x, y=y, view=y[1:], ctx=ctx),
}
for name, save in SAVES.items():
    CASES.append(function_case(save))
    CASES[-1].__name__ = f"function that saves {name}"


@case
def function_that_changes_its_input() -> tuple[Any, ...]:
    class F(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            x.mul_(2)
            ctx.save_for_backward(x, x.view(3))
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = leaf()
    y = F.apply(x * 1)
    return x, y


@case
def backward_within_backward() -> tuple[Any, ...]:
    """As checkpointing does."""

    class Again(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.x = x
            with fa.no_grad():
                return x.exp()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            with fa.enable_grad():
                x = ctx.x.detach().requires_grad_()
                ctx.again = x.exp()
            ctx.again.backward(g, create_graph=True)
            return x.grad

    x = leaf()
    y = Again.apply(x * 1)
    y.sum().backward()
    return x, y


# ---- changes in place ----
@case
def changed_by_itself() -> tuple[Any, ...]:
    x = leaf()
    y = x * 1
    y.mul_(y)
    return x, y


@case
def view_changed_by_itself() -> tuple[Any, ...]:
    x = leaf()
    y = x * 1
    v = y[0:2]
    v.mul_(v)
    return x, y, v


@pytest.mark.parametrize("make", CASES, ids=[c.__name__.replace("_", " ") for c in CASES])
@pytest.mark.parametrize("anomaly", [False, True], ids=["", "anomaly mode"])
def test_dies(make: Callable[[], tuple[Any, ...]], anomaly: bool) -> None:
    with fa.autograd.set_detect_anomaly(anomaly):
        assert alive(make) == []


@pytest.mark.parametrize("make", [fa.Tensor.numpy, np.asarray, memoryview, np.array_split])
def test_an_array_over_its_tensor(make: Callable[[Any], Any]) -> None:
    """The collector does not see what an array keeps, so that must not be the tensor itself."""
    x = fa.arange(3.0)
    x.array = make(x) if make is not np.array_split else np.array_split(x.numpy(), 2)[0]
    ref, array = weakref.ref(x), x.array
    del x
    gc.collect()
    assert ref() is None
    assert array[1] == 1  # the memory stays
    x = fa.arange(3.0)
    x.array = x.numpy()
    x.array[0] = 5
    assert x[0] == 5


def test_memory_is_released() -> None:
    gc.collect()
    before = fa._C._memory_stats()["live_bytes"]
    for _ in range(3):
        x = fa.ones(1 << 20, requires_grad=True)
        (x * x).sum().backward(create_graph=True)
        x.grad.owner = x
    del x
    gc.collect()
    assert fa._C._memory_stats()["live_bytes"] - before < 1 << 20


# ---- what is held lives ----
def test_held_by_the_graph() -> None:
    """The collector finds a cycle, but something outside holds a part of it."""
    x = leaf()
    (x * x).sum().backward(create_graph=True)
    x.tag, x.grad.owner = [1], x
    ref, grad = weakref.ref(x), x.grad
    y = x * 3
    del x
    gc.collect()
    assert ref() is not None and ref().tag == [1] and ref().grad is grad  # by grad.owner
    del grad
    gc.collect()
    assert ref() is not None and ref().tag == [1] and ref().grad.owner is ref()  # by the graph of y
    y.sum().backward()
    assert ref().grad.tolist() == [5.0] * 3
    del y
    gc.collect()
    assert ref() is None


def test_held_by_a_node_alone() -> None:
    x = leaf()
    x.view_of_it = x[0:1]
    node = (x * x).grad_fn
    ref = weakref.ref(x)
    del x
    gc.collect()
    assert ref() is not None and ref().view_of_it.tolist() == [1.0]
    node = None
    gc.collect()
    assert ref() is None
    assert node is None


def test_hooks_of_a_held_graph_run() -> None:
    x = leaf()
    seen: list[Any] = []
    y = x * 2
    z = y * 3
    y.register_hook(lambda g, z=z: seen.append(z))
    loss = z.sum()
    del y, z
    gc.collect()
    loss.backward()
    assert len(seen) == 1 and x.grad.tolist() == [6.0] * 3


def test_a_destructor_takes_it_back() -> None:
    kept: list[Any] = []

    class Tag:
        def __del__(self) -> None:
            kept.append(self.tensor)

    x = leaf()
    (x * x).sum().backward(create_graph=True)
    x.tag = Tag()
    x.tag.tensor = x
    del x
    gc.collect()
    assert kept[0].tolist() == [1.0] * 3
    assert kept[0].grad.tolist() == [2.0] * 3
    ref = weakref.ref(kept.pop())
    gc.collect()
    assert ref() is None


def test_collection_within_a_hook() -> None:
    x = leaf()
    y = x * 2
    y.register_hook(lambda g: (gc.collect(), None)[1])
    x.me = y
    (y * x).sum().backward(create_graph=True)
    assert x.grad.tolist() == [4.0] * 3


def test_collection_beside_other_threads() -> None:
    """Collections while threads run backward disturb nothing; what they leave dies at last."""
    shared = leaf(100)
    refs: list[weakref.ref[Any]] = []
    wrong: list[Any] = []

    def work() -> None:
        for _ in range(60):
            x = leaf(5000)
            y = x * 2
            y.register_hook(lambda g, y=y: g)
            (y * y * shared.sum()).sum().backward(create_graph=True)
            if x.grad[0].item() != 800.0:
                wrong.append(x.grad)
            x.grad.owner = x
            refs.append(weakref.ref(x))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        gc.collect()
    shared.grad = None
    gc.collect()
    assert not wrong
    assert [r for r in refs if r() is not None] == []


def test_collector_is_left_as_it_was() -> None:
    x = leaf()
    x.tag = x[0]
    gc.collect()
    assert not [o for o in gc.get_objects() if type(o).__name__ == "_Vertex"]
    assert x.tag.item() == 1.0


def test_a_collection_within_code_without_builtins(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of named tuples is: nothing is imported by the frame that runs."""
    noted: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", noted.append)
    x = leaf()
    x.tag = x[0]
    boxes = eval("lambda values: [[v] for v in values]", {"__builtins__": {}})
    before, values = gc.get_threshold(), list(range(3000))
    gc.collect()
    gc.set_threshold(5, 1, 1)  # the oldest too
    try:
        for _ in range(20):
            boxes(values)
    finally:
        gc.set_threshold(*before)
    assert [str(n.exc_value) for n in noted] == []
