"""`facula.compile`: what it promises beside values, which test_captured_samples.py holds."""

from __future__ import annotations

import copy
import pickle
import threading

import facula as fa
import numpy as np
import pytest
from facula import _C, compiler

N = 5000


def both(function, *args):
    """The function's results without and with capture, each from copies of the arguments."""
    results = []
    for run in (function, fa.compile(function)):
        fa.manual_seed(0)
        given = [a.detach().clone() if isinstance(a, fa.Tensor) else a for a in args]
        results.append((run(*given), given))
    return results


def same(a, b):
    if isinstance(a, fa.Tensor):
        return a.dtype == b.dtype and a.stride() == b.stride() and fa.equal(a, b)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a == b


def check(function, *args):
    eager, captured = both(function, *args)
    assert same(eager, captured)


X = fa.tensor(np.random.default_rng(0).standard_normal((50, 100)).astype("float32"))
LARGE = X.repeat(4, 1)  # enough elements to be taken down without being checked


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    """Small tensors take part, and each plan is compared with its calls one by one."""
    monkeypatch.setenv("FACULA_COMPILE", "check")


def test_chain_is_what_numpy_computes():
    x = np.random.default_rng(1).standard_normal(N)
    f = fa.compile(lambda t: (t * 2 + 1).exp() / 3)
    np.testing.assert_allclose(f(fa.tensor(x)).numpy(), np.exp(x * 2 + 1) / 3, rtol=1e-14)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * 2).add_(1).mul_(x),
        lambda x: x.mul_(3).t().add_(1),
        lambda x: (x + x[0], x[:, :1] * x, x.t() * 2 + x.t()),
        lambda x: (x > 0) * x + (x <= 0) * -1,
        lambda x: fa.where(x > 0.5, x.sqrt(), x.abs().log()),
        lambda x: x.double() + x.half() * x.bfloat16(),
        lambda x: fa.add(x, 1, out=x).mul(2),
        lambda x: x[::2].mul_(2).sum() + x.sum(),
        lambda x: (x * 2)[10:20].add_(5),
        lambda x: fa.nn.functional.dropout(x * 2, 0.5) + fa.randn(50, 100) * x,
        lambda x: x.masked_fill(x > 0, 1.5) * 2,
        lambda x: fa.cat([x * 2, x + 1]) - 1,
        lambda x: x.expand(3, 50, 100) * 2 + x,
        lambda x: (x * 1j + x).abs() + (x * 1j).imag,
        lambda x: (x * 2 + x * 2, x * 2),
        lambda x: x.permute(1, 0).reshape(10, 500) * 2 + 1,
        lambda x: x.round().int() // 2 + 1,
        lambda x: [c * 2 + 1 for c in x.chunk(5)],
        lambda x: x.frexp().mantissa * 2,
        lambda x: x.detach().requires_grad_().exp().mul(2).sum().backward(),
    ],
)
def test_is_bit_for_bit_the_same(function):
    check(function, X)


def test_in_place_on_views_in_any_order():
    def f(x):
        y = x * 2
        a, b = y[:25], y[25:]
        a += b
        b *= a
        c = y.t() + 1
        y.add_(1)
        return y, c, a * b, c - y.t()

    check(f, X)


def test_values_are_there_when_python_looks():
    @fa.compile
    def f(x):
        y = x * 2
        if y.sum() > 0:
            y = y + 1
        assert y.numpy()[0, 0] == float(y[0, 0])
        assert "tensor" in repr(y * 2)
        return y.tolist(), (y + 1).max().item()

    assert f(X.abs())[1] == f(X.abs())[1]
    check(lambda x: f.__wrapped__(x), X.abs())


def test_memory_that_numpy_sees_is_never_read_late():
    array = np.ones(N, "float32")
    x = fa.from_numpy(array)
    own = fa.ones(N)

    @fa.compile
    def f():
        y = x * 2
        array[:] = 7
        z = own * 2
        seen = own.numpy()
        seen[:] = 5
        return y, z, own * 2

    y, z, later = f()
    assert (y == 2).all() and (z == 2).all() and (later == 10).all()


def test_written_inputs_are_written():
    x, y = fa.ones(N), fa.ones(N)

    @fa.compile
    def f():
        x.mul_(3)
        fa.mul(x, 2, out=y)

    f()
    assert (x == 3).all() and (y == 6).all()
    assert x._version == 1


def test_gradients_and_optimizer_steps():
    def train(compiled):
        fa.manual_seed(0)
        net = fa.nn.Sequential(fa.nn.Linear(40, 80), fa.nn.GELU(), fa.nn.Linear(80, 40))
        optimizer = fa.optim.AdamW(net.parameters(), lr=0.01)
        x, y = fa.randn(64, 40), fa.randn(64, 40)

        def step():
            optimizer.zero_grad()
            loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        run = fa.compile(step) if compiled else step
        losses = [run().item() for _ in range(5)]
        return losses, [p.detach() for p in net.parameters()]

    assert same(train(False), train(True))


def test_an_exception_leaves_what_was_done_before():
    x = fa.zeros(N)
    kept = []

    @fa.compile
    def f():
        x.add_(1)
        kept.append(x * 2)
        raise KeyError("here")

    with pytest.raises(KeyError, match="here"):
        f()
    assert (x == 1).all() and (kept[0] == 2).all()
    assert not compiler.is_compiling()


def test_errors_come_from_the_line_that_calls():
    def f(x):
        y = x * 2
        try:
            y + fa.ones(3)
        except RuntimeError:
            return y + 1
        raise AssertionError("no error")

    check(f, X)

    def divide(x):
        try:
            x.int() // fa.zeros(50, 100, dtype=fa.int32)
        except ZeroDivisionError:
            return x * 2
        raise AssertionError("no error")

    check(divide, X)


def test_plans_are_kept_and_found():
    f = fa.compile(lambda x: x * 2.0 + 1)
    compiler.cache_clear()
    for _ in range(3):
        f(X)
    info = compiler.cache_info()
    assert (info.hits, info.misses, info.currsize) == (2, 1, 1)
    f(fa.ones(77, 100))
    assert compiler.cache_info().misses == 2
    for i in range(5):
        fa.compile(lambda x, i=i: x * float(i + 3) + 1)(X)  # numbers are no part of a plan
    assert compiler.cache_info().misses == 2
    assert info.maxsize == 1024


def test_plans_for_all_sizes():
    f = fa.compile(lambda x, b: (x * 2 + b).relu() * x.t().t(), dynamic=True)
    compiler.cache_clear()
    for rows in (50, 60, 70):
        x, b = fa.randn(rows, 100), fa.randn(100)
        assert fa.equal(f(x, b), (x * 2 + b).relu() * x)
    assert compiler.cache_info()[:2] == (2, 1)


def test_plans_are_bounded():
    compiler.cache_clear()
    f = fa.compile(lambda x: x * 2)
    for n in range(1100):
        f(fa.empty(2048 + n))
    info = compiler.cache_info()
    assert info.currsize == info.maxsize < info.misses


def test_modules_share_everything_with_their_original():
    net = fa.nn.Sequential(fa.nn.Linear(100, 100), fa.nn.Tanh())
    compiled = fa.compile(net)
    assert isinstance(compiled, fa.nn.Sequential) and repr(compiled) == repr(net)
    assert list(compiled.state_dict()) == list(net.state_dict())
    assert compiled[0].weight is net[0].weight and compiled._orig_mod is net
    assert fa.equal(compiled(X), net(X))
    compiled.eval()
    assert not net.training
    net.compile(dynamic=True)
    assert fa.equal(compiled(X), net(X))
    twin = pickle.loads(pickle.dumps(net))
    assert type(twin) is fa.nn.Sequential and fa.equal(twin(X), net(X))
    assert type(copy.deepcopy(compiled)) is fa.nn.Sequential


def test_decorators_and_refusals(monkeypatch):
    @fa.compile(dynamic=True)
    def f(x):
        "Doubles."
        assert compiler.is_compiling()
        return x * 2

    assert f.__doc__ == "Doubles." and f.__name__ == "f"
    f(X)

    class Scale:
        by = 3

        @fa.compile
        def __call__(self, x):
            return x * self.by

    assert fa.equal(Scale()(X), X * 3)
    with pytest.raises(TypeError, match="takes a function or a module, not int"):
        fa.compile(3)
    monkeypatch.setenv("FACULA_COMPILE", "0")
    g = lambda x: x  # noqa: E731
    assert fa.compile(g) is g
    monkeypatch.setenv("FACULA_COMPILE", "maybe")
    with pytest.raises(ValueError, match="FACULA_COMPILE is 'maybe'; it may be 0"):
        fa.compile(g)
    monkeypatch.setenv("FACULA_COMPILE", "check")
    assert fa.equal(fa.compile(lambda x: x * 2 + 1)(X), X * 2 + 1)


def test_disable_runs_at_once():
    seen = []

    @compiler.disable
    def plain(x):
        seen.append(compiler.is_compiling())
        return x * 2

    assert fa.equal(fa.compile(lambda x: plain(x + 1) + 1)(X), (X + 1) * 2 + 1)
    assert seen == [False]


def test_explain_names_lines_and_reasons():
    def f(x, b):
        y = (x * 2).tanh() + b
        z = y @ b.reshape(100, 1)
        x * 3  # nobody needs it
        return z * x.t()[:50].t() if z.numel() > 1e9 else x.t().mul(2), x + 1

    found = compiler.explain(f, LARGE, fa.ones(100))
    first = found.records[0]
    assert [name for name, _ in first.groups[0].operators] == ["mul", "tanh", "add"]
    assert all("test_capture.py:" in place for _, place in first.groups[0].operators)
    assert first.reason in ("mm", "matmul", "addmm")
    assert first.groups[0].bytes_after < first.groups[0].bytes_before
    assert found.records[-1].unused == 1 and found.records[-1].reason == "the function ends"
    assert "shape" in found.records[-1].groups[1].apart
    assert "never written" in str(found) and "test_capture.py:" in str(found)
    picture = found.svg()
    assert picture.startswith("<svg") and "tanh" in picture and picture.dot.count("->") >= 3
    assert found.records[-1].groups[1].uses == ()
    with pytest.raises(RuntimeError, match="within a compiled function"):
        fa.compile(lambda: compiler.explain(f, X, X[0]))()


def test_equal_calls_are_computed_once():
    found = compiler.explain(lambda x: (x.exp() * 2, x.exp() * 3, x.exp()), LARGE)
    assert found.records[0].repeated == 2
    for got, factor in zip(found.result, (2, 3, 1), strict=True):
        assert fa.equal(got, LARGE.exp() * factor)


def test_another_thread_gets_values():
    box, ready, done = [], threading.Event(), threading.Event()

    def other():
        ready.wait(10)
        box.append((box[0] + 1).sum().item())
        box.append(fa.compile(lambda t: (t * 2 + 1).sum().item())(box[0]))
        box.append(float(box[0][7]))
        done.set()

    @fa.compile
    def f(x):
        y = x * 2
        box.append(y)
        ready.set()
        assert done.wait(10)
        return y + 1

    thread = threading.Thread(target=other)
    thread.start()
    f(fa.ones(N))
    thread.join()
    assert box[1:] == [3.0 * N, 5.0 * N, 2.0]


def test_another_thread_writes_to_what_was_read():
    x = fa.ones(N)
    read, written = threading.Event(), threading.Event()

    def other():
        read.wait(10)
        x[:10].zero_()
        written.set()

    @fa.compile
    def f():
        y = x * 2
        read.set()
        assert written.wait(10)
        return y, x + 1

    thread = threading.Thread(target=other)
    thread.start()
    y, z = f()
    thread.join()
    assert (y == 2).all() and z[:10].sum() == 10 and z.sum() == 2 * N - 10


def test_threads_compile_at_once():
    failures = []

    def work(seed):
        try:
            x = fa.randn(40 + seed, 100)
            f = fa.compile(lambda t: ((t * seed).tanh() + t).mul_(2) - t[0])
            want = ((x * seed).tanh() + x).mul_(2) - x[0]
            for _ in range(50):
                assert fa.equal(f(x), want)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_deep_backward_runs_on_threads_of_the_engine():
    def f(x):
        y = x.detach().requires_grad_()
        z = y
        for _ in range(300):
            z = z * 1.001
        z.sum().backward()
        return y.grad * 2

    check(f, X)


def test_transforms_inside_and_outside():
    inside = fa.compile(lambda x: fa.func.vmap(lambda r: r.sin() * 2 + r)(x) + 1)
    assert fa.equal(inside(X), X.sin() * 2 + X + 1)
    compiled = fa.compile(lambda r: (r.sin() * 2).sum())
    got = fa.func.vmap(fa.func.grad(compiled))(X)
    assert fa.allclose(got, X.cos() * 2)


def test_autocast_no_grad_and_hooks():
    seen = []

    def f(x):
        w = x.detach().requires_grad_()
        with fa.autocast("cpu", dtype=fa.bfloat16):
            y = (w @ w.t()) * 2
        with fa.no_grad():
            z = y * 3
        w.register_hook(lambda g: seen.append(g.sum().item()) or g * 2)
        y.float().sum().backward()
        return y.detach(), z, w.grad

    check(f, X)
    assert seen[0] == seen[1]


def test_memory_of_results_that_nobody_holds_is_given_back(monkeypatch):
    monkeypatch.setenv("FACULA_COMPILE", "1")
    x = fa.ones(1 << 20)

    @fa.compile
    def f(t):
        for _ in range(600):  # 2.4 GB, were they kept
            t = t * 1.0
        return t

    assert fa.equal(f(x), x)


def test_nested_scopes_are_one():
    inner = fa.compile(lambda t: t * 2)
    found = compiler.explain(lambda t: inner(t + 1) + 1, LARGE)
    assert len(found.records) == 1 and len(found.groups[0].operators) == 3
    with pytest.raises(TypeError):
        _C._Capture("no")


def conv_net():
    nn = fa.nn
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.LeakyReLU(),
        nn.Dropout(0.3),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(36, 5),
    ), fa.randn(6, 1, 8, 8)


def recurrent_net():
    class Net(fa.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = fa.nn.LSTM(6, 8, batch_first=True)
            self.out = fa.nn.Linear(8, 5)

        def forward(self, x):
            return self.out(self.lstm(x)[0][:, -1])

    return Net(), fa.randn(4, 7, 6)


def attention_net():
    nn = fa.nn
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
    return nn.Sequential(layer, nn.Flatten(), nn.RMSNorm(40), nn.Linear(40, 5)), fa.randn(4, 5, 8)


@pytest.mark.parametrize("make", [conv_net, recurrent_net, attention_net])
@pytest.mark.parametrize("optimizer", ["SGD", "AdamW", "RMSprop", "Adagrad"])
def test_training_is_the_same_under_check(make, optimizer, monkeypatch):
    def train(compiled):
        fa.manual_seed(3)
        net, x = make()
        options = {"SGD": {"momentum": 0.9, "nesterov": True}}.get(optimizer, {})
        steps = getattr(fa.optim, optimizer)(net.parameters(), lr=0.01, **options)
        schedule = fa.optim.lr_scheduler.StepLR(steps, 2, 0.5)
        target = fa.arange(len(x)) % 5

        def step():
            steps.zero_grad()
            loss = fa.nn.functional.cross_entropy(net(x), target, label_smoothing=0.1)
            loss.backward()
            fa.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            steps.step()
            return loss

        if compiled:
            step = fa.compile(step)
        losses = []
        for _ in range(3):
            losses.append(step().item())
            schedule.step()
        return losses, [v.clone() for v in net.state_dict().values()]

    eager = train(False)
    monkeypatch.setenv("FACULA_COMPILE", "check")
    assert same(eager, train(True))
