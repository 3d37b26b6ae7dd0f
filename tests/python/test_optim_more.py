"""LBFGS, Adafactor, Muon, means of models: against NumPy, and torch where it is there."""

from __future__ import annotations

import copy
import math

import facula
import numpy as np
import pytest
from facula import nn, optim
from facula.optim import swa_utils
from facula.testing import assert_close


def leaf(values):
    numbers = np.asarray(values, dtype=np.float64).tolist()
    return facula.tensor(numbers, dtype=facula.float64, requires_grad=True)


def array(t):
    return np.array(t.detach().tolist())


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def closure_of(function, x, optimizer, calls=None):
    def closure():
        optimizer.zero_grad()
        loss = function(x)
        loss.backward()
        if calls is not None:
            calls.append((array(x), float(loss.detach()), array(x.grad)))
        return loss

    return closure


# ---- LBFGS


def test_lbfgs_steps_are_those_of_the_matrix():
    """With a history that holds all steps: BFGS as a matrix, from the scaled identity each time."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((6, 4))
    hessian, shift = a.T @ a + np.eye(4), rng.standard_normal(4)
    matrix, vector = leaf(hessian).detach(), leaf(shift).detach()
    x = leaf(np.zeros(4))
    optimizer = optim.LBFGS([x], lr=0.4, max_iter=1, tolerance_change=0)
    closure = closure_of(lambda x: 0.5 * x @ (matrix @ x) + vector @ x, x, optimizer)
    point, pairs = np.zeros(4), []
    for step in range(12):
        grad = hessian @ point + shift
        inverse = np.eye(4)
        if pairs:
            s, y = pairs[-1]
            inverse *= (s @ y) / (y @ y)
        for s, y in pairs:
            left = np.eye(4) - np.outer(s, y) / (s @ y)
            inverse = left @ inverse @ left.T + np.outer(s, s) / (s @ y)
        move = -(inverse @ grad) * 0.4
        if step == 0:
            move *= min(1, 1 / np.abs(grad).sum())
        optimizer.step(closure)
        new = point + move
        pairs.append((move, hessian @ new + shift - grad))
        point = new
        np.testing.assert_allclose(array(x), point, rtol=1e-9)


def test_lbfgs_forgets_beyond_its_history():
    x = leaf(np.linspace(-1, 1, 5))
    optimizer = optim.LBFGS([x], lr=0.01, max_iter=10, history_size=3, tolerance_change=0)
    optimizer.step(closure_of(rosenbrock, x, optimizer))
    state = optimizer.state[x]
    assert [len(state[name]) for name in ("old_dirs", "old_stps", "ro")] == [3, 3, 3]
    assert state["n_iter"] == 10 and state["func_evals"] == 10


def test_lbfgs_line_search_meets_the_strong_wolfe_conditions():
    x = leaf([-1.2, 1.0, -0.5])
    optimizer = optim.LBFGS([x], max_iter=1, max_eval=50, line_search_fn="strong_wolfe")
    start = np.array([-1.2, 1.0, -0.5])
    seen = []
    for _ in range(25):
        calls: list = []
        optimizer.step(closure_of(rosenbrock, x, optimizer, calls))
        _, loss, grad = calls[0]
        move = array(x) - start
        chosen = min(calls[1:], key=lambda c: np.abs(c[0] - array(x)).max(), default=None)
        if chosen is None:
            break
        np.testing.assert_allclose(chosen[0], array(x), atol=1e-12)
        assert chosen[1] <= loss + 1e-4 * (grad @ move)
        assert abs(chosen[2] @ move) <= 0.9 * abs(grad @ move) * (1 + 1e-9)
        seen.append(len(calls))
        start = array(x)
    assert len(seen) > 15 and max(seen) > 2  # the search had work to do
    for _ in range(20):
        optimizer.step(closure_of(rosenbrock, x, optimizer))
    np.testing.assert_allclose(array(x), np.ones(3), atol=1e-6)


def test_lbfgs_with_complex_numbers_and_without_a_gradient():
    z = facula.tensor([1 + 2j, -3j], dtype=facula.complex128, requires_grad=True)
    idle = leaf([1.0])
    goal = facula.tensor([2 - 1j, 1j], dtype=facula.complex128)
    optimizer = optim.LBFGS([z, idle], line_search_fn="strong_wolfe")
    optimizer.step(closure_of(lambda z: (z - goal).abs().pow(2).sum(), z, optimizer))
    assert_close(z.detach(), goal)
    assert idle.tolist() == [1.0]


@pytest.mark.parametrize("group", [[facula.zeros(0, requires_grad=True)], [{"params": []}]])
def test_lbfgs_with_nothing_to_move(group):
    optimizer = optim.LBFGS(group)
    calls = []
    assert optimizer.step(lambda: calls.append(facula.is_grad_enabled()) or 3.0) == 3.0
    assert calls == [True]


@pytest.mark.parametrize("maximize", [False, True])
def test_rprop_with_complex_numbers(maximize):
    """Each part has a step of its own; NumPy says which."""
    grads = np.array([[1 - 2j, 3j], [2 + 1j, 1j], [-1 + 1j, -2j], [-1 + 1j, 2 - 2j]])
    z = facula.tensor([1 + 2j, -3j], dtype=facula.complex128, requires_grad=True)
    optimizer = optim.Rprop([z], lr=0.1, step_sizes=(0.06, 0.13), maximize=maximize)
    want, before, size = np.array([1.0, 2, 0, -3]), np.zeros(4), np.full(4, 0.1)
    for g in grads:
        z.grad = facula.tensor(g.tolist(), dtype=facula.complex128)
        optimizer.step()
        own = g.view(np.float64) * (-1 if maximize else 1)
        size = np.clip(
            size * np.choose(np.sign(own * before).astype(int) + 1, [0.5, 1, 1.2]), 0.06, 0.13
        )
        own = np.where(own * before < 0, 0, own)
        want, before = want - np.sign(own) * size, own
    np.testing.assert_allclose(array(facula.view_as_real(z)).reshape(-1), want, rtol=1e-12)
    assert optimizer.state[z]["step_size"].dtype == facula.complex128


def test_lbfgs_state_and_errors():
    x = leaf([-1.2, 1.0])
    first = optim.LBFGS([x], max_iter=3, line_search_fn="strong_wolfe")
    first.step(closure_of(rosenbrock, x, first))
    y = leaf(array(x))
    second = optim.LBFGS([y], max_iter=3, line_search_fn="strong_wolfe")
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    seen = []
    second.register_step_post_hook(lambda *args: seen.append(args[0]))
    first.step(closure_of(rosenbrock, x, first))
    second.step(closure_of(rosenbrock, y, second))
    assert array(x).tolist() == array(y).tolist() and seen == [second]
    with pytest.raises(ValueError, match="one parameter group"):
        optim.LBFGS([{"params": [x]}, {"params": [y]}])
    with pytest.raises(TypeError, match="closure"):
        first.step()
    with pytest.raises(ValueError, match="line_search_fn: 'armijo'"):
        optim.LBFGS([x], line_search_fn="armijo")
    with pytest.raises(ValueError, match="learning rate"):
        optim.LBFGS([x], lr=-1)


# ---- Adafactor


def adafactor(p, grads, lr=0.01, decay=-0.8, eps=(None, 1e-3), d=1.0, weight=0.0, sign=1):
    rms = lambda x: np.sqrt((x * x).mean())  # noqa: E731
    least = np.finfo(np.float64).eps if eps[0] is None else eps[0]
    rows = columns = v = 0.0
    for t, g in enumerate(grads, 1):
        g = sign * g
        keep = 1 - t**decay
        alpha = max(eps[1], rms(p)) * min(lr, 1 / math.sqrt(t))
        p = p * (1 - lr * weight)
        if p.ndim > 1:
            rows = keep * rows + (1 - keep) * (g * g).mean(-1, keepdims=True)
            columns = keep * columns + (1 - keep) * (g * g).mean(-2, keepdims=True)
            v = rows * columns / np.maximum(rows.mean(-2, keepdims=True), least)
        else:
            v = keep * v + (1 - keep) * g * g
        u = g / np.sqrt(np.maximum(v, least**2))
        p = p - alpha * u / max(1, rms(u) / d)
    return p


@pytest.mark.parametrize("shape", [(4, 3), (5,), (), (2, 3, 4)])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, {}),
        (
            {"lr": 0.5, "beta2_decay": -0.5, "eps": (1e-4, 0.1), "d": 1.5, "weight_decay": 0.1},
            {"lr": 0.5, "decay": -0.5, "eps": (1e-4, 0.1), "d": 1.5, "weight": 0.1},
        ),
        ({"maximize": True}, {"sign": -1}),
    ],
)
def test_adafactor(shape, options, words):
    rng = np.random.default_rng(2)
    start, grads = rng.standard_normal(shape), rng.standard_normal((8, *shape))
    p = leaf(start)
    optimizer = optim.Adafactor([p], **options)
    for g in grads:
        p.grad = leaf(g).detach()
        optimizer.step()
    np.testing.assert_allclose(array(p), adafactor(start, grads, **words), rtol=1e-12)


def test_adafactor_keeps_two_vectors_of_a_matrix_and_says_what_it_takes():
    p = leaf(np.ones((6, 5)))
    p.grad = leaf(np.ones((6, 5))).detach()
    optimizer = optim.Adafactor([p])
    optimizer.step()
    sizes = {name: tuple(value.shape) for name, value in optimizer.state[p].items()}
    assert sizes == {"step": (), "row_var": (6, 1), "col_var": (1, 5)}
    for options, word in [({"beta2_decay": 0.1}, "beta2_decay"), ({"d": 0.5}, "threshold d")]:
        with pytest.raises(ValueError, match=word):
            optim.Adafactor([p], **options)
    with pytest.raises(ValueError, match="complex"):
        optim.Adafactor([facula.zeros(2, 2, dtype=facula.complex64, requires_grad=True)])


# ---- Muon


def polynomial_of_singular_values(matrix, steps=5, coefficients=(3.4445, -4.7750, 2.0315)):
    """What Newton-Schulz does, on the singular values alone."""
    u, s, v = np.linalg.svd(matrix, full_matrices=False)
    a, b, c = coefficients
    s = s / np.linalg.norm(matrix)
    for _ in range(steps):
        s = a * s + b * s**3 + c * s**5
    return (u * s) @ v


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5)])
@pytest.mark.parametrize("nesterov", [True, False])
def test_muon(shape, nesterov):
    rng = np.random.default_rng(3)
    start, grads = rng.standard_normal(shape), rng.standard_normal((4, *shape))
    for kind, ratio in (
        (None, math.sqrt(max(1, shape[0] / shape[1]))),
        ("match_rms_adamw", 0.2 * math.sqrt(max(shape))),
    ):
        p, expected, mean = leaf(start), start, np.zeros(shape)
        optimizer = optim.Muon([p], lr=0.1, nesterov=nesterov, adjust_lr_fn=kind)
        for g in grads:
            p.grad = leaf(g).detach()
            optimizer.step()
            mean = 0.95 * mean + 0.05 * g
            step = 0.05 * g + 0.95 * mean if nesterov else mean
            step = polynomial_of_singular_values(step)
            expected = expected * (1 - 0.1 * 0.1) - 0.1 * ratio * step
        # Products are of 8 bits; a step has elements of about 0.1 * ratio / 2.
        assert np.abs(array(p) - expected).max() < 0.02 * ratio


def test_muon_takes_matrices():
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        optim.Muon([leaf(np.ones(3))])
    with pytest.raises(ValueError, match="adjust_lr_fn"):
        optim.Muon([leaf(np.ones((3, 3)))], adjust_lr_fn="none")


# ---- means of models


def train(model, steps, each):
    """Steps that add the number of the step to each parameter."""
    for i in range(steps):
        with facula.no_grad():
            for p in model.parameters():
                p.add_(i)
        each(model)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({}, lambda mean, p, n: mean + (p - mean) / (n + 1)),
        ({"avg_fn": swa_utils.get_swa_avg_fn()}, lambda mean, p, n: mean + (p - mean) / (n + 1)),
        ({"avg_fn": swa_utils.get_ema_avg_fn(0.9)}, lambda mean, p, n: 0.9 * mean + 0.1 * p),
        (
            {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.75)},
            lambda mean, p, n: 0.75 * mean + 0.25 * p,
        ),
    ],
)
def test_averaged_model(options, rule):
    model = nn.Linear(2, 2).double()
    averaged = swa_utils.AveragedModel(model, **options)
    kept = []
    train(model, 6, lambda m: (averaged.update_parameters(m), kept.append(array(m.weight))))
    mean = kept[0]
    for n, p in enumerate(kept[1:], 1):
        mean = rule(mean, p, n)
    np.testing.assert_allclose(array(averaged.module.weight), mean, rtol=1e-12)
    assert int(averaged.n_averaged) == 6
    x = facula.ones(1, 2, dtype=facula.float64)
    assert_close(averaged(x), averaged.module(x))
    assert set(averaged.state_dict()) == {"n_averaged", "module.weight", "module.bias"}


@pytest.mark.parametrize("use_buffers", [False, True])
def test_buffers_are_copied_or_averaged(use_buffers):
    model = nn.BatchNorm1d(2, affine=False)
    averaged = swa_utils.AveragedModel(model, use_buffers=use_buffers)
    for value in (2.0, 4.0):
        model.running_mean.fill_(value)
        averaged.update_parameters(model)
    assert averaged.module.running_mean.tolist() == [3.0 if use_buffers else 4.0] * 2


def test_update_bn():
    rng = np.random.default_rng(4)
    batches = [rng.standard_normal((8, 3)) for _ in range(3)]
    model = nn.Sequential(nn.BatchNorm1d(3, momentum=0.3).double(), nn.Dropout())
    model.eval()
    swa_utils.update_bn([(leaf(b).detach(), 0) for b in batches], model)
    np.testing.assert_allclose(
        array(model[0].running_mean), np.mean([b.mean(0) for b in batches], 0), rtol=1e-12
    )
    np.testing.assert_allclose(
        array(model[0].running_var), np.mean([b.var(0, ddof=1) for b in batches], 0), rtol=1e-12
    )
    assert model[0].momentum == 0.3 and not model.training


@pytest.mark.parametrize("strategy", ["cos", "linear"])
def test_swalr(strategy):
    optimizer = optim.SGD([{"params": [leaf([1.0])]}, {"params": [leaf([1.0])], "lr": 0.5}], lr=1.0)
    schedule = swa_utils.SWALR(optimizer, [0.1, 0.05], anneal_epochs=4, anneal_strategy=strategy)
    for step in range(7):
        t = min(step / 4, 1)
        share = (1 - math.cos(math.pi * t)) / 2 if strategy == "cos" else t
        assert_close(schedule.get_last_lr(), [1 - 0.9 * share, 0.5 - 0.45 * share])
        optimizer.step()
        schedule.step()
    at_once = optim.SGD([leaf([1.0])], lr=1.0)
    swa_utils.SWALR(at_once, 0.1, anneal_epochs=0)
    assert at_once.param_groups[0]["lr"] == 0.1
    for bad in ({"anneal_strategy": "step"}, {"anneal_epochs": -1}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            swa_utils.SWALR(at_once, 0.1, **bad)


def test_errors_of_means():
    with pytest.raises(ValueError, match="decay"):
        swa_utils.get_ema_avg_fn(1.5)
    with pytest.raises(ValueError, match="only one"):
        swa_utils.AveragedModel(
            nn.Linear(1, 1),
            avg_fn=swa_utils.get_swa_avg_fn(),
            multi_avg_fn=swa_utils.get_swa_multi_avg_fn(),
        )


# ---- torch


MAKES = {
    "lbfgs": ("LBFGS", {"lr": 0.5, "max_iter": 2}, 1e-6, 20),
    "wolfe": ("LBFGS", {"max_iter": 4, "line_search_fn": "strong_wolfe"}, 1e-6, 5),
    "adafactor": ("Adafactor", {"lr": 0.1, "weight_decay": 0.01}, 1e-6, 100),
    "muon": ("Muon", {"lr": 0.02}, 1e-2, 100),
}


@pytest.mark.parametrize(("name", "options", "tolerance", "steps"), MAKES.values(), ids=MAKES)
def test_curves_are_torchs(name, options, tolerance, steps):
    torch = pytest.importorskip("torch")
    if not hasattr(torch.optim, name):
        pytest.skip(f"torch {torch.__version__} has no {name}")
    rng = np.random.default_rng(5)
    data, start = rng.standard_normal((20, 5)), rng.standard_normal((5, 3))
    goal = np.tanh(data @ rng.standard_normal((5, 3)))

    def curve(library):
        x, y = (library.tensor(a.tolist(), dtype=library.float64) for a in (data, goal))
        w = library.tensor(start.tolist(), dtype=library.float64, requires_grad=True)
        optimizer = getattr(library.optim, name)([w], **options)
        closure = closure_of(lambda w: ((x @ w).tanh() - y).pow(2).mean(), w, optimizer)
        return [float(optimizer.step(closure).detach()) for _ in range(steps)]

    np.testing.assert_allclose(curve(facula), curve(torch), rtol=tolerance)


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        ("[chain(), step()]", [0.1, 0.09, 0.81, 0.729, 1, 1, 0.1, 0.1, 0.01]),
        ("[step(), chain()]", [1, 1, 0.1, 0.1, 0.1, 0.09, 0.81, 0.729, 0.6561]),
        ("[sequence(), step()]", [0.5, 0.5, 1, 0.9, 1, 1, 0.1, 0.1, 0.01]),
        ("[step(), sequence()]", [1, 1, 0.1, 0.1, 0.5, 0.5, 1, 0.9, 0.81]),
    ],
)
def test_schedules_of_schedules(make: str, wanted: list[float]) -> None:
    sched = facula.optim.lr_scheduler
    optimizer = facula.optim.SGD([facula.nn.Parameter(facula.ones(1))], lr=1.0)
    names = {
        "step": lambda: sched.StepLR(optimizer, 2),
        "chain": lambda: sched.ChainedScheduler(
            [sched.ConstantLR(optimizer, 0.1, 2), sched.ExponentialLR(optimizer, 0.9)]
        ),
        "sequence": lambda: sched.SequentialLR(
            optimizer,
            [sched.ConstantLR(optimizer, 0.5, 9), sched.ExponentialLR(optimizer, 0.9)],
            [2],
        ),
    }
    scheduler = sched.SequentialLR(optimizer, eval(make, names), [4])
    found = []
    for _ in wanted:
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert found == pytest.approx(wanted)


@pytest.mark.parametrize("kind", ["SequentialLR", "ChainedScheduler"])
def test_schedules_of_a_metric_are_not_parts(kind: str) -> None:
    sched = facula.optim.lr_scheduler
    optimizer = facula.optim.SGD([facula.nn.Parameter(facula.ones(1))], lr=1.0)
    parts = [sched.StepLR(optimizer, 2), sched.ReduceLROnPlateau(optimizer)]
    with pytest.raises(ValueError, match="scheduler 1 is a ReduceLROnPlateau"):
        if kind == "SequentialLR":
            sched.SequentialLR(optimizer, parts, [3])
        else:
            sched.ChainedScheduler(parts)


@pytest.mark.parametrize("strategy", ["cos", "linear"])
def test_a_schedule_of_means_goes_on_where_it_was(strategy: str) -> None:
    def made(last_epoch: int = -1, state: object = None) -> tuple[object, object]:
        optimizer = facula.optim.SGD([facula.nn.Parameter(facula.ones(1))], lr=0.5)
        if state is not None:
            optimizer.load_state_dict(state)
        return optimizer, swa_utils.SWALR(optimizer, 0.05, 5, strategy, last_epoch)

    def rates(optimizer: object, schedule: object, count: int) -> list[float]:
        found = []
        for _ in range(count):
            optimizer.step()
            schedule.step()
            found.append(optimizer.param_groups[0]["lr"])
        return found

    way = {
        "cos": [(1 - math.cos(math.pi * min(k, 5) / 5)) / 2 for k in range(1, 8)],
        "linear": [min(k, 5) / 5 for k in range(1, 8)],
    }[strategy]
    wanted = [0.5 + (0.05 - 0.5) * share for share in way]
    for done in range(1, 6):
        optimizer, schedule = made()
        assert rates(optimizer, schedule, done) == pytest.approx(wanted[:done])
        again = made(done - 1, copy.deepcopy(optimizer.state_dict()))
        assert rates(*again, 7 - done) == pytest.approx(wanted[done:])
    optimizer, schedule = made()
    first = facula.optim.lr_scheduler.ConstantLR(optimizer, 1.0, 9)
    both = facula.optim.lr_scheduler.SequentialLR(optimizer, [first, schedule], [2])
    assert rates(optimizer, both, 6) == pytest.approx([0.5, 0.5, *wanted[:4]])
