"""Places in the graph, hooks that wait for several gradients, versions, anomaly mode."""

from __future__ import annotations

import threading
from typing import Any

import facula as fa
import pytest
from facula.autograd import graph


def leaves(count: int = 2) -> list[fa.Tensor]:
    return [fa.tensor([1.0, 2.0], requires_grad=True) for _ in range(count)]


# ---- edges ----


def test_edges_stand_for_tensors() -> None:
    x, w = leaves()
    y = x * 3
    edge = graph.get_gradient_edge(y)
    assert edge.node == y.grad_fn and edge.output_nr == 0
    z = (y * y * w).sum()
    wanted = fa.autograd.grad(z, y, retain_graph=True)[0]
    (found,) = fa.autograd.grad(z, edge, retain_graph=True)
    assert found.tolist() == wanted.tolist() == [6.0, 24.0]
    root = graph.get_gradient_edge(z)
    del z
    (found,) = fa.autograd.grad(root, [edge], fa.tensor(2.0), retain_graph=True)
    assert found.tolist() == [12.0, 48.0]
    fa.autograd.backward(root, fa.tensor(1.0))
    assert x.grad is not None and x.grad.tolist() == [18.0, 72.0]


def test_edges_of_leaves_and_of_several_outputs() -> None:
    (x,) = leaves(1)
    edge = graph.get_gradient_edge(x)
    assert edge.node.name() == "AccumulateGrad" and edge.node.variable is x
    assert fa.autograd.grad((x * 2).sum(), edge)[0].tolist() == [2.0, 2.0]
    a, b = (x * 1).split(1)
    assert [graph.get_gradient_edge(t).output_nr for t in (a, b)] == [0, 1]
    assert fa.autograd.grad(a * b, graph.get_gradient_edge(b))[0].tolist() == [1.0]
    with pytest.raises(RuntimeError, match="does not require grad"):
        graph.get_gradient_edge(fa.ones(2))
    with pytest.raises(ValueError, match="output 5"):
        fa.autograd.grad((x * 2).sum(), graph.GradientEdge((x * 2).grad_fn, 5))


# ---- hooks of several tensors ----


@pytest.mark.parametrize("inner", [False, True])
def test_all_gradients_at_once(inner: bool) -> None:
    x, w = leaves()
    a, b = (x * 2, w * 3) if inner else (x, w)
    seen: list[Any] = []
    handle = graph.register_multi_grad_hook((a, b), seen.append)
    (a * b).sum().backward()
    assert [g.tolist() for g in seen[0]] == [b.tolist(), a.tolist()]
    if not inner:
        (x * w).sum().backward()
        assert len(seen) == 2
        handle.remove()
        (x * w).sum().backward()
        assert len(seen) == 2


def test_those_that_the_pass_does_not_reach() -> None:
    x, w, v = leaves(3)
    seen: list[Any] = []
    with graph.register_multi_grad_hook((x, w, v), seen.append):
        (x * w).sum().backward()
    ((a, b, c),) = seen
    assert a.tolist() == [1.0, 2.0] and b.tolist() == [1.0, 2.0] and c is None


def test_the_hook_comes_as_soon_as_all_are_there() -> None:
    x, w = leaves()
    order: list[str] = []
    early, late = x * 1, w * 1
    early.register_hook(lambda g: order.append("early"))
    a, b = early.sin(), late.sin()
    graph.register_multi_grad_hook((a, b), lambda gs: order.append("both"))
    (a + b).sum().backward()
    assert order == ["both", "early"]


def test_gradients_that_are_zero_do_not_keep_it_waiting() -> None:
    class Half(fa.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: fa.Tensor, y: fa.Tensor) -> fa.Tensor:
            return x + y

        @staticmethod
        def backward(ctx: Any, grad: fa.Tensor) -> Any:
            return grad, None

    x, w = leaves()
    seen: list[Any] = []
    graph.register_multi_grad_hook((x, w), seen.append)
    Half.apply(x, w).sum().backward()
    ((a, b),) = seen
    assert a.tolist() == [1.0, 1.0] and b is None


def test_any_gradient() -> None:
    x, w = leaves()
    seen: list[Any] = []
    graph.register_multi_grad_hook((x, w), seen.append, mode="any")
    (x * w).sum().backward()
    assert len(seen) == 1 and seen[0].tolist() == [1.0, 2.0]
    w.sum().backward()
    assert len(seen) == 2 and seen[1].tolist() == [1.0, 1.0]


def test_hooks_in_passes_within_passes_and_on_threads() -> None:
    x, w = leaves()
    seen: list[int] = []
    lock = threading.Lock()

    def count(grads: Any) -> None:
        with lock:
            seen.append(len(grads))

    graph.register_multi_grad_hook((x, w), count)

    class Again(fa.autograd.Function):
        @staticmethod
        def forward(ctx: Any, t: fa.Tensor) -> fa.Tensor:
            return t.clone()

        @staticmethod
        def backward(ctx: Any, grad: fa.Tensor) -> Any:
            with fa.enable_grad():
                fa.autograd.grad((x * w).sum(), [x, w])
            return grad

    (Again.apply(x) * w).sum().backward()
    assert seen == [2, 2]
    threads = [threading.Thread(target=lambda: (x * w).sum().backward()) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert seen == [2] * 6


def test_hooks_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="mode must be 'all' or 'any'"):
        graph.register_multi_grad_hook(leaves(), print, mode="first")
    with pytest.raises(ValueError, match="no tensors"):
        graph.register_multi_grad_hook((), print)
    with pytest.raises(RuntimeError, match="does not require grad"):
        graph.register_multi_grad_hook((fa.ones(2),), print)


# ---- versions ----


def test_versions_can_be_counted_up() -> None:
    (x,) = leaves(1)
    y = x.exp()
    before = y._version
    graph.increment_version(y)
    graph.increment_version([y, x.detach()])
    assert y._version == before + 2
    with pytest.raises(RuntimeError, match=r"version 0 and is now at version 2"):
        y.sum().backward()


# ---- anomaly mode ----


def test_second_derivatives_name_the_first_operation() -> None:
    x = fa.tensor([2.0], requires_grad=True)
    with fa.autograd.detect_anomaly():
        y = x**3
        (g,) = fa.autograd.grad(y.sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="nan") as error:
            fa.autograd.grad(g, x, fa.tensor([float("nan")]))
    text = str(error.value)
    assert "in the backward of Pow" in text and text.count("test_graph_edges.py:") == 2, text


def test_nan_may_be_let_through() -> None:
    x = fa.tensor([0.0], requires_grad=True)

    def run() -> fa.Tensor:
        return fa.autograd.grad((x.sqrt() * 0).sum() / 0, x)[0]

    with fa.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="nan"):
        run()
    with fa.autograd.detect_anomaly(check_nan=False):
        assert run().isnan().all()
    with fa.autograd.set_detect_anomaly(True, check_nan=False):
        assert run().isnan().all()
