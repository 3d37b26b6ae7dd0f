"""Hooks of saved tensors, and checkpoints that use them or a backward within the backward."""

from __future__ import annotations

import gc
import weakref

import facula as fa
import numpy as np
import pytest
from facula import nn
from facula.autograd import graph
from facula.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_early_stop,
)

BOTH = pytest.mark.parametrize("reentrant", [True, False])


# ---- hooks of saved tensors ----


def test_saved_tensors_are_packed_and_unpacked():
    x = fa.tensor([1.0, 2.0, 3.0], dtype=fa.float64, requires_grad=True)
    packed = []

    def pack(t):
        packed.append(t.detach().numpy().copy())
        return len(packed) - 1

    with graph.saved_tensors_hooks(pack, lambda i: fa.tensor(packed[i])):
        y = (x.exp() * x).sum()
    y.backward()
    v = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(x.grad.numpy(), np.exp(v) * (1 + v))
    assert len(packed) >= 2


def test_gradients_of_gradients_go_through_packed_tensors():
    x = fa.tensor([0.3, -0.7], dtype=fa.float64, requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        y = (x.tanh() * x.exp()).sum()
        (g,) = fa.autograd.grad(y, x, create_graph=True)
        (h,) = fa.autograd.grad(g.sum(), x)
    v = x.detach().numpy()
    t, e = np.tanh(v), np.exp(v)
    s = 1 - t**2
    np.testing.assert_allclose(g.detach().numpy(), e * (t + s))
    np.testing.assert_allclose(h.numpy(), e * (t + 2 * s - 2 * t * s))


def test_hooks_are_innermost_and_of_the_block():
    x = fa.ones(2, requires_grad=True)
    log = []
    outer = graph.saved_tensors_hooks(lambda t: log.append("outer") or t, lambda t: t)
    inner = graph.saved_tensors_hooks(lambda t: log.append("inner") or t, lambda t: t)
    with outer:
        x.exp()
        with inner:
            x.exp()
        x.exp()
    x.exp()
    assert log == ["outer", "inner", "outer"]


def test_functions_save_through_hooks():
    class Square(fa.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    x = fa.tensor([3.0], requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: t.item(), lambda v: fa.tensor([v])):
        y = Square.apply(x)
    y.backward()
    assert x.grad.item() == 6


def test_what_hooks_may_not_do():
    x = fa.ones(2, requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: t, lambda t: 3):
        y = x.exp().sum()
    with pytest.raises(TypeError, match="unpack hook"):
        y.backward()
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t[:1]):
        y = x.exp().sum()
    with pytest.raises(RuntimeError, match="shape"):
        y.backward()
    z = x * 2
    changes = graph.saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t)
    with changes, pytest.raises(RuntimeError, match="in place"):
        z * z
    harmless = graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    refused = pytest.raises(RuntimeError, match="not here")
    with graph.disable_saved_tensors_hooks("not here"), refused, harmless:
        pass
    with pytest.raises(TypeError, match="callable"):
        graph.saved_tensors_hooks(1, 2).__enter__()


def test_an_error_in_a_hook_comes_out():
    x = fa.ones(2, requires_grad=True)

    def broken(t):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"), graph.saved_tensors_hooks(broken, broken):
        x.exp()
    with graph.saved_tensors_hooks(lambda t: t, broken):
        y = x.exp().sum()
    with pytest.raises(KeyError, match="mine"):
        y.backward()
    assert x.exp().sum().backward() is None


def test_what_is_packed_goes_with_the_graph():
    class Box:
        pass

    x = fa.ones(2, requires_grad=True)
    boxes = []

    def pack(t):
        box = Box()
        box.t = t.detach()
        boxes.append(weakref.ref(box))
        return box

    with graph.saved_tensors_hooks(pack, lambda b: b.t):
        y = x.exp().sum()
    assert boxes[0]() is not None
    y.backward()
    assert all(b() is None for b in boxes)  # freed by backward
    boxes.clear()
    with graph.saved_tensors_hooks(pack, lambda b: b.t):
        y = x.exp().sum()
    boxes[0]().cycle = y  # the graph holds what holds the graph
    del y
    gc.collect()
    assert boxes[0]() is None


def test_saving_on_the_cpu():
    x = fa.ones(2, requires_grad=True)
    with graph.save_on_cpu():
        y = x.exp().sum()
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp([1, 1]), rtol=1e-6)


# ---- checkpoints ----


class Block(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.line = nn.Linear(width, width)
        self.drop = nn.Dropout(0.5)
        self.calls = 0

    def forward(self, x, scale=1.0):
        self.calls += 1
        return fa.tanh(self.drop(self.line(x)) * scale).exp()


def gradients(function, x, net):
    fa.manual_seed(5)
    x.grad = None
    net.zero_grad()
    result = function(x)
    result.sum().backward()
    found = [result, x.grad, *(p.grad for p in net.parameters())]
    return [None if t is None else t.detach().numpy().copy() for t in found]


def same(a, b):
    for one, two in zip(a, b, strict=True):
        np.testing.assert_array_equal(one, two)


@BOTH
def test_a_checkpoint_changes_no_number(reentrant):
    net, x = Block(), fa.randn(3, 6, requires_grad=True)
    plain = gradients(net, x, net)
    net.calls = 0
    same(plain, gradients(lambda v: checkpoint(net, v, use_reentrant=reentrant), x, net))
    assert net.calls == 2


def test_random_numbers_go_on_as_without_it():
    net, x = Block(), fa.randn(3, 6, requires_grad=True)

    def after(call):
        fa.manual_seed(1)
        call(x).sum().backward()
        return fa.rand(4).numpy()

    wanted = after(net)
    for reentrant in (True, False):
        got = after(lambda v, r=reentrant: checkpoint(net, v, use_reentrant=r))
        np.testing.assert_array_equal(wanted, got)
    fa.manual_seed(1)
    changed = gradients(
        lambda v: checkpoint(net, v, use_reentrant=False, preserve_rng_state=False), x, net
    )
    assert not np.array_equal(changed[1], gradients(net, x, net)[1])


def test_keywords_inputs_without_gradients_and_other_arguments():
    net, x = Block(), fa.randn(3, 6)
    net.zero_grad()
    fa.manual_seed(2)
    checkpoint(net, x, scale=2.0, use_reentrant=False).sum().backward()
    got = net.line.weight.grad.numpy().copy()
    net.zero_grad()
    fa.manual_seed(2)
    net(x, scale=2.0).sum().backward()
    np.testing.assert_array_equal(got, net.line.weight.grad.numpy())
    with pytest.warns(UserWarning, match="requires_grad"):
        out = checkpoint(net, x, use_reentrant=True)
    assert not out.requires_grad
    with pytest.raises(ValueError, match="scale"):
        checkpoint(net, x, scale=2.0, use_reentrant=True)


def test_several_outputs_some_without_gradient():
    def f(a, b):
        return a * b, (a > 0), a.exp()

    for reentrant in (True, False):
        a = fa.tensor([1.0, -2.0], requires_grad=True)
        b = fa.tensor([3.0, 4.0], requires_grad=True)
        p, q, r = checkpoint(f, a, b, use_reentrant=reentrant)
        assert q.dtype is fa.bool
        (p.sum() + r.sum()).backward()
        np.testing.assert_allclose(a.grad.numpy(), [3 + np.e, 4 + np.exp(-2)], rtol=1e-6)
        np.testing.assert_allclose(b.grad.numpy(), [1, -2])


def test_checkpoints_within_checkpoints():
    net, x = Block(), fa.randn(3, 6, requires_grad=True)

    def inner(v):
        return checkpoint(net, v, use_reentrant=False)

    def nested(v):
        return inner(inner(v) * 2) + inner(v)

    plain = gradients(lambda v: net(net(v) * 2) + net(v), x, net)
    same(plain, gradients(nested, x, net))
    same(plain, gradients(lambda v: checkpoint(nested, v, use_reentrant=False), x, net))


def test_second_derivatives_and_a_retained_graph():
    x = fa.tensor([0.2, 0.5], dtype=fa.float64, requires_grad=True)
    y = checkpoint(lambda v: (v**3).sin(), x, use_reentrant=False).sum()
    (g,) = fa.autograd.grad(y, x, create_graph=True)
    (h,) = fa.autograd.grad(g.sum(), x)
    v = x.detach().numpy()
    np.testing.assert_allclose(g.detach().numpy(), 3 * v**2 * np.cos(v**3))
    np.testing.assert_allclose(h.numpy(), 6 * v * np.cos(v**3) - 9 * v**4 * np.sin(v**3))
    y = checkpoint(lambda v: (v**3).sin(), x, use_reentrant=False).sum()
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * 3 * v**2 * np.cos(v**3))


def test_the_saved_tensors_are_gone_between_the_runs():
    class Layer(nn.Module):
        def forward(self, x):
            seen.append(weakref.ref(x))
            return x.exp().exp()

    seen: list = []
    net = nn.Sequential(*(Layer() for _ in range(3)))
    x = fa.randn(4, requires_grad=True)
    y = checkpoint(net, x, use_reentrant=False).sum()
    assert [s() is None for s in seen] == [False, True, True]
    del y


def test_it_stops_early_once_all_is_there():
    log = []

    def f(x):
        y = x.exp()
        log.append("middle")
        z = y.sin()
        log.append("end")
        return z

    for early, wanted in ((True, ["middle"]), (False, ["middle", "end"])):
        x = fa.ones(2, requires_grad=True)
        y = checkpoint(f, x, use_reentrant=False, early_stop=early).sum()
        log.clear()
        y.backward()
        assert log == wanted
    with set_checkpoint_early_stop(False):
        y = checkpoint(f, x, use_reentrant=False).sum()
    log.clear()
    y.backward()
    assert log == ["middle", "end"]


def test_a_function_that_does_something_else_is_found_out():
    x, calls = fa.ones(4, requires_grad=True), []

    def other_shape(v):
        calls.append(1)
        return v.exp() if len(calls) == 1 else v[:2].exp()

    with pytest.raises(CheckpointError, match="metadata"):
        checkpoint(other_shape, x, use_reentrant=False).sum().backward()
    calls.clear()

    def fewer(v):
        calls.append(1)
        return v.exp().exp() if len(calls) == 1 else v * 1.0

    with pytest.raises(CheckpointError, match="different number"):
        checkpoint(fewer, x, use_reentrant=False).sum().backward()


def test_contexts_of_both_runs():
    entered = []

    class Note:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            entered.append(self.name)

        def __exit__(self, *exc):
            entered.append("/" + self.name)

    x = fa.ones(2, requires_grad=True)
    y = checkpoint(
        lambda v: v.exp(), x, use_reentrant=False, context_fn=lambda: (Note("1"), Note("2"))
    )
    y.sum().backward()
    assert entered == ["1", "/1", "2", "/2"]


def test_autocast_is_the_same_in_both_runs():
    net, x = nn.Linear(4, 4), fa.randn(2, 4, requires_grad=True)
    dtypes = []

    def f(v):
        out = net(v)
        dtypes.append(out.dtype)
        return out

    for reentrant in (True, False):
        dtypes.clear()
        with fa.autocast("cpu", dtype=fa.bfloat16):
            y = checkpoint(
                f, x, use_reentrant=reentrant, **({} if reentrant else {"early_stop": False})
            )
        y.float().sum().backward()
        assert dtypes == [fa.bfloat16] * 2


@BOTH
@pytest.mark.parametrize("segments", [1, 2, 3])
def test_sequential_parts(reentrant, segments):
    net = nn.Sequential(*(Block() for _ in range(5)))
    x = fa.randn(2, 6, requires_grad=True)
    plain = gradients(net, x, net)
    run = gradients(
        lambda v: checkpoint_sequential(net, segments, v, use_reentrant=reentrant), x, net
    )
    same(plain, run)


def test_options_that_cannot_be():
    f, x = (lambda v: v.exp()), fa.ones(1, requires_grad=True)
    with pytest.warns(UserWarning, match="use_reentrant"):
        checkpoint(f, x)
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(f, x, use_reentrant=False, determinism_check="some")
    with pytest.raises(ValueError, match="segments"):
        checkpoint_sequential([f], 2, x, use_reentrant=False)
    with fa.no_grad():
        assert not checkpoint(f, x, use_reentrant=False).requires_grad


def test_unpacked_tensors_require_gradients_as_those_kept():
    x = fa.ones(2, requires_grad=True)
    y = x * 2
    with graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        of_leaf, of_result, plain = x * x, y * y, x * fa.ones(2)
        exp = x.exp()
    kept = of_leaf.grad_fn._saved_self
    assert kept.requires_grad and kept.is_leaf and kept.grad_fn is None
    kept = of_result.grad_fn._saved_self
    assert kept.requires_grad and not kept.is_leaf and kept.grad_fn is y.grad_fn
    assert not plain.grad_fn._saved_other.requires_grad
    with fa.no_grad():
        assert of_leaf.grad_fn._saved_self.requires_grad
    assert exp.grad_fn._saved_result.grad_fn is exp.grad_fn
    (of_leaf.grad_fn._saved_self * 3).sum().backward()  # goes on to the leaf
    assert x.grad.tolist() == [3, 3]


@pytest.mark.parametrize("outer", [True, False])
@pytest.mark.parametrize("inner", [True, False])
def test_checkpoints_of_one_kind_in_the_other(outer, inner):
    w = fa.tensor([0.5, -0.25], dtype=fa.float64, requires_grad=True)
    x = fa.tensor([0.3, 0.7], dtype=fa.float64, requires_grad=True)

    def block(x):
        return (x * w).sin() * x

    def both(x):
        y = checkpoint(block, x.exp(), use_reentrant=inner)
        return checkpoint(block, y * w, use_reentrant=inner) + x

    checkpoint(both, x, use_reentrant=outer).sum().backward()
    found = x.grad.clone(), w.grad.clone()
    x.grad = w.grad = None
    y = block(x.exp())
    (block(y * w) + x).sum().backward()
    np.testing.assert_allclose(found[0].numpy(), x.grad.numpy(), rtol=1e-12)
    np.testing.assert_allclose(found[1].numpy(), w.grad.numpy(), rtol=1e-12)
