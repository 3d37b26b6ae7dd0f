"""Saved tensors that may be changed, and the switch of threads."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.autograd import graph
from facula.autograd.grad_mode import is_multithreading_enabled


def test_saved_tensors_may_be_changed() -> None:
    x = fa.tensor([1.0, 2.0], requires_grad=True)
    with graph.allow_mutation_on_saved_tensors():
        y = x * 1
        z = (y**3).sum() + y.exp().sum()
        y.zero_()
    z.backward()
    assert x.grad is not None
    assert fa.allclose(x.grad, 3 * x.detach() ** 2 + x.detach().exp())
    y = x.exp()
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_copies_are_left_by_writes_alone() -> None:
    x = fa.tensor([1.0, 2.0], requires_grad=True)
    with graph.allow_mutation_on_saved_tensors():
        y, z = x * 1, x * 2
        squares, others = y * y, z * z
    kept = [fn._saved_self.data_ptr() for fn in (squares.grad_fn, others.grad_fn)]
    assert kept == [y.data_ptr(), z.data_ptr()]
    with fa.no_grad():
        y[0] = 7
    saved = squares.grad_fn._saved_self, squares.grad_fn._saved_other
    assert saved[0].data_ptr() == saved[1].data_ptr() != y.data_ptr()  # one for both
    assert saved[0].tolist() == [1, 2] and y.tolist() == [7, 2]
    assert others.grad_fn._saved_self.data_ptr() == z.data_ptr()
    (squares.sum() + others.sum()).backward()
    assert x.grad is not None and x.grad.tolist() == [2 + 8, 4 + 16]
    del squares, others, saved
    gc.collect()
    assert y.add_(1).tolist() == [8, 3]  # nobody keeps it any more


CHANGES: dict[str, Callable[[Any], Any]] = {
    "element": lambda y: y.__setitem__((0, 0), 4.0),
    "fill": lambda y: y.fill_(2.0),
    "zero": lambda y: y.zero_(),
    "copy": lambda y: y.copy_(fa.ones(3, 4)),
    "out": lambda y: fa.add(y, 1, out=y),
    "out of a product": lambda y: fa.mm(fa.ones(3, 3), fa.ones(3, 4), out=y),
    "index": lambda y: y.index_put_((fa.tensor([1]),), fa.zeros(1)),
    "mask": lambda y: y.masked_fill_(y > 0, 3.0),
    "scatter": lambda y: y.scatter_(0, fa.zeros(1, 4, dtype=fa.int64), 8.0),
    "sums": lambda y: y.cumsum_(0),
    "draw": lambda y: y.normal_(),
    "view": lambda y: y.t()[1:].mul_(2),
    "sort": lambda y: fa.sort(y, out=(y, fa.empty(3, 4, dtype=fa.int64))),
    "detached": lambda y: y.detach().sub_(1),
}


@pytest.mark.parametrize("of_view", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_any_write_leaves_a_copy(change: str, of_view: bool) -> None:
    x = fa.tensor(np.random.default_rng(0).standard_normal((3, 4)), dtype=fa.float32)
    x.requires_grad_()
    with graph.allow_mutation_on_saved_tensors():
        y = x * 1
        part = y[1:, ::2] if of_view else y
        z = part.sin().sum() + (part * part).sum()
        with fa.no_grad():
            CHANGES[change](y)
        z.backward()
    want = np.cos(x.detach().numpy()) + 2 * x.detach().numpy()
    if of_view:
        want[0], want[:, 1::2] = 0, 0
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-5)


def test_parameters_may_be_stepped_before_backward() -> None:
    model = fa.nn.Linear(3, 2)
    first = [p.detach().clone() for p in model.parameters()]
    optimizer = fa.optim.SGD(model.parameters(), lr=0.5)
    x = fa.ones(4, 3, requires_grad=True)
    with graph.allow_mutation_on_saved_tensors():
        loss = model(x).tanh().sum()
        grads = fa.autograd.grad(model(x).sum(), list(model.parameters()))
        for p, g in zip(model.parameters(), grads, strict=True):
            p.grad = g
        optimizer.step()
        loss.backward()
    slopes = 1 - np.tanh(x.detach().numpy() @ first[0].numpy().T + first[1].numpy()) ** 2
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), slopes @ first[0].numpy(), rtol=1e-5)


def test_changes_within_transforms_and_tangents() -> None:
    def loss(t: fa.Tensor) -> fa.Tensor:
        y = t * 1
        z = (y**3).sum()
        y.zero_()
        return z + y.sum()

    x = fa.arange(6.0).reshape(2, 3)
    with graph.allow_mutation_on_saved_tensors():
        assert fa.vmap(fa.func.grad(loss))(x).tolist() == (3 * x**2).tolist()
        assert fa.func.hessian(loss)(x[1]).tolist() == fa.diag(6 * x[1]).tolist()
        v = fa.ones(3)
        got = fa.func.jvp(fa.func.grad(loss), (x[1],), (v,))[1]
        assert got.tolist() == (6 * x[1]).tolist()


def test_threads_can_be_switched() -> None:
    assert is_multithreading_enabled()
    with fa.autograd.set_multithreading_enabled(False):
        assert not is_multithreading_enabled()
        elsewhere: list[bool] = []
        thread = threading.Thread(target=lambda: elsewhere.append(is_multithreading_enabled()))
        thread.start()
        thread.join()
        assert elsewhere == [True]
        x = fa.ones(2, requires_grad=True)
        (x * 2).sum().backward()
        assert x.grad is not None and x.grad.tolist() == [2.0, 2.0]
    assert is_multithreading_enabled()

    @fa.autograd.set_multithreading_enabled(False)
    def off() -> bool:
        return is_multithreading_enabled()

    assert not off() and is_multithreading_enabled()
    fa.autograd.set_multithreading_enabled(False)
    assert not is_multithreading_enabled()
    fa.autograd.set_multithreading_enabled(True)
