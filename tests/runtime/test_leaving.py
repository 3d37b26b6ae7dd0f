"""The main thread ends while others compute: the process ends too, with status 0 and nothing said.

Before 3.14 Python ends such threads by unwinding their stacks, wherever they wait for its lock.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# What daemon threads may be in: kernels, backward, hooks, Python called from C++, destructors.
WORK = """
import os, sys, threading, time, warnings
import facula as fa

class Doubled(fa.autograd.Function):
    @staticmethod
    def forward(ctx, x): sum(range(300)); return x * 2
    @staticmethod
    def backward(ctx, g): sum(range(3000)); return g * 2
class Index:
    def __index__(self): sum(range(1000)); return 3
class Dying:
    def __del__(self): sum(range(1000))

def kernel():
    a = fa.randn(1 << 18); (a + a).sum()
def small():
    a = fa.randn(10); (a + a).sum()
def backward():
    a = fa.randn(10000, requires_grad=True); (a * a).sum().backward()
def hook():
    a = fa.randn(10000, requires_grad=True)
    a.register_hook(lambda g: g * 2 + sum(range(300))); (a * a).sum().backward()
def function():
    Doubled.apply(fa.randn(10000, requires_grad=True)).sum().backward()
def text():
    repr(fa.randn(50))
def index():
    fa.zeros(Index(), Index()); fa.tensor([1.0] * 1000)
def warning():
    fa.randn(5, dtype=fa.complex64).to(fa.float32)
def dying():
    a = fa.randn(5000, requires_grad=True)
    b = a * 2; b.d = Dying(); c = b.sum(); del b
    c.backward()
def loader():
    data = fa.utils.data.TensorDataset(fa.randn(100, 10))
    for (x,) in fa.utils.data.DataLoader(data, batch_size=10): (x @ x.T).sum()
def python_hook_of_a_deep_graph():
    a = fa.randn(10, requires_grad=True); b = a
    for _ in range(50): b = b.exp().log()
    b.register_hook(lambda g: repr(g) and None); b.sum().backward()

warnings.simplefilter("always")
warnings.showwarning = lambda *a, **k: sum(range(1000))
KINDS = [kernel, small, backward, hook, function, text, index, warning, dying, loader,
         python_hook_of_a_deep_graph]

def forever(kinds):
    while True:
        for kind in kinds: kind()

def start(*kinds):
    for kind in kinds: threading.Thread(target=forever, args=([kind],), daemon=True).start()
    time.sleep(0.1)
    (fa.randn(1000) + 1).sum()
"""

ENDINGS = {
    "end": "",
    "exit": "sys.exit(0)",
    "atexit": "import atexit; atexit.register(lambda: backward() or kernel() or text())",
    "destructor": "class Last:\n    def __del__(self): (self.x * 2).sum()\n"
    "last = Last(); last.x = fa.randn(10000)",
}


def run(body: str, status: int = 0, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", WORK + body],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = done.stderr if status == 0 else done.stderr.partition("Traceback")[0]
    assert (done.returncode, said) == (status, ""), done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("ending", ENDINGS)
def test_all_kinds(ending: str) -> None:
    run("start(*KINDS)\n" + ENDINGS[ending])


@pytest.mark.parametrize("kind", ["backward", "hook", "text", "dying"])
def test_one_kind(kind: str) -> None:
    """Threads of one kind are at one place, more often than among others."""
    run(f"start(*[{kind}] * 3)")


@pytest.mark.parametrize("threads", ["1", "4"])
@pytest.mark.parametrize("isa", ["baseline", ""])
def test_threads_and_instruction_sets(threads: str, isa: str) -> None:
    variables = {"FACULA_NUM_THREADS": threads} | ({"FACULA_ISA": isa} if isa else {})
    run("start(kernel, backward, hook)", **variables)


def test_exception() -> None:
    run("start(*KINDS)\nraise ValueError('the end')", status=1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_forked_children() -> None:
    """A child has none of the threads, and nothing that they held."""
    run("""
start(kernel, backward, hook, text)
shared = fa.ones(1000, requires_grad=True)
def add():
    while True: (shared * 2).sum().backward()
threading.Thread(target=add, daemon=True).start()
warnings.simplefilter("ignore")  # of Python, about fork and threads
for i in range(20):
    time.sleep(0.002)
    pid = os.fork()
    if pid == 0:
        import signal
        signal.alarm(20)
        for kind in KINDS: kind()
        (shared * 2).sum().backward()
        threading.Thread(target=forever, args=([backward],), daemon=True).start()
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, i
""")
