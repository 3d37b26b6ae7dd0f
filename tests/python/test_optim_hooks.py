"""Hooks around steps, of one optimizer and of all; other parameters for a while."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest
from facula import nn, optim
from facula.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from facula.profiler import profile


def parameter(value):
    p = nn.Parameter(fa.tensor([value]))
    p.grad = fa.ones(1)
    return p


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.LBFGS])
def test_hooks_of_every_optimizer_are_around_its_own(kind):
    p, log = parameter(1.0), []
    optimizer = kind([p], lr=0.1)
    optimizer.register_step_pre_hook(lambda o, a, k: log.append("own pre"))
    optimizer.register_step_post_hook(lambda o, a, k: log.append("own post"))
    closure = (lambda: fa.ones(())) if kind is optim.LBFGS else None
    with (
        register_optimizer_step_pre_hook(lambda o, a, k: log.append(("pre", o is optimizer))),
        register_optimizer_step_post_hook(lambda o, a, k: log.append(("post", len(a)))),
    ):
        optimizer.step(*([closure] if closure else []))
    assert log == [("pre", True), "own pre", "own post", ("post", 1 if closure else 0)]
    log.clear()
    optimizer.step(*([closure] if closure else []))
    assert log == ["own pre", "own post"]


def test_a_pre_hook_may_give_other_arguments():
    optimizer, seen = optim.SGD([parameter(1.0)], lr=0.1), []
    optimizer.register_step_pre_hook(lambda o, a, k: ((lambda: seen.append(1) or 7,), {}))
    assert optimizer.step() == 7 and seen == [1]
    optimizer.register_step_pre_hook(lambda o, a, k: 3)
    with pytest.raises(RuntimeError, match="new_args"):
        optimizer.step()


def test_hooks_run_once_around_a_step_of_a_subclass():
    class Twice(optim.SGD):
        def step(self, closure=None):
            super().step()
            return super().step(closure)

    p, log = parameter(1.0), []
    optimizer = Twice([p], lr=0.25)
    optimizer.register_step_pre_hook(lambda o, a, k: log.append("pre"))
    optimizer.register_step_post_hook(lambda o, a, k: log.append("post"))
    scheduler = optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    scheduler.step()
    assert p.item() == 0.5 and log == ["pre", "post"]


def test_an_error_in_a_step_leaves_the_optimizer_usable():
    p = parameter(1.0)
    optimizer = optim.SGD([p], lr=0.25)

    def broken():
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        optimizer.step(broken)
    optimizer.step()
    assert p.item() == 0.75


def test_steps_are_ranges_of_profiles():
    optimizer = optim.SGD([parameter(1.0)], lr=0.1)
    with profile() as prof:
        optimizer.step()
    assert prof.events()[0].name == "Optimizer.step#SGD.step"
    assert len(prof.events()[0].cpu_children) >= 1


def test_dense_gradients_are_refused_where_sparse_ones_belong():
    param = parameter(1.0)
    optimizer = optim.SparseAdam([param], lr=0.1)
    with pytest.raises(RuntimeError, match="dense"):
        optimizer.step()
    for bad in ({"lr": 0.0}, {"eps": -1.0}, {"betas": (0.9, 1.0)}):
        with pytest.raises(ValueError, match="Invalid"):
            optim.SparseAdam([param], **bad)


def test_other_parameters_for_a_while():
    p, q = parameter(1.0), parameter(5.0)
    optimizer = optim.Adam([p], lr=0.1)
    optimizer.step()
    own = optimizer.state_dict()
    other = optim.Adam([q], lr=0.5)
    other.step()
    state = other.state_dict()
    twin = parameter(float(q.item()))
    reference = optim.Adam([twin], lr=0.5)
    reference.load_state_dict(state)
    reference.step()
    with optim.swap_in_optimizer_params_and_state(optimizer, {"q": q}, state):
        assert optimizer.param_groups[0]["lr"] == 0.5
        optimizer.step()
    np.testing.assert_array_equal(q.detach().numpy(), twin.detach().numpy())
    assert optimizer.param_groups[0]["params"][0] is p and optimizer.param_groups[0]["lr"] == 0.1
    assert optimizer.state_dict()["state"][0]["step"] == own["state"][0]["step"] == 1
    assert state["state"][0]["step"] == 2  # changed in place
    with (
        pytest.raises(ValueError, match="groups of"),
        optim.swap_in_optimizer_params_and_state(optimizer, {}, state),
    ):
        pass
