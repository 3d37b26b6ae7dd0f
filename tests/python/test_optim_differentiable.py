"""Steps that are differentiated: the same numbers as other steps, slopes as by differences."""

from __future__ import annotations

from typing import Any

import facula as fa
import numpy as np
import pytest
from facula import optim

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.05}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.5, "maximize": True}),
    ("Adam", {"lr": 0.05, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.05, "amsgrad": True, "maximize": True}),
    ("AdamW", {"lr": 0.05}),
    ("Adamax", {"lr": 0.05, "weight_decay": 0.1}),
    ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.05, "betas": (0.5, 0.9), "weight_decay": 0.1}),
    ("Adadelta", {"lr": 1.0, "weight_decay": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.1}),
    ("RMSprop", {"lr": 0.01, "centered": True, "momentum": 0.9}),
    ("Rprop", {"lr": 0.01}),
    ("ASGD", {"lr": 0.05, "lambd": 0.1, "t0": 1.0, "weight_decay": 0.1}),
]
START = np.random.default_rng(0).standard_normal(4) + 1.5
STEPS = 6


def loss_of(x: Any) -> Any:
    return (x.abs() ** 4).sum() if x.is_complex() else (x**4 / 4 + x.sin()).sum()


def trained(name: str, options: dict[str, Any], start: Any, followed: bool) -> tuple[Any, Any, Any]:
    leaf = fa.tensor(start).requires_grad_()
    x = leaf.clone() if followed else leaf
    optimizer = getattr(optim, name)([x], differentiable=followed, **options)
    for _ in range(STEPS):
        loss = loss_of(x.clone()) * (-1 if options.get("maximize") else 1)
        x.grad = fa.autograd.grad(loss, x, create_graph=followed)[0]
        optimizer.step()
    return leaf, x, optimizer


@pytest.mark.parametrize(("name", "options"), KINDS)
@pytest.mark.parametrize("imaginary", [0.0, 0.5j])
def test_differentiable_steps(name: str, options: dict[str, Any], imaginary: complex) -> None:
    start = START + imaginary if imaginary else START
    _, plain, old = trained(name, options, start, False)
    leaf, x, new = trained(name, options, start, True)
    fa.testing.assert_close(x.detach(), plain.detach(), rtol=1e-7, atol=1e-7)
    for key, value in old.state[plain].items():
        if isinstance(value, fa.Tensor):
            fa.testing.assert_close(new.state[x][key].detach(), value, rtol=1e-6, atol=1e-7)
    # The end's slope by the start.
    (slope,) = fa.autograd.grad((x.abs() ** 2).sum(), leaf)
    for i in range(2):
        ends = []
        for move in (1e-6, -1e-6):
            near = start.copy()
            near[i] += move
            ends.append(float((trained(name, options, near, False)[1].detach().abs() ** 2).sum()))
        wanted = (ends[0] - ends[1]) / 2e-6
        got = complex(slope[i].item()).real
        assert abs(got - wanted) < 1e-5 * max(1.0, abs(wanted))


def test_the_rate_is_learned_through_a_step() -> None:
    for name in ("SGD", "Adam"):
        ends, rate = [], 0.1
        for lr in (rate + 1e-6, rate - 1e-6):
            ends.append(float(loss_of(trained(name, {"lr": lr}, START, False)[1].detach())))
        lr = fa.tensor(rate, dtype=fa.float64, requires_grad=True)
        (slope,) = fa.autograd.grad(loss_of(trained(name, {"lr": lr}, START, True)[1]), lr)
        assert abs(float(slope) - (ends[0] - ends[1]) / 2e-6) < 1e-4


def test_where_nothing_has_moved_slopes_are_numbers() -> None:
    x = fa.zeros(2, requires_grad=True)
    moved = x.clone()
    optimizer = optim.Adam([moved], differentiable=True)
    moved.grad = x * fa.tensor([0.0, 1.0])
    optimizer.step()
    (slope,) = fa.autograd.grad(moved.sum(), x)
    assert bool(slope.isfinite().all())


def test_parameters_that_are_no_leaves() -> None:
    x = fa.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="non-leaf"):
        optim.SGD([x * 1])
    kept = x * 1
    kept.retain_grad()
    optimizer = optim.SGD([kept], lr=0.5)
    (kept * 3).sum().backward()
    optimizer.step()
    assert kept.tolist() == [-0.5, -0.5]
    with pytest.raises(RuntimeError, match="leaf"):  # a leaf cannot be what a step made
        y = fa.ones(2, requires_grad=True)
        y.grad = fa.ones(2)
        optim.SGD([y], lr=0.5, differentiable=True).step()


def test_an_optimizer_without_a_formula_refuses() -> None:
    class Own(optim.Optimizer):
        def _update(self, params: Any, grads: Any, states: Any, group: Any) -> None:
            pass

    with pytest.raises(NotImplementedError, match="_formula"):
        Own([fa.ones(1, requires_grad=True)], {"differentiable": True})


def test_averaged_sgd_keeps_the_rate_of_the_step_before() -> None:
    """The recurrence in NumPy, with a rate that a schedule halves at every step."""
    options = {"lr": 0.2, "lambd": 0.1, "alpha": 0.75, "t0": 2.0}
    x = fa.tensor(START).requires_grad_()
    optimizer = optim.ASGD([x], **options)
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    want, mean, lr, eta, mu = START.copy(), np.zeros(4), 0.2, 0.2, 1.0
    for step in range(1, 7):
        x.grad = x.detach() ** 3
        optimizer.step()
        schedule.step()
        grad = want**3
        want = want * (1 - 0.1 * eta) - eta * grad
        mean = want.copy() if mu == 1 else mean + mu * (want - mean)
        eta, mu = lr / (1 + 0.1 * lr * step) ** 0.75, 1 / max(1.0, step - 2.0)
        lr /= 2
    fa.testing.assert_close(x.detach(), fa.tensor(want), rtol=1e-6, atol=1e-7)
    fa.testing.assert_close(optimizer.state[x]["ax"], fa.tensor(mean), rtol=1e-6, atol=1e-7)
    assert set(optimizer.state[x]) == {"step", "ax", "eta", "mu"}
    # A file that does not have them goes on.
    saved = optimizer.state_dict()
    for key in ("eta", "mu"):
        del saved["state"][0][key]
    other = optim.ASGD([x], **options)
    other.load_state_dict(saved)
    other.step()


@pytest.mark.parametrize("name", ["ASGD", "RAdam", "Adam", "RMSprop"])
def test_complex_parameters_are_pairs(name: str) -> None:
    pairs = np.stack([START, START[::-1]], -1)
    real = fa.tensor(pairs).requires_grad_()
    whole = fa.view_as_complex(fa.tensor(pairs)).requires_grad_()
    optimizers = [getattr(optim, name)([p], lr=0.05, weight_decay=0.1) for p in (real, whole)]
    for _ in range(12):
        real.grad = real.detach() ** 3
        whole.grad = fa.view_as_complex(fa.view_as_real(whole.detach()) ** 3)
        for optimizer in optimizers:
            optimizer.step()
    fa.testing.assert_close(fa.view_as_real(whole.detach()), real.detach())
