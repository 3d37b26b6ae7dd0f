"""Ctrl-C within a computation: it ends soon, nothing is left half done, and the next one is right.

Each group runs in a process of its own. A timer of the system's stands for the key: it needs
neither Python's lock nor another thread.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PRELUDE = """
import signal, sys, threading, time
import facula as fa
F = fa.nn.functional
signal.signal(signal.SIGALRM, signal.default_int_handler)

def interrupted(name, function, after=0.2, within=1.5):
    start = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        function()
    except KeyboardInterrupt:
        took = time.monotonic() - start - after
        assert took < within, f"{name}: seen after {took:.2f} s"
    else:
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise AssertionError(f"{name}: over after {time.monotonic() - start:.2f} s, unseen")
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
a = fa.rand(1500, 1500, dtype=fa.float64)
CASES = {
    "matrix_power": lambda: fa.linalg.matrix_power(a / 750, 2**40 - 1),
    "matmul": lambda: big @ big,
    "bmm": lambda: fa.bmm(many, many),
    "integers": lambda: whole @ whole,
    "complex": lambda: wave @ wave,
    "einsum": lambda: fa.einsum("ij,jk,kl->il", big, big, big),
    "multi_dot": lambda: fa.linalg.multi_dot([big, big, big]),
}
big = fa.rand(6000, 6000, dtype=fa.float64)
many = fa.rand(400, 700, 700, dtype=fa.float64)
whole = fa.ones(3000, 3000, dtype=fa.int64)
wave = fa.ones(4000, 4000, dtype=fa.complex128)
""",
    "layers": """
x = fa.rand(64, 64, 128, 128)
w = fa.rand(256, 64, 5, 5, requires_grad=True)
q = fa.rand(8, 8, 8192, 64)
s = fa.rand(60000, 1, 256)
lstm, gru, rnn = fa.nn.LSTM(256, 256), fa.nn.GRU(256, 256), fa.nn.RNN(256, 256)
cell = fa.nn.LSTM(4, 4, proj_size=2)
t = fa.rand(300000, 1, 4)
points = fa.rand(20000, 64, dtype=fa.float64)
y = F.conv2d(x[:8], w).sum()
CASES = {
    "conv2d": lambda: [F.conv2d(x, w) for _ in range(100)],
    "conv2d backward": lambda: [y.backward(retain_graph=True) for _ in range(100)],
    "attention": lambda: F.scaled_dot_product_attention(q, q, q),
    "lstm": lambda: lstm(s),
    "gru": lambda: gru(s),
    "rnn": lambda: [rnn(s) for _ in range(9)],
    "projected": lambda: cell(t),
    "cdist": lambda: fa.cdist(points, points, p=3.0),
}
""",
    "orders": """
x = fa.rand(30000000)
k = fa.randint(0, 1 << 60, (20000000,))
rows = fa.randint(0, 3, (3000000, 8))
CASES = {
    "sort": lambda: (fa.sort(x), fa.sort(k), fa.sort(x)),
    "unique": lambda: (fa.unique(x), fa.unique(k, return_inverse=True)),
    "unique of rows": lambda: fa.unique(rows, dim=0),
    "median": lambda: [fa.median(x) for _ in range(30)],
    "sort of strided rows": lambda: fa.sort(x.reshape(300, 100000).T, dim=1),
}
""",
    "elements": """
x = fa.rand(30000000, dtype=fa.float64)
CASES = {
    "polygamma": lambda: fa.polygamma(3, x),
    "in float16": lambda: fa.lgamma(fa.lgamma(x)).to(fa.float16).lgamma(),
    "in place": lambda: x.new_ones(30000000).polygamma_(3),
    "poisson": lambda: fa.poisson(x * 50),
    "cumprod": lambda: [fa.logcumsumexp(x, 0) for _ in range(20)],
    "many small": lambda: [x[:100000].sin().sum() for _ in range(1000000)],
}
""",
    "python": """
x = fa.rand(20000000)
n = [[0.5, 1, 2.0]] * 10000000
deep = fa.rand(3, requires_grad=True)
y = deep
for _ in range(300000): y = y + 1
def grad():
    for _ in range(100): y.backward(fa.ones(3), retain_graph=True)
def printing():
    fa.set_printoptions(threshold=10**9)
    str(x)
CASES = {
    "tolist": lambda: [x.tolist() for _ in range(20)],
    "tensor": lambda: [fa.tensor(n) for _ in range(20)],
    "deep graph": grad,
    "print": printing,
}
""",
}


@pytest.mark.parametrize("group", GROUPS)
def test_group(group: str) -> None:
    run(GROUPS[group] + "\nfor name, function in CASES.items(): interrupted(name, function)\n")


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_whole_afterwards(threads: str) -> None:
    """Inputs are as they were, and the pool, the modes and the tape work on."""
    run(
        """
a = fa.rand(3000, 3000, dtype=fa.float64, requires_grad=True)
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
x = fa.rand(2000000)
assert fa.equal(fa.sort(x)[0], fa.sort(x.flip(0))[0])
""",
        FACULA_NUM_THREADS=threads,
    )


def test_handlers_that_go_on() -> None:
    """They run while the product is computed, which is right, and find the modes of their caller."""
    run("""
seen = []
def handler(number, frame):
    x = fa.ones(100, requires_grad=True)
    (x * x).sum().backward()
    product = fa.rand(300, 300) @ fa.rand(300, 300)
    seen.append((fa.is_grad_enabled(), x.grad.sum().item(), product.shape))
signal.signal(signal.SIGALRM, handler)
a = fa.rand(2500, 2500, dtype=fa.float64)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.1)
products = [a @ a, a @ a]
signal.setitimer(signal.ITIMER_REAL, 0)
assert len(seen) >= 2 and set(seen) == {(True, 200.0, (300, 300))}, seen
for p in products: assert fa.allclose(p.sum(1), a @ a.sum(1))
""")


def test_other_threads_go_on() -> None:
    run("""
a = fa.rand(2000, 2000, dtype=fa.float64)
results = []
def work():
    for _ in range(3): results.append(a @ a)
threads = [threading.Thread(target=work) for _ in range(2)]
for t in threads: t.start()
interrupted("main", lambda: [a @ a for _ in range(1000)])
for t in threads: t.join()
assert len(results) == 6
for r in results: assert fa.allclose(r.sum(1), a @ a.sum(1))
""")


def test_half_written_counts_as_written() -> None:
    """A graph that saved what was being changed refuses to go backward with it."""
    run("""
x = fa.rand(30000000, dtype=fa.float64)
w = fa.ones(30000000, dtype=fa.float64, requires_grad=True)
for change in (
    lambda: x.polygamma_(3),
    lambda: fa.polygamma(3, x, out=x),
    lambda: x.index_fill_(0, fa.arange(30000000).repeat(8), 1.0),
    lambda: x.exponential_().exponential_().exponential_().exponential_(),
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
