"""Ctrl-C within a computation: it ends soon, nothing is left half done, and the next one is right.

Each group runs in a process of its own, or each of its cases. A timer of the system's stands for
the key: it needs neither Python's lock nor another thread.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

import pytest

PRELUDE = """
import signal, sys, threading, time
import facula as fa
F = fa.nn.functional
signal.signal(signal.SIGPROF, signal.default_int_handler)

def interrupted(name, function, after=0.2, within=1.5):
    # in CPU time of all threads, which other programs do not use up
    threads = fa.get_num_threads()
    start = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, after)
    try:
        function()
    except KeyboardInterrupt:
        took = time.process_time() - start - after
        assert took < within * threads, f"{name}: seen after {took:.2f} s"
    else:
        signal.setitimer(signal.ITIMER_PROF, 0)
        took = time.process_time() - start
        raise AssertionError(f"{name}: over after {took:.2f} s, unseen")
"""


def run(body: str, **variables: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + body],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


# Computations of many seconds; `small` of the same operator is checked afterwards.
GROUPS = {
    "products": """
a = fa.ones(1500, 1500, dtype=fa.float64)
CASES = {
    "matrix_power": lambda: fa.linalg.matrix_power(a / 1500, 2**40 - 1),
    "matmul": lambda: big @ big,
    "bmm": lambda: fa.bmm(many, many),
    "integers": lambda: whole @ whole,
    "complex": lambda: wave @ wave,
    "einsum": lambda: fa.einsum("ij,jk,kl->il", big, big, big),
    "multi_dot": lambda: fa.linalg.multi_dot([big, big, big]),
}
big = fa.ones(6000, 6000, dtype=fa.float64)
many = fa.ones(700, 700, dtype=fa.float64).expand(2000, 700, 700)
whole = fa.ones(3000, 3000, dtype=fa.int64)
wave = fa.ones(4000, 4000, dtype=fa.complex128)
""",
    "layers": """
x = fa.ones(16, 64, 128, 128)
w = fa.ones(256, 64, 5, 5, requires_grad=True)
q = fa.ones(1, 1, 8192, 64).expand(8, 8, 8192, 64)
s = fa.ones(30000, 1, 256)
lstm, gru, rnn = fa.nn.LSTM(256, 256), fa.nn.GRU(256, 256), fa.nn.RNN(256, 256)
cell = fa.nn.LSTM(4, 4, proj_size=2)
t = fa.ones(200000, 1, 4)
y = F.conv2d(x[:1], w).sum()
line, plane = fa.ones(1, 1, 2000000), fa.ones(1, 1, 9000, 9000)
tap = fa.ones(1, 1, 1000001, requires_grad=True)
z = F.conv1d(line[..., :1000500], tap).sum()
CASES = {
    "conv1d": lambda: F.conv1d(line, tap, padding="same"),
    "conv1d of many taps": lambda: [F.conv1d(line, line[..., :1999990]) for _ in range(200)],
    "conv2d of a kernel as large": lambda: [F.conv2d(plane, plane) for _ in range(200)],
    "conv_transpose1d": lambda: F.conv_transpose1d(line, tap),
    "conv2d": lambda: [F.conv2d(x, w) for _ in range(100)],
    "conv2d backward": lambda: [y.backward(retain_graph=True) for _ in range(100)],
    "conv1d backward": lambda: [z.backward(retain_graph=True) for _ in range(100)],
    "attention": lambda: F.scaled_dot_product_attention(q, q, q),
    "lstm": lambda: [lstm(s) for _ in range(9)],
    "gru": lambda: [gru(s) for _ in range(9)],
    "rnn": lambda: [rnn(s) for _ in range(9)],
    "projected": lambda: cell(t),
}
""",
    "orders": """
x = fa.rand(1000000).repeat(20)
k = fa.randint(0, 1 << 60, (1000000,)).repeat(20)
rows = fa.randint(0, 3, (100000, 8)).repeat(20, 1)
CASES = {
    "sort": lambda: [(fa.sort(x), fa.sort(k)) for _ in range(9)],
    "unique": lambda: [fa.unique(k, return_inverse=True) for _ in range(9)],
    "unique of rows": lambda: [fa.unique(rows, dim=0) for _ in range(9)],
    "median": lambda: [fa.median(x) for _ in range(99)],
    "randperm": lambda: [fa.randperm(40000000) for _ in range(9)],
    "sort of strided rows": lambda: [fa.sort(x.reshape(200, 100000).T, dim=1) for _ in range(9)],
}
""",
    "elements": """
x = fa.full((20000000,), 0.5, dtype=fa.float64)
CASES = {
    "polygamma": lambda: [fa.polygamma(3, x) for _ in range(9)],
    "in float16": lambda: [fa.lgamma(fa.lgamma(x)).to(fa.float16).lgamma() for _ in range(9)],
    "in place": lambda: [x.new_ones(20000000).lgamma_() for _ in range(9)],
    "poisson": lambda: [fa.poisson(x * 50) for _ in range(9)],
    "cumprod": lambda: [fa.logcumsumexp(x, 0) for _ in range(20)],
    "multinomial": lambda: [fa.multinomial(x[:3000000], 2000000) for _ in range(20)],
    "multinomial again": lambda: fa.multinomial(x[:3000000], 20000000, True),
    "views": lambda: [fa.unbind(x[:3000000]) for _ in range(20)],
    "many small": lambda: [x[:100000].sin().sum() for _ in range(1000000)],
}
""",
    "transforms": """
z = fa.ones(1 << 24, dtype=fa.complex64)
prime = fa.ones(5000011, dtype=fa.complex128)
CASES = {
    "a long line": lambda: [fa.fft.fft(z) for _ in range(20)],
    "a prime": lambda: [fa.fft.fft(prime) for _ in range(20)],
    "lines": lambda: [fa.fft.fft(z.reshape(4096, 4096), dim=0) for _ in range(20)],
    "real": lambda: [fa.fft.rfft(z.real) for _ in range(20)],
    "stft": lambda: [fa.stft(z.real, 400, 100, return_complex=True) for _ in range(20)],
}
""",
    "matrices": """
a = fa.randn(1600, 1600, dtype=fa.float64)
spd = a @ a.T + 1600 * fa.eye(1600, dtype=fa.float64)
big = fa.randn(5000, 5000, dtype=fa.float64)
CASES = {
    "svd": lambda: [fa.linalg.svd(a) for _ in range(9)],
    "svdvals": lambda: [fa.linalg.svdvals(a) for _ in range(40)],
    "eigh": lambda: [fa.linalg.eigh(spd) for _ in range(20)],
    "eig": lambda: [fa.linalg.eig(a) for _ in range(9)],
    "qr": lambda: [fa.linalg.qr(a) for _ in range(40)],
    "solve": lambda: [fa.linalg.solve(big, big) for _ in range(9)],
    "lstsq": lambda: [fa.linalg.lstsq(a, a) for _ in range(40)],
    "cholesky": lambda: [fa.linalg.cholesky(spd) for _ in range(400)],
    "inv": lambda: [fa.linalg.inv(big) for _ in range(9)],
}
""",
    "long reductions": """
one = fa.ones(1)
CASES = {
    "sum": lambda: one.expand(10**12).sum(),
    "max": lambda: one.expand(10**12).max(),
    "any": lambda: fa.zeros(1, dtype=fa.bool).expand(10**12).any(),
    "rows": lambda: one[None].expand(4, 10**12).amax(1),
    "columns": lambda: one[None].expand(10**11, 4).sum(0),
    "std": lambda: one.expand(10**12).std(),
    "norm": lambda: one.expand(10**12).norm(),
    "count_nonzero": lambda: one.expand(10**12).count_nonzero(),
    "list": lambda: list(fa.rand(30000000)),
}
""",
    "python": """
x = fa.ones(5000000)
n = [[0.5, 1, 2.0]] * 1000000
deep = fa.rand(3, requires_grad=True)
y = deep
for _ in range(100000): y = y + 1
def grad():
    for _ in range(100): y.backward(fa.ones(3), retain_graph=True)
def printing():
    fa.set_printoptions(threshold=10**9)
    str(x)
CASES = {
    "tolist": lambda: [x.tolist() for _ in range(20)],
    "tensor": lambda: [fa.tensor(n) for _ in range(200)],
    "deep graph": grad,
    "print": printing,
}
""",
}


# What a call of LAPACK's leaves behind computes on, and its time would count as that of the next:
# each has a process.
APART = ("matrices",)


def cases(group: str) -> list[str]:
    return re.findall(r'^    "([\w ]+)": ', GROUPS[group], re.MULTILINE) if group in APART else [""]


@pytest.mark.parametrize(("group", "case"), [(g, c) for g in GROUPS for c in cases(g)])
def test_group(group: str, case: str) -> None:
    chosen = f"[({case!r}, CASES[{case!r}])]" if case else "CASES.items()"
    run(GROUPS[group] + f"\nfor name, function in {chosen}: interrupted(name, function)\n")


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_whole_afterwards(threads: str) -> None:
    """Inputs are as they were, and the pool, the modes and the tape work on."""
    run(
        """
a = fa.full((2000, 2000), 1 / 2000, dtype=fa.float64, requires_grad=True)
before = a.detach().clone()
with fa.no_grad():
    for _ in range(3):
        interrupted("in no_grad", lambda: [a @ a for _ in range(100)])
        assert not fa.is_grad_enabled()
assert fa.is_grad_enabled()
interrupted("recorded", lambda: [(a @ a).sum() for _ in range(100)])
loss = (a @ a @ a @ a @ a).sum()
interrupted("backward", lambda: [loss.backward(retain_graph=True) for _ in range(100)])
assert fa.equal(a, before)
b = fa.rand(200, 200, dtype=fa.float64, requires_grad=True)
(b @ b).sum().backward()
s = b.detach()
assert fa.allclose(b.grad, s.sum(1)[None, :] + s.sum(0)[:, None])
assert fa.allclose((s @ s).sum(), (s.sum(0) * s.sum(1)).sum())
x = fa.rand(200000)
assert fa.equal(fa.sort(x)[0], fa.sort(x.flip(0))[0])
""",
        FACULA_NUM_THREADS=threads,
    )


def test_memory_of_work_that_goes_on() -> None:
    """What an interrupted decomposition goes on writing to is nobody else's meanwhile."""
    run(
        """
a = fa.randn(1200, 1200, dtype=fa.float64)
right = fa.linalg.svdvals(a)
held = [fa.empty(1200, 1200, dtype=fa.float64) for _ in range(3)]
for _ in range(3):
    interrupted("svd", lambda: [fa.linalg.svd(a) for _ in range(20)], after=0.3)
    others = [fa.full((1200, 1200), float(i), dtype=fa.float64) for i in range(20)]
    small = [fa.full((40,), float(i)) for i in range(2000)]
    time.sleep(0.5)
    assert all((t == i).all().item() for i, t in enumerate(others))
    assert all((t == i).all().item() for i, t in enumerate(small))
assert fa.allclose(fa.linalg.svdvals(a), right)
try:
    interrupted("svd", lambda: [fa.linalg.svd(a) for _ in range(20)])
finally:
    pass  # the process ends while the work goes on
"""
    )


def test_handlers_that_go_on() -> None:
    """They run while the product is computed, which is right, and find their caller's modes."""
    run("""
seen = []
def handler(number, frame):
    x = fa.ones(100, requires_grad=True)
    (x * x).sum().backward()
    product = fa.rand(300, 300) @ fa.rand(300, 300)
    seen.append((fa.is_grad_enabled(), x.grad.sum().item(), product.shape))
signal.signal(signal.SIGPROF, handler)
a = fa.rand(1000, 1000, dtype=fa.float64)
signal.setitimer(signal.ITIMER_PROF, 0.05, 0.1)
products = []
while len(seen) < 3: products.append(a @ a)
signal.setitimer(signal.ITIMER_PROF, 0)
assert set(seen) == {(True, 200.0, (300, 300))}, seen
for p in products[-3:]: assert fa.allclose(p.sum(1), a @ a.sum(1))
""")


def test_other_threads_go_on() -> None:
    run("""
a = fa.rand(600, 600, dtype=fa.float64)
results = []
def work():
    for _ in range(3): results.append(a @ a)
threads = [threading.Thread(target=work) for _ in range(2)]
for t in threads: t.start()
interrupted("main", lambda: [a @ a for _ in range(100000)])
for t in threads: t.join()
assert len(results) == 6
for r in results: assert fa.allclose(r.sum(1), a @ a.sum(1))
""")


def test_half_written_counts_as_written() -> None:
    """A graph that saved what was being changed refuses to go backward with it."""
    run("""
x = fa.full((20000000,), 0.5, dtype=fa.float64)
w = fa.ones(20000000, dtype=fa.float64, requires_grad=True)
places = fa.arange(1000000).repeat(8)
for change in (
    lambda: [x.lgamma_() for _ in range(9)],
    lambda: [fa.lgamma(x, out=x) for _ in range(9)],
    lambda: [x.index_fill_(0, places, 1.0) for _ in range(99)],
    lambda: [x.exponential_() for _ in range(99)],
):
    y = (w * x).sum()
    interrupted("change", change)
    try:
        y.backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
    else:
        raise AssertionError("backward went through")
""")


def test_the_process_ends_without_work_that_goes_on() -> None:
    """Which may take minutes: with the status that was asked for, and all that was printed."""
    body = """
a = fa.randn(4000, 4000, dtype=fa.float64)
interrupted("eig", lambda: fa.linalg.eig(a), after=0.3)
print(time.monotonic())
sys.exit(3)
"""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + body],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 3, done.stderr[-2000:]
    assert time.monotonic() - float(done.stdout) < 15


def test_ctrl_c_is_not_dropped_where_objects_go() -> None:
    """Callbacks of weak references, and errors that are told anew, drop what is raised in them."""
    run("""
import io, pickle, random, tempfile, warnings
warnings.simplefilter("ignore")
a, file = fa.rand(1000000), tempfile.mktemp()
fa.save({"a": a}, file)
def failing():
    try:
        F.max_unpool1d(fa.ones(1, 1, 300), fa.full((1, 1, 300), -1), 2)
    except IndexError:
        pass
CASES = {
    "pickle": lambda: pickle.loads(pickle.dumps(a)),
    "mapped": lambda: fa.load(file, mmap=True)["a"].sum(),
    "errors": failing,
    "shared": lambda: a.clone().share_memory_(),
}
random.seed(0)
for name, case in CASES.items():
    for _ in range(12):
        end = time.monotonic() + 5
        signal.setitimer(signal.ITIMER_PROF, random.uniform(0.005, 0.05))
        try:
            while time.monotonic() < end:
                case()
        except KeyboardInterrupt:
            continue
        raise AssertionError(f"{name}: Ctrl-C was dropped")
""")
