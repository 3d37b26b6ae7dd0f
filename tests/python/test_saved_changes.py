"""Saved tensors that may be changed, and the switch of threads."""

from __future__ import annotations

import threading

import facula as fa
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
