"""Threads that share work, and threads of a program that use all of the runtime at once.

Under ThreadSanitizer (`.ci/sanitize thread`) the second kind is a search for races.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import facula as fa
import pytest

TASKS = Path("/proc/self/task")


@pytest.mark.skipif(not TASKS.exists(), reason="threads are listed by Linux")
def test_threads_keep_what_they_may_use() -> None:
    """Threads move to CPUs of their own among those of the program; its own thread is let be."""
    before, threads = os.sched_getaffinity(0), fa.get_num_threads()
    fa.set_num_threads(2)
    try:
        a = fa.ones(1 << 22)
        for _ in range(20):
            assert (a + a).sum().item() == 2 << 22
    finally:
        fa.set_num_threads(threads)
    assert os.sched_getaffinity(0) == before
    for task in TASKS.iterdir():
        assert os.sched_getaffinity(int(task.name)) <= before


@pytest.fixture
def often_without_lock() -> Iterator[None]:
    """Python's lock is let go for small tensors too, and changes hands often."""
    interval = sys.getswitchinterval()
    fa._C._set_release_gil_numel(0)
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)
    fa._C._set_release_gil_numel(4096)


def test_all_of_the_runtime_at_once(often_without_lock: None) -> None:
    """Pool, allocators, generators, autograd, hooks, errors: each thread finds its own."""
    F = fa.nn.functional
    x, line = fa.arange(4096.0).reshape(64, 64) / 4096, fa.arange(100_000.0)
    w = (fa.eye(64) * 2).requires_grad_()
    counted, generator = fa.zeros(64), fa.Generator()
    net = fa.nn.Sequential(fa.nn.Linear(64, 8), fa.nn.ReLU(), fa.nn.Linear(8, 4))
    graph = (x @ w).exp().sum()
    (slope,) = fa.autograd.grad(graph, w, retain_graph=True)

    def kernels() -> None:
        assert (x @ w.detach()).sum().item() == pytest.approx(x.sum().item() * 2)
        assert (line * 2 + 1).sum().item() == pytest.approx(line.sum().item() * 2 + 100_000)
        assert line.flip(0).sort()[0].tolist() == line.tolist()
        assert F.conv2d(x.reshape(1, 1, 64, 64), fa.ones(1, 1, 3, 3)).shape == (1, 1, 62, 62)

    def draws() -> None:
        assert fa.rand(1000).min().item() >= 0 and fa.randperm(50).sum().item() == 1225
        generator.manual_seed(1)
        fa.randn(100, generator=generator)
        assert len(generator.get_state()) == len(fa.get_rng_state())
        F.dropout(x)

    def gradients() -> None:
        (first,) = fa.autograd.grad((w * w).sum(), w, create_graph=True)
        (second,) = fa.autograd.grad(first.sum(), w)
        assert second.tolist() == fa.full((64, 64), 2.0).tolist()
        own = x.clone().requires_grad_()
        net(own).sum().backward()
        assert own.grad.shape == (64, 64)

    def one_graph() -> None:
        (again,) = fa.autograd.grad(graph, w, retain_graph=True)
        assert again.tolist() == slope.tolist()

    def hooks() -> None:
        seen: list[fa.Tensor] = []
        handle = w.register_hook(seen.append)
        fa.autograd.grad((w * 3).sum(), w)
        handle.remove()
        assert seen

    def errors() -> None:
        for call, operator, kind in (
            (lambda: x @ fa.ones(3), "matmul", "shape"),
            (lambda: x.sum(dim=9), "sum", "index"),
            (lambda: fa.ones(2) + fa.ones(3), "add", "shape"),
            (lambda: fa.zeros(2**50), "zeros", "memory"),
        ):
            with pytest.raises((RuntimeError, IndexError)) as raised:
                call()
            assert (raised.value.operator, raised.value.kind) == (operator, kind)

    def memory() -> None:
        made = [fa.full((n,), float(n)) for n in (1, 10, 1000, 10_000, 1_000_000)]
        copies = [t.clone() for t in made]
        threading.Thread(target=copies.clear).start()  # freed by another
        assert all(t[-1].item() == len(t) for t in made)

    def changes() -> None:
        counted.add_(0.0)
        counted.view(8, 8)[2].mul_(1.0)
        assert counted._version > 0

    def modes() -> None:
        with fa.autocast("cpu", dtype=fa.bfloat16):
            assert (x @ x).dtype is fa.bfloat16
        with fa.no_grad():
            assert not (w * 2).requires_grad
        with fa.inference_mode():
            assert (w * 2).is_inference()
        assert (w * 2).requires_grad and (x @ x).dtype is fa.float32

    def looks() -> None:
        repr(w), (w * 1).grad_fn.next_functions, x.numpy(), x[1:, ::2].tolist(), gc.collect(0)

    works = [kernels, draws, gradients, one_graph, hooks, errors, memory, changes, modes, looks]
    faults: list[BaseException] = []

    def again(work: Callable[[], None]) -> None:
        try:
            for _ in range(12):
                work()
        except BaseException as fault:
            faults.append(fault)

    with contextlib.ExitStack() as stack:
        for work in (*works, gradients, memory, one_graph):
            thread = threading.Thread(target=again, args=(work,))
            thread.start()
            stack.callback(thread.join)
    assert not faults, faults
