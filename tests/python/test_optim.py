"""Optimizers against scalar recurrences written out, and the schedules against closed forms."""

from __future__ import annotations

import copy
import math
import warnings

import facula
import numpy as np
import pytest
from facula import nn, optim
from facula.optim import lr_scheduler as sched
from facula.testing import assert_close


def gradient(p):
    return 2 * (p - 3) + math.cos(p)


def run(make, steps=6, start=1.0):
    p = facula.tensor([start], dtype=facula.float64, requires_grad=True)
    optimizer = make([p])
    for _ in range(steps):
        optimizer.zero_grad()
        ((p - 3) ** 2 + p.sin()).sum().backward()
        optimizer.step()
    return float(p.detach())


def sgd(p, steps=6, lr=0.1, mom=0.9, damp=0.2, decay=0.1, nesterov=False, sign=1):
    buf = None
    for _ in range(steps):
        g = sign * gradient(p) + decay * p
        buf = g if buf is None else mom * buf + (1 - damp) * g
        p -= lr * (g + mom * buf if nesterov else buf)
    return p


def test_sgd():
    options = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}
    assert_close(run(lambda ps: optim.SGD(ps, dampening=0.2, **options)), sgd(1.0))
    nesterov = run(lambda ps: optim.SGD(ps, nesterov=True, **options))
    assert_close(nesterov, sgd(1.0, damp=0, nesterov=True))
    up = run(lambda ps: optim.SGD(ps, lr=0.1, maximize=True), 3)
    assert_close(up, sgd(1.0, 3, mom=0, damp=0, decay=0, sign=-1))
    with pytest.raises(ValueError, match="Nesterov"):
        optim.SGD([facula.zeros(1)], nesterov=True)


def adam(p, steps=6, lr=0.1, b1=0.8, b2=0.9, eps=1e-8, l2=0.0, decoupled=0.0, ams=False):
    m = v = top = 0.0
    for t in range(1, steps + 1):
        p *= 1 - lr * decoupled
        g = gradient(p / (1 - lr * decoupled)) + l2 * p
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        top = max(top, v)
        used = top if ams else v
        p -= lr * (m / (1 - b1**t)) / (math.sqrt(used / (1 - b2**t)) + eps)
    return p


@pytest.mark.parametrize("ams", [False, True])
def test_adam_and_adamw(ams):
    options = {"lr": 0.1, "betas": (0.8, 0.9), "amsgrad": ams}
    l2 = run(lambda ps: optim.Adam(ps, weight_decay=0.1, **options))
    assert_close(l2, adam(1.0, l2=0.1, ams=ams))
    decoupled = run(lambda ps: optim.AdamW(ps, weight_decay=0.1, **options))
    assert_close(decoupled, adam(1.0, decoupled=0.1, ams=ams))
    with pytest.raises(ValueError, match="beta parameter at index 1"):
        optim.Adam([facula.zeros(1)], betas=(0.9, 1.0))


def test_rmsprop_adagrad_adadelta_adamax():
    p, v, mean, buf = 1.0, 0.0, 0.0, 0.0
    for _ in range(6):
        g = gradient(p)
        v, mean = 0.9 * v + 0.1 * g * g, 0.9 * mean + 0.1 * g
        buf = 0.5 * buf + g / (math.sqrt(v - mean * mean) + 1e-8)
        p -= 0.01 * buf
    got = run(lambda ps: optim.RMSprop(ps, 0.01, alpha=0.9, momentum=0.5, centered=True))
    assert_close(got, p)

    p, s = 1.0, 0.5
    for t in range(6):
        g = gradient(p)
        s += g * g
        p -= 0.1 / (1 + 0.2 * t) * g / (math.sqrt(s) + 1e-10)
    got = run(lambda ps: optim.Adagrad(ps, 0.1, lr_decay=0.2, initial_accumulator_value=0.5))
    assert_close(got, p)

    p, v, u = 1.0, 0.0, 0.0
    for _ in range(6):
        g = gradient(p)
        v = 0.9 * v + 0.1 * g * g
        d = math.sqrt(u + 1e-6) / math.sqrt(v + 1e-6) * g
        u = 0.9 * u + 0.1 * d * d
        p -= d
    assert_close(run(lambda ps: optim.Adadelta(ps)), p)

    p, m, top = 1.0, 0.0, 0.0
    for t in range(1, 7):
        g = gradient(p)
        m, top = 0.9 * m + 0.1 * g, max(0.99 * top, abs(g) + 1e-8)
        p -= 0.1 / (1 - 0.9**t) * m / top
    assert_close(run(lambda ps: optim.Adamax(ps, 0.1, betas=(0.9, 0.99))), p)


def test_nadam_radam():
    def nadam(decoupled):
        p, m, v, product = 1.0, 0.0, 0.0, 1.0
        for t in range(1, 7):
            g = gradient(p) + (0 if decoupled else 0.1 * p)
            p *= 1 - 0.1 * 0.1 if decoupled else 1
            mu, after = (0.8 * (1 - 0.5 * 0.96 ** (s * 0.004)) for s in (t, t + 1))
            product *= mu
            m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * g * g
            step = (1 - mu) * g / (1 - product) + after * m / (1 - product * after)
            p -= 0.1 * step / (math.sqrt(v / (1 - 0.9**t)) + 1e-8)
        return p

    def radam(decoupled):
        p, m, v = 1.0, 0.0, 0.0
        for t in range(1, 13):
            g = gradient(p) + (0 if decoupled else 0.1 * p)
            p *= 1 - 0.1 * 0.1 if decoupled else 1
            m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * g * g
            rho, mean = 19 - 2 * t * 0.9**t / (1 - 0.9**t), m / (1 - 0.8**t)
            if rho > 5:
                r = math.sqrt((rho - 4) * (rho - 2) * 19 / (15 * 17 * rho))
                mean *= r * math.sqrt(1 - 0.9**t) / (math.sqrt(v) + 1e-8)
            p -= 0.1 * mean
        return p

    for decoupled in (False, True):
        options = {
            "lr": 0.1,
            "betas": (0.8, 0.9),
            "weight_decay": 0.1,
            "decoupled_weight_decay": decoupled,
        }
        # The product of momenta is kept in float32, as in torch.
        got = run(lambda ps, options=options: optim.NAdam(ps, **options))
        assert_close(got, nadam(decoupled), rtol=1e-6, atol=0)
        assert_close(
            run(lambda ps, options=options: optim.RAdam(ps, **options), 12), radam(decoupled)
        )


def test_rprop_asgd():
    p, before, size = 1.0, 0.0, 0.5
    for _ in range(12):
        g = gradient(p)
        size = min(max(size * (1.5 if g * before > 0 else 0.4 if g * before < 0 else 1), 0.01), 0.9)
        g = 0.0 if g * before < 0 else g
        p -= size * ((g > 0) - (g < 0))
        before = g
    got = run(lambda ps: optim.Rprop(ps, 0.5, etas=(0.4, 1.5), step_sizes=(0.01, 0.9)), 12)
    assert_close(got, p)
    with pytest.raises(ValueError, match="eta values"):
        optim.Rprop([facula.zeros(1)], etas=(1.2, 0.5))

    p, path = 1.0, []
    for t in range(6):
        g = gradient(p) + 0.1 * p
        p -= 0.1 / (1 + 0.2 * 0.1 * t) ** 0.5 * (g + 0.2 * p)
        path.append(p)
    kept = []

    def make(params):
        kept.append(optim.ASGD(params, 0.1, lambd=0.2, alpha=0.5, t0=2, weight_decay=0.1))
        return kept[-1]

    assert_close(run(make), p)
    (state,) = kept[0].state.values()
    assert_close(float(state["ax"]), sum(path[3:]) / 3)


@pytest.mark.parametrize(
    "make",
    [
        lambda ps: optim.SGD(ps, 0.05, momentum=0.9),
        lambda ps: optim.ASGD(ps, 0.05),
        lambda ps: optim.RAdam(ps, 0.3),
        lambda ps: optim.Rprop(ps, 0.1),
        lambda ps: optim.Adam(ps, 0.3),
        lambda ps: optim.AdamW(ps, 0.3),
        lambda ps: optim.NAdam(ps, 0.3),
        lambda ps: optim.Adamax(ps, 0.3),
        lambda ps: optim.RMSprop(ps, 0.05),
        lambda ps: optim.Adagrad(ps, 1.0),
        lambda ps: optim.Adadelta(ps, 3.0),
    ],
)
def test_every_optimizer_finds_the_minimum(make):
    # The minimum of (p - 3)^2 + sin p, where the gradient is zero.
    low, high = 2.0, 4.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if gradient(middle) < 0 else (low, middle)
    assert abs(run(make, 400) - low) < 0.05


def test_resuming_is_exact():
    def train(optimizer, p, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            (p.sin() * p).sum().backward()
            optimizer.step()

    for kind in (optim.Adam, optim.ASGD, optim.NAdam, optim.RAdam, optim.RMSprop, optim.Rprop):
        p = nn.Parameter(facula.tensor([1.0, 2.0]))
        q = nn.Parameter(p.detach().clone())
        a = kind([p], lr=0.1)
        train(a, p, 3)
        b = kind([q], lr=0.7)
        with facula.no_grad():
            q.copy_(p)
        b.load_state_dict(copy.deepcopy(a.state_dict()))
        train(a, p, 3)
        train(b, q, 3)
        assert_close(p, q, rtol=0, atol=0)


def test_groups_and_state_dict():
    a, b = nn.Parameter(facula.zeros(2)), nn.Parameter(facula.zeros(3))
    optimizer = optim.SGD([{"params": [a], "lr": 0.5}, {"params": [b]}], lr=0.1, momentum=0.9)
    (a.sum() + b.sum()).backward()
    optimizer.step()
    assert_close(a.detach(), facula.full((2,), -0.5))
    assert_close(b.detach(), facula.full((3,), -0.1))
    state = optimizer.state_dict()
    assert [g["params"] for g in state["param_groups"]] == [[0], [1]]
    assert set(state["state"]) == {0, 1}
    with pytest.raises(ValueError, match="1 parameter groups, the optimizer has 2"):
        optimizer.load_state_dict({"state": {}, "param_groups": state["param_groups"][:1]})
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimizer.add_param_group({"params": [a]})
    named = optim.SGD(nn.Linear(1, 1).named_parameters(), lr=0.1)
    assert named.param_groups[0]["param_names"] == ["weight", "bias"]


def test_bad_parameters():
    for params, error in (
        (facula.zeros(1), TypeError),
        ([], ValueError),
        ([3], TypeError),
        ([facula.zeros(1, requires_grad=True) * 2], ValueError),
    ):
        with pytest.raises(error):
            optim.SGD(params, lr=0.1)
    with pytest.raises(ValueError, match="learning rate"):
        optim.SGD([facula.zeros(1)], lr=-1)
    p = facula.zeros(1)
    with pytest.raises(ValueError, match="twice"):
        optim.SGD([p, p], lr=0.1)


def test_closure_and_hooks():
    p, log = nn.Parameter(facula.tensor([1.0])), []
    optimizer = optim.SGD([p], lr=0.5)
    optimizer.register_step_pre_hook(lambda o, a, k: log.append("before"))
    optimizer.register_step_post_hook(lambda o, a, k: log.append("after"))

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        log.append("closure")
        return loss

    with facula.no_grad():
        assert optimizer.step(closure).item() == 1.0
    assert p.item() == 0.0 and log == ["before", "closure", "after"]
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.item() == 0.0
    optimizer.zero_grad()
    assert p.grad is None


# ---- schedules


def rates(make, steps):
    optimizer = optim.SGD([nn.Parameter(facula.zeros(1))], lr=0.8, momentum=0.9)
    scheduler = make(optimizer)
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        assert scheduler.get_last_lr() == [found[-1]]
        optimizer.step()
        scheduler.step()
    return found


@pytest.mark.parametrize(
    ("make", "formula"),
    [
        (lambda o: sched.StepLR(o, 3, 0.5), lambda t: 0.5 ** (t // 3)),
        (
            lambda o: sched.MultiStepLR(o, [2, 5, 5], 0.5),
            lambda t: 0.5 ** ((t >= 2) + 2 * (t >= 5)),
        ),
        (lambda o: sched.ExponentialLR(o, 0.9), lambda t: 0.9**t),
        (lambda o: sched.LambdaLR(o, lambda e: 1 / (1 + e)), lambda t: 1 / (1 + t)),
        (lambda o: sched.MultiplicativeLR(o, lambda e: 0.7), lambda t: 0.7**t),
        (lambda o: sched.ConstantLR(o, 0.5, 4), lambda t: 0.5 if t < 4 else 1),
        (lambda o: sched.LinearLR(o, 0.5, 1.0, 4), lambda t: 0.5 + 0.5 * min(t, 4) / 4),
        (lambda o: sched.PolynomialLR(o, 6, 2.0), lambda t: max(0, 1 - t / 6) ** 2),
        (lambda o: sched.CosineAnnealingLR(o, 5), lambda t: (1 + math.cos(math.pi * t / 5)) / 2),
        (
            lambda o: sched.CosineAnnealingWarmRestarts(o, 4),
            lambda t: (1 + math.cos(math.pi * (t % 4) / 4)) / 2,
        ),
        (
            lambda o: sched.SequentialLR(
                o, [sched.ConstantLR(o, 0.1, 9), sched.ExponentialLR(o, 0.9)], [3]
            ),
            lambda t: 0.1 if t < 3 else 0.9 ** (t - 3),
        ),
        (
            lambda o: sched.CyclicLR(o, 0.08, 0.8, 2, 4),
            lambda t: 0.1 + 0.9 * min(t % 6 / 2, (6 - t % 6) / 4),
        ),
        (
            lambda o: sched.CyclicLR(o, 0.08, 0.8, 3, mode="triangular2"),
            lambda t: 0.1 + 0.9 * (1 - abs(t % 6 / 3 - 1)) * 0.5 ** (t // 6),
        ),
        (
            lambda o: sched.CyclicLR(o, 0.08, 0.8, 3, mode="exp_range", gamma=0.9),
            lambda t: 0.1 + 0.9 * (1 - abs(t % 6 / 3 - 1)) * 0.9**t,
        ),
        (
            lambda o: sched.CyclicLR(o, 0.08, 0.8, 3, scale_fn=lambda c: 1 / c),
            lambda t: 0.1 + 0.9 * (1 - abs(t % 6 / 3 - 1)) / (t // 6 + 1),
        ),
    ],
)
def test_schedules(make, formula):
    np.testing.assert_allclose(rates(make, 12), [0.8 * formula(t) for t in range(12)], atol=1e-12)


def test_a_schedule_ahead_of_its_optimizer_is_warned_of():
    optimizer = optim.SGD([nn.Parameter(facula.zeros(1))], lr=0.1)
    scheduler = sched.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match=r"StepLR.step\(\) comes before the optimizer's first"):
        scheduler.step()
    optimizer = optim.SGD([nn.Parameter(facula.zeros(1))], lr=0.1)
    scheduler = sched.StepLR(optimizer, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
        scheduler.step()


def test_one_cycle():
    found = rates(lambda o: sched.OneCycleLR(o, 1.0, total_steps=11, pct_start=0.5), 11)
    assert_close(found[0], 1 / 25)
    top = max(found)
    assert 0.95 < top <= 1.0 and found.index(top) in (4, 5)
    assert_close(found[-1], 1 / 25 / 1e4)
    optimizer = optim.SGD([nn.Parameter(facula.zeros(1))], lr=0.1, momentum=0.9)
    scheduler = sched.OneCycleLR(optimizer, 1.0, total_steps=2)
    for _ in range(2):
        optimizer.step()
        scheduler.step()
    with pytest.raises(ValueError, match="total_steps is 2"):
        scheduler.step()


def test_cycles_move_momentum_the_other_way():
    def found(optimizer, scheduler, steps):
        for _ in range(steps):
            optimizer.step()
            scheduler.step()
        group = optimizer.param_groups[0]
        return group["lr"], group.get("momentum", group.get("betas"))

    p = nn.Parameter(facula.zeros(1))
    sgd, adam = optim.SGD([p], lr=0.1, momentum=0.9), optim.Adam([p])
    bounds = {"base_momentum": 0.5, "max_momentum": 0.9}
    assert found(sgd, sched.CyclicLR(sgd, 0.1, 0.5, 4, **bounds), 3) == pytest.approx((0.4, 0.6))
    lr, betas = found(adam, sched.CyclicLR(adam, 0.1, 0.5, 4, **bounds), 4)
    assert lr == pytest.approx(0.5) and betas == pytest.approx((0.5, 0.999))
    lr, betas = found(adam, sched.OneCycleLR(adam, 1.0, 11, pct_start=0.5, **bounds), 10)
    assert betas == pytest.approx((0.9, 0.999))
    with pytest.raises(ValueError, match=r"CyclicLR: cycle_momentum needs .* Adagrad has neither"):
        sched.CyclicLR(optim.Adagrad([p]), 0.1, 0.5)
    with pytest.raises(ValueError, match=r"mode must be .* not 'square'"):
        sched.CyclicLR(sgd, 0.1, 0.5, mode="square")


def test_plateau():
    optimizer = optim.SGD([nn.Parameter(facula.zeros(1))], lr=1.0)
    scheduler = sched.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, min_lr=0.2)
    seen = []
    for metric in (3, 2, 2, 2, 1, 1, 1, 1, 1, 1):
        scheduler.step(facula.tensor(float(metric)))
        seen.append(optimizer.param_groups[0]["lr"])
    assert seen == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.2, 0.2]


def test_schedule_resumes():
    def make():
        optimizer = optim.SGD([nn.Parameter(facula.zeros(1))], lr=0.8)
        return optimizer, sched.CosineAnnealingLR(optimizer, 7)

    (a, s), (b, t) = make(), make()
    for _ in range(4):
        a.step()
        s.step()
    b.load_state_dict(a.state_dict())
    t.load_state_dict(s.state_dict())
    for optimizer, scheduler in ((a, s), (b, t)):
        optimizer.step()
        scheduler.step()
    assert s.get_last_lr() == t.get_last_lr()


@pytest.mark.parametrize("done", [1, 2, 3, 4, 5, 7, 8])
@pytest.mark.parametrize(
    "make",
    [
        lambda o, n: sched.StepLR(o, 2, 0.5, last_epoch=n),
        lambda o, n: sched.MultiStepLR(o, [1, 3, 3, 5], 0.5, last_epoch=n),
        lambda o, n: sched.ConstantLR(o, 0.25, 3, last_epoch=n),
        lambda o, n: sched.LinearLR(o, 0.25, 1.0, 5, last_epoch=n),
        lambda o, n: sched.ExponentialLR(o, 0.7, last_epoch=n),
        lambda o, n: sched.PolynomialLR(o, 6, 2.0, last_epoch=n),
        lambda o, n: sched.CosineAnnealingLR(o, 4, 0.05, last_epoch=n),
        lambda o, n: sched.CosineAnnealingWarmRestarts(o, 2, 2, 0.05, last_epoch=n),
        lambda o, n: sched.CosineAnnealingWarmRestarts(o, 3, 1, 0.05, last_epoch=n),
        lambda o, n: sched.LambdaLR(o, lambda t: 1 / (t + 1), last_epoch=n),
        lambda o, n: sched.MultiplicativeLR(o, lambda t: 0.9, last_epoch=n),
        lambda o, n: sched.CyclicLR(o, 0.1, 0.9, 3, 2, "triangular2", last_epoch=n),
        lambda o, n: sched.OneCycleLR(o, 1.0, 12, three_phase=True, last_epoch=n),
        lambda o, n: sched.SequentialLR(
            o, [sched.LinearLR(o, 0.5, 1.0, 3), sched.StepLR(o, 2, 0.5)], [4], last_epoch=n
        ),
    ],
)
def test_a_schedule_made_with_last_epoch_goes_on(make, done):
    """Rates of a run that was saved and resumed are those of one that was not."""

    def fresh():
        return optim.SGD([nn.Parameter(facula.zeros(1))], lr=0.8, momentum=0.9)

    def go(optimizer, scheduler, epochs):
        seen = []
        for _ in range(epochs):
            seen.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        return seen

    whole = fresh()
    right = go(whole, make(whole, -1), 12)
    first, second = fresh(), fresh()
    before = go(first, make(first, -1), done)
    second.load_state_dict(first.state_dict())
    after = go(second, make(second, done - 1), 12 - done)
    np.testing.assert_allclose(before + after, right, rtol=1e-12)


@pytest.mark.parametrize("steps", [1, 2, 5, 10])
@pytest.mark.parametrize("anneal", ["cos", "linear"])
@pytest.mark.parametrize("rise", [0.0, 0.1, 0.3, 1.0])
def test_one_cycle_ends_at_its_lowest(steps, anneal, rise):
    optimizer = optim.SGD([nn.Parameter(facula.zeros(1))], lr=0.1, momentum=0.9)
    scheduler = sched.OneCycleLR(optimizer, 1.0, steps, pct_start=rise, anneal_strategy=anneal)
    for _ in range(steps):
        optimizer.step()
        last = optimizer.param_groups[0]["lr"]
        scheduler.step()
    if steps > 1 and rise < 1:
        assert last == pytest.approx(1 / 25 / 1e4)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(min(last, 1.0))
    with pytest.raises(ValueError, match="OneCycleLR"):
        scheduler.step()


def test_training_a_network_separates_two_spirals():
    n = 60
    angle = facula.linspace(0.5, 6.0, n)
    arms = [facula.stack([s * angle * angle.cos(), s * angle * angle.sin()], 1) for s in (1, -1)]
    x = facula.cat(arms) / 6
    y = facula.cat([facula.zeros(n), facula.ones(n)]).to(facula.int64)
    net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = optim.Adam(net.parameters(), lr=0.01)
    loss_fn = nn.CrossEntropyLoss()
    for _ in range(300):
        optimizer.zero_grad()
        loss = loss_fn(net(x), y)
        loss.backward()
        optimizer.step()
    assert int((net(x).argmax(1) == y).sum()) >= 2 * n - 2
