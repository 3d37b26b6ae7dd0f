"""The frame around the optimizers' operators: missing gradients, dtypes, layouts, threads."""

from __future__ import annotations

import facula
import numpy as np
import pytest
from facula import nn, optim

KINDS = {
    "sgd": lambda ps: optim.SGD(ps, 0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "adam": lambda ps: optim.Adam(ps, 0.1, amsgrad=True),
    "adamw": lambda ps: optim.AdamW(ps, 0.1, weight_decay=0.1),
    "nadam": lambda ps: optim.NAdam(ps, 0.1),
    "adamax": lambda ps: optim.Adamax(ps, 0.1),
    "rmsprop": lambda ps: optim.RMSprop(ps, 0.1, momentum=0.5, centered=True),
    "adagrad": lambda ps: optim.Adagrad(ps, 0.1),
    "adadelta": lambda ps: optim.Adadelta(ps),
    "adafactor": lambda ps: optim.Adafactor(ps, 0.1),
}


def parameter(values, dtype=facula.float64):
    return nn.Parameter(facula.tensor(np.asarray(values).tolist(), dtype=dtype))


def values(p):
    return np.array(p.detach().to(facula.float64).tolist())


def steps(make, params, grads):
    """Steps with one array of gradients a step and parameter; None leaves a parameter out."""
    optimizer = make(params)
    for row in grads:
        for p, g in zip(params, row, strict=True):
            p.grad = None if g is None else facula.tensor(np.asarray(g).tolist(), dtype=p.dtype)
        optimizer.step()
    return optimizer


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_parameters_do_not_influence_each_other(make):
    rng = np.random.default_rng(0)
    start = [rng.standard_normal(s) for s in ((3, 2), (), (0,), (5,))]
    grads = [[rng.standard_normal(s.shape) for s in start] for _ in range(4)]
    together = [parameter(s) for s in start]
    steps(make, together, grads)
    for i, s in enumerate(start):
        alone = [parameter(s)]
        steps(make, alone, [[row[i]] for row in grads])
        np.testing.assert_array_equal(values(together[i]), values(alone[0]))


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_a_parameter_without_gradient_waits(make):
    rng = np.random.default_rng(1)
    a, b, late = (parameter(rng.standard_normal(3)) for _ in range(3))
    before = values(late)
    first = rng.standard_normal(3)
    optimizer = steps(make, [a, late], [[first, None]])
    np.testing.assert_array_equal(values(late), before)
    with facula.no_grad():
        b.copy_(late)
    steps(make, [b], [[first]])
    late.grad, a.grad = facula.tensor(first.tolist(), dtype=late.dtype), None
    optimizer.step()  # its first step, whatever the others did
    np.testing.assert_array_equal(values(late), values(b))


@pytest.mark.parametrize("dtype", [facula.float32, facula.bfloat16, facula.float16])
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_lower_precision_follows_float64(make, dtype):
    rng = np.random.default_rng(2)
    start, grads = 0.01 * rng.standard_normal(700), rng.standard_normal((3, 1, 700))
    exact, rounded = parameter(start), parameter(start, dtype)
    for p in (exact, rounded):
        steps(make, [p], grads)
    rtol = {facula.float32: 1e-4, facula.float16: 3e-2, facula.bfloat16: 0.1}[dtype]
    error, moved = np.abs(values(rounded) - values(exact)), np.abs(values(exact) - start)
    assert np.quantile(error, 0.95) < rtol * np.median(moved) and rounded.dtype == dtype


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_dtypes_may_mix(make):
    rng = np.random.default_rng(3)
    start, grads = rng.standard_normal((2, 4)), rng.standard_normal((3, 2, 4))
    mixed = [parameter(start[0]), parameter(start[1], facula.float32)]
    steps(make, mixed, grads)
    for i, dtype in enumerate((facula.float64, facula.float32)):
        alone = parameter(start[i], dtype)
        steps(make, [alone], grads[:, i : i + 1])
        np.testing.assert_array_equal(values(mixed[i]), values(alone))


COMPLEX = {name: make for name, make in KINDS.items() if name != "adafactor"} | {
    "asgd": lambda ps: optim.ASGD(ps, 0.1),
    "radam": lambda ps: optim.RAdam(ps, 0.1),
    "rprop": lambda ps: optim.Rprop(ps, 0.1),
}


@pytest.mark.parametrize("make", COMPLEX.values(), ids=COMPLEX)
def test_a_complex_parameter_is_a_pair_of_real_ones(make):
    rng = np.random.default_rng(4)
    start, grads = rng.standard_normal((3, 2)), rng.standard_normal((2, 3, 2))
    p = nn.Parameter(facula.view_as_complex(facula.tensor(start.tolist(), dtype=facula.float64)))
    q = parameter(start)
    both = [make([p]), make([q])]
    for g in grads:
        q.grad = facula.tensor(g.tolist(), dtype=facula.float64)
        p.grad = facula.view_as_complex(q.grad.clone())
        for optimizer in both:
            optimizer.step()
    np.testing.assert_array_equal(values(facula.view_as_real(p.detach())), values(q))


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_layout_and_threads_change_nothing(make):
    rng = np.random.default_rng(5)
    shapes = ((300, 257), (70, 3), (200_000,))
    start = [rng.standard_normal(s) for s in shapes]
    grads = [[rng.standard_normal(s) for s in shapes] for _ in range(2)]
    plain = [parameter(s) for s in start]
    before = facula.get_num_threads()
    try:
        facula.set_num_threads(1)
        steps(make, plain, grads)
        facula.set_num_threads(3)
        turned = [
            nn.Parameter(parameter(s.T).detach().t() if s.ndim == 2 else parameter(s))
            for s in start
        ]
        gapped = []
        for s in start:
            wide = facula.zeros([2 * n for n in s.shape], dtype=facula.float64)
            view = wide[tuple(slice(None, None, 2) for _ in s.shape)]
            view.copy_(facula.tensor(s.tolist(), dtype=facula.float64))
            gapped.append(nn.Parameter(view))
        for others in (turned, gapped):
            steps(make, others, grads)
            for p, q in zip(plain, others, strict=True):
                np.testing.assert_array_equal(values(p), values(q))
    finally:
        facula.set_num_threads(before)


def test_a_step_counts_as_a_write():
    p = parameter([1.0, 2.0])
    squared = (p * p).sum()
    p.grad = facula.ones(2, dtype=facula.float64)
    optim.SGD([p], lr=0.1).step()
    with pytest.raises(RuntimeError, match="changed"):
        squared.backward()


def test_a_number_that_counted_steps_becomes_a_tensor():
    p = parameter([1.0])
    optimizer = steps(KINDS["adam"], [p], [[[1.0]]])
    state = optimizer.state_dict()
    state["state"][0] = {**state["state"][0], "step": 5}
    optimizer.load_state_dict(state)
    p.grad = facula.ones(1, dtype=facula.float64)
    optimizer.step()
    assert optimizer.state[p]["step"].item() == 6.0


def test_the_rate_may_be_a_tensor():
    p, q = parameter([1.0]), parameter([1.0])
    for param, lr in ((p, 0.25), (q, facula.tensor(0.25))):
        steps(lambda ps, lr=lr: optim.AdamW(ps, lr=lr), [param], [[[0.5]]])
    assert p.item() == q.item()


def test_sgd_keeps_nothing_without_momentum():
    p = parameter([1.0])
    assert steps(lambda ps: optim.SGD(ps, lr=0.5), [p], [[[1.0]]]).state_dict()["state"] == {}
    assert p.item() == 0.5


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.AdamW, optim.Adagrad])
def test_implementations_that_exclude_each_other(kind):
    for option in ({"foreach": True}, {"fused": True}):
        kind([parameter([1.0])], lr=0.1, **option)
    if kind is not optim.Adagrad:
        with pytest.raises(RuntimeError, match="cannot be `True` together"):
            kind([parameter([1.0])], lr=0.1, foreach=True, fused=True)
    with pytest.raises(RuntimeError, match="does not support `differentiable`"):
        kind([parameter([1.0])], lr=0.1, differentiable=True, fused=True)


def test_the_operators_refuse_lists_that_do_not_fit():
    step = facula._C._ops.sgd_step
    p, q = facula.ones(3), facula.ones(2)
    options = (0.1, 0.0, 0.0, 0.0, False, False, False)
    for params, grads, buffers in (
        ([p], [], []),
        ([p], [q], []),
        ([p], [facula.ones(3, dtype=facula.int64)], []),
        ([p], [p.to(facula.complex64)], []),
        ([p], [p], [p]),
        ([facula.ones(1).expand(3)], [p], []),
    ):
        with pytest.raises((RuntimeError, ValueError)):
            step(params, grads, buffers, *options)
    leaf = facula.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        step([leaf], [p], [], *options)
    np.testing.assert_array_equal(values(p), np.ones(3))


def test_counters_of_integers_become_floating_point():
    p = facula.zeros(1, requires_grad=True)
    optimizer = facula.optim.Adam([p], lr=0.1)
    p.grad = facula.ones(1)
    optimizer.step()
    saved = optimizer.state_dict()
    saved["state"][0]["step"] = facula.tensor(3)
    optimizer.load_state_dict(saved)
    optimizer.step()
    # m = 0.19, v = 0.001999, t = 4
    m, v = 0.19 / (1 - 0.9**4), 0.001999 / (1 - 0.999**4)
    assert p.item() == pytest.approx(-0.1 - 0.1 * m / v**0.5, rel=1e-5)


def test_sums_of_a_complex_parameter_start_in_both_parts():
    start = 0.5
    p = facula.zeros(1, dtype=facula.complex64, requires_grad=True)
    optimizer = facula.optim.Adagrad([p], lr=1.0, initial_accumulator_value=start)
    assert optimizer.state[p]["sum"].tolist() == [complex(start, start)]
    p.grad = facula.tensor([3 + 2j])
    optimizer.step()
    want = -complex(3 / (start + 9) ** 0.5, 2 / (start + 4) ** 0.5)
    assert p.item() == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize("name", ["adam_step", "sgd_step", "rmsprop_step"])
def test_lists_are_named_in_errors(name):
    """By the names of the signature."""
    a, b = facula.ones(3), facula.zeros(3)
    numbers = {"adam_step": [0.1, 0.9, 0.99, 1e-8, 0.0, False, False],
               "sgd_step": [0.1, 0.9, 0.0, 0.0, False, False, False],
               "rmsprop_step": [0.1, 0.9, 1e-8, 0.0, 0.0, False]}[name]  # fmt: skip
    lists = {"adam_step": ["exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs", "steps"],
             "sgd_step": ["momentum_buffers"],
             "rmsprop_step": ["square_avgs", "grad_avgs", "momentum_buffers", "steps"],
             }[name]  # fmt: skip
    step = getattr(facula._C._ops, name)
    for wrong in lists:
        if wrong == "steps":
            continue
        for bad, words in (
            ([b, b], f"1 parameters come with 2 tensors in {wrong}"),
            ([facula.ones(4)], rf"parameter 0 is \(3,\) and {wrong}\[0\] \(4,\)"),
            ([facula.ones(3, dtype=facula.int64)], rf"{wrong}\[0\] int64"),
        ):
            state = [[facula.zeros(() if k == "steps" else 3)] for k in lists]
            state[lists.index(wrong)] = bad
            with pytest.raises((RuntimeError, ValueError), match=words):
                step([a], [b], *state, *numbers)
    assert a.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "make", [optim.SGD, optim.Adam, optim.AdamW, optim.NAdam, optim.Adamax, optim.RMSprop,
             optim.Adagrad, optim.Adadelta], ids=lambda kind: kind.__name__
)  # fmt: skip
def test_a_gradient_in_the_parameters_memory_is_refused(make):
    whole = facula.ones(4)
    for data, grad in ((whole, whole), (whole[:3], whole[1:]), (whole[:2], whole[:2])):
        p = data.detach().requires_grad_()
        p.grad = grad.detach()
        with pytest.raises(RuntimeError, match=r"params\[0\] and grads\[0\] share memory; clone"):
            make([p], lr=0.1).step()
        assert whole.tolist() == [1, 1, 1, 1]
    p = whole[:2].detach().requires_grad_()  # side by side is no overlap
    p.grad = whole[2:].detach()
    make([p], lr=0.1).step()
    assert whole[0].item() < 1 and whole[2:].tolist() == [1, 1]


def test_state_in_the_parameters_memory_is_refused():
    p = facula.ones(2, requires_grad=True)
    optimizer = optim.SGD([p], lr=0.1, momentum=0.9)
    p.grad = facula.ones(2)
    optimizer.step()
    optimizer.state[p]["momentum_buffer"] = p.detach()
    with pytest.raises(RuntimeError, match=r"params\[0\] and momentum_buffers\[0\] share memory"):
        optimizer.step()
