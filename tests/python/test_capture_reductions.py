"""Reductions and casts that a compiled function takes down: the bits of eager calls.

The oracle is facula run eagerly, which tests/ops holds against NumPy: what may go wrong here is the
order of additions, and elements that are made too late, twice or never.
"""

from __future__ import annotations

import os
import threading

import facula as fa
import numpy as np
import pytest
from facula import compiler

RNG = np.random.default_rng(5)


def floats(*shape, dtype="float32"):
    return fa.tensor(RNG.standard_normal(shape).astype(dtype))


def same(a, b):
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and a.stride() == b.stride()
        and a.float().numpy().tobytes() == b.float().numpy().tobytes()
    )


def check(function, *args, **options):
    """The same results, and what is left in the arguments, twice: a plan made and a plan found."""
    compiled = fa.compile(function, **options)
    for _ in range(2):
        mine, others = [a.clone() for a in args], [a.clone() for a in args]
        assert same(function(*mine), compiled(*others))
        assert same(mine, others)
    return compiled


def groups(function, *args):
    return [[name for name, _ in g.operators] for g in compiler.explain(function, *args).groups]


REDUCTIONS = {
    "sum": lambda t, d: t.sum(d),
    "mean": lambda t, d: t.mean(d, keepdim=True),
    "amax": lambda t, d: t.amax(d),
    "amin": lambda t, d: t.amin(d, keepdim=True),
    "any": lambda t, d: t.any(d),
    "all": lambda t, d: t.all(d),
    "count_nonzero": lambda t, d: t.count_nonzero(d),
    "std": lambda t, d: t.std(d),
    "var": lambda t, d: t.var(d, keepdim=True),
    "norm": lambda t, d: fa.linalg.vector_norm(t, 2, d),
    "norm3": lambda t, d: fa.linalg.vector_norm(t, 3, d),
    "sum in double": lambda t, d: t.sum(d, dtype=fa.float64),
    "prod": lambda t, d: t.prod() if len(d) > 1 else t.prod(d[0]),
}


@pytest.mark.parametrize("checked", ["1", "check"])
@pytest.mark.parametrize("dtype", [fa.float32, fa.float64, fa.bfloat16])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_over_any_dims_and_layouts(name, dtype, checked, monkeypatch):
    monkeypatch.setenv("FACULA_COMPILE", checked)
    x = floats(24, 30, 40).to(dtype)
    reduce = REDUCTIONS[name]
    for dims in ([0], [1], [2], [0, 1], [1, 2], [0, 2], [0, 1, 2]):
        check(lambda x, d=dims: reduce(x * 0.5, d), x)
        check(lambda x, d=dims: reduce(x.permute(2, 0, 1) * 0.5, d), x)


@pytest.mark.parametrize(
    "shape, dims",
    [
        ((1 << 20,), [0]),  # slices of long runs
        ((3, 200_000), [1]),
        ((40, 70_000), [1]),  # rows beyond what one call of a loop takes
        ((100_000, 5), [0]),  # narrow columns
        ((40_000, 3), [1]),
        ((300, 5000), [0]),
        ((17, 33, 129), [0, 2]),
        ((70_001,), [0]),
    ],
)
@pytest.mark.parametrize("dtype", [fa.float32, fa.float16])
def test_long_rows_and_columns(shape, dims, dtype):
    x, y = floats(*shape).to(dtype), floats(*shape).to(dtype)
    for reduce in (REDUCTIONS["sum"], REDUCTIONS["amax"], REDUCTIONS["std"]):
        check(lambda x, y, r=reduce: r((x - y) * x, dims), x, y)


def test_is_the_sum_that_numpy_computes():
    x = RNG.standard_normal(1 << 17)
    f = fa.compile(lambda t: (t * t + 1).sum())
    np.testing.assert_allclose(float(f(fa.tensor(x))), (x * x + 1).sum(), rtol=1e-14)


def test_joins_the_group_that_makes_its_elements():
    x = floats(200, 200)
    assert groups(lambda x: (x * 2).relu().sum(), x) == [["mul", "relu", "sum"]]
    assert groups(lambda x: ((x * 2).sum(1, keepdim=True) + 1) * x, x) == [
        ["mul", "sum"],
        ["add"],
        ["mul"],
    ]

    def softmax(x):
        e = (x - x.amax(-1, True)).exp()
        return e / e.sum(-1, keepdim=True)

    assert groups(softmax, x) == [["sub", "exp", "sum"], ["div"]]
    assert groups(lambda x: (x.half() * 2).sum(dtype=fa.float32), x) == [["to_copy", "mul", "sum"]]


@pytest.fixture
def checked(monkeypatch):
    monkeypatch.setenv("FACULA_COMPILE", "check")


@pytest.mark.parametrize("shape", [(50, 100), (300, 70)])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: (lambda y: (y, y.sum()))(x * 2),  # also held
        lambda x: (lambda y: (y.sum(), y.amax(), y.mean(0)))(x * 2),  # three of the same
        lambda x: (lambda y: (y.sum(), y.add_(1), y.sum()))(x * 2),  # changed between
        lambda x: (lambda y: (y.add_(1).sum(), y))(x * 2),
        lambda x: (x.mul_(2) * 1).sum(),  # a group that cannot run twice
        lambda x: (lambda y: (y.sum(0), x.add_(y), x.sum()))(x * 2),
        lambda x: (x * 2)[1:].sum() + (x * 3).t().sum(0).sum(),  # views
        lambda x: (x * 2).view(-1).sum() + (x * 2).reshape(10, -1).amax(),
        lambda x: (x.double() * 2).sum() + x.half().sum() + x.int().sum(),
        lambda x: (x.clone(), x.clone().mul_(2).sum(), (x * 1).clone().sum()),
        lambda x: (x * 1).t().contiguous() * 2,
        lambda x: [x.to(d).to(fa.float32) for d in (fa.float16, fa.bfloat16, fa.int8, fa.bool)],
        lambda x: (x - x.mean(-1, keepdim=True)) / (x * 1).std(-1, keepdim=True),
        lambda x: ((x * 1).sum() * x).sum() * (x * 1).sum(),
        lambda x: (x > 0).sum() + (x > 5).any() + (x < 9).all(),
        lambda x: (x * 2).sum(1)[0] * x[0],
        lambda x: fa.sum(x * 2, 0, out=fa.empty(x.shape[1])),
        lambda x: (x * fa.nan).sum() + (x * fa.nan).amax(),
    ],
)
def test_is_bit_for_bit_the_same(function, shape, checked):
    for dynamic in (None, True):
        check(function, floats(*shape), dynamic=dynamic)


def test_results_beyond_the_range_on_the_way(checked):
    """A mean that fits though its sum does not is computed again, of elements no memory had."""
    x = fa.full((300, 100), 3e38)
    check(lambda x: (x * 1).mean(), x)
    check(lambda x: ((x * 1).mean(0), (x * 1).mean(1)), x)
    check(lambda x: (x.mul_(1) * 1).mean(), x)
    check(lambda x: fa.linalg.vector_norm(x * 1e-38 * 1e-30), x)
    assert float(fa.compile(lambda x: (x * 1).mean())(x)) == pytest.approx(3e38)


def test_one_plan_serves_for_all_sizes():
    def f(x):
        return (x * 2 + 1).sum(-1)

    compiler.cache_clear()
    compiled = fa.compile(f, dynamic=True)
    for rows in (200, 300, 400):
        x = floats(rows, 128)
        assert same(compiled(x), f(x))
    assert compiler.cache_info().misses == 1


def test_other_dims_are_another_plan():
    x = floats(200, 200)
    compiled = fa.compile(lambda x, d: (x * 2).sum(d))
    for dim in (0, 1, None):
        assert same(compiled(x, dim), (x * 2).sum(dim))


def test_errors_come_from_the_line_that_calls():
    @fa.compile
    def f(x):
        y = x * 2
        with pytest.raises(IndexError, match="dim"):
            y.sum(5)
        with pytest.raises(RuntimeError):
            y.sum(dtype=fa.complex64).amax()
        return y

    x = floats(200, 200)
    assert same(f(x), x * 2)


def test_gradients_and_steps_through_losses(checked):
    def step(x, w):
        w = w.detach().requires_grad_()
        loss = ((x @ w) * 0.5 - x).square().mean()
        loss.backward()
        norm = fa.nn.utils.clip_grad_norm_([w], 0.1)
        return loss.detach(), norm, w.grad

    check(step, floats(60, 60), floats(60, 60))


def test_results_that_gradients_save_count_as_unchanged():
    def f(x):
        x = x.detach().requires_grad_()
        t = x * 2
        found = t.amax(1), t.std(0), fa.linalg.vector_norm(t), t.half()
        before = [y._version for y in found]
        found[0][0].item()
        assert [y._version for y in found] == before
        sum(y.float().sum() for y in found).backward()
        return x.grad

    check(f, floats(200, 200))


def test_threads_reduce_at_once_and_read_each_other():
    shared, failures = [], []

    def work(seed):
        try:
            x = fa.full((150 + seed, 100), 0.5)
            f = fa.compile(lambda t: shared.append((t * seed).sum(1)) or ((t + seed) * t).mean())
            want = ((x + seed) * x).mean()
            for _ in range(40):
                assert fa.equal(f(x), want)
                y = shared[-1]
                assert fa.equal(y, fa.full_like(y, 50.0 * round(float(y[0]) / 50)))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_fork_while_a_reduction_waits():
    @fa.compile
    def f(x):
        t = x * 2
        total = t.sum()
        child = os.fork()
        if child == 0:
            os._exit(0 if total.item() == 2 * x.numel() and bool((t == 2).all()) else 1)
        return total, os.waitpid(child, 0)[1]

    total, status = f(fa.ones(300, 300))
    assert status == 0 and float(total) == 2 * 300 * 300
