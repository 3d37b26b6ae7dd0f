"""Nothing rests on Python's lock: what threads meet on is one and whole, with a lock and without.

On an interpreter without one (free-threaded CPython) these tests search for races; on others they
say what must hold.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable
from typing import Any

import facula as fa
import pytest

THREADS = 6
free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


@pytest.mark.skipif(not free_threaded, reason="this interpreter has a lock")
@pytest.mark.parametrize("options", [[], ["-X", "gil=0"]], ids=["by itself", "asked for"])
def test_importing_leaves_the_lock_off(options: list[str]) -> None:
    code = "import sys, facula; facula.ones(2) + 1; print(sys._is_gil_enabled())"
    done = subprocess.run(
        [sys.executable, "-W", "error", *options, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("False\n", "")


def together(work: Callable[[int], Any], threads: int = THREADS) -> list[Any]:
    """What `work(number of the thread)` gives in each of the threads, which begin at once."""
    start = threading.Barrier(threads)
    results: list[Any] = [None] * threads
    faults: list[BaseException] = []

    def run(number: int) -> None:
        try:
            start.wait(60)
            results[number] = work(number)
        except BaseException as fault:
            faults.append(fault)

    started = [threading.Thread(target=run, args=(i,)) for i in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join(120)
        assert not thread.is_alive()
    assert not faults, faults
    return results


def test_a_tensor_has_one_object() -> None:
    """C++ alone holds the gradient and the base until each thread asks for their objects."""
    for _ in range(200):
        x = fa.ones(3, requires_grad=True)
        view = fa.ones(4)[1:]  # whose base only C++ holds
        (x * 2).sum().backward()
        found = together(lambda _, x=x, view=view: (x.grad, view._base), 4)
        assert len({id(grad) for grad, _ in found}) == 1
        assert len({id(base) for _, base in found}) == 1
        assert x.grad.tolist() == [2.0] * 3


def test_objects_come_and_go() -> None:
    """The object goes when no thread holds it, and the tensor keeps it: attributes stay."""
    x, view = fa.ones(3, requires_grad=True), fa.ones(4)[1:]
    (x * 2).sum().backward()
    x.grad.note = view._base.note = "kept"

    def work(_: int) -> None:
        for _ in range(3000):
            assert x.grad.note == "kept"
            assert view._base.note == "kept"

    together(work)
    assert sys.getrefcount(x.grad) <= 3


class Kind(fa.Tensor):
    """A subclass, whose objects the collector knows."""


def test_objects_of_a_subclass_come_and_go() -> None:
    base = Kind(4)
    base.note = "kept"
    view = base[1:]
    del base

    def work(number: int) -> None:
        for i in range(1000):
            assert view._base.note == "kept" and type(view._base) is Kind
            if number == 0 and i % 200 == 0:
                gc.collect()

    together(work)


def test_arguments_of_one_function() -> None:
    """Each call has its own count of f(2, 3), and its own keywords, also the first ones."""

    def work(number: int) -> None:
        x = fa.arange(24.0)
        for _ in range(500):
            sizes = [(24,), (2, 12), (2, 3, 4), (1, 2, 3, 4)][number % 4]
            assert x.view(*sizes).shape == sizes
            assert fa.zeros(*sizes, dtype=fa.int64).shape == sizes
            assert x.sum(dim=0, keepdim=True).shape == (1,)
            assert fa.roll(x, shifts=number, dims=0)[number].item() == 0.0

    together(work)


def test_lists_that_other_threads_change() -> None:
    parts: list[Any] = [fa.ones(2) for _ in range(8)]
    sizes, numbers = [2, 3], [1.0, 2.0, 3.0]

    def work(number: int) -> None:
        for i in range(1500):
            if number == 0:
                parts.append(fa.ones(2))
                parts[0] = fa.ones(2)
                sizes[:] = [3, 2] if i % 2 else [6]
                numbers[:] = [float(i)] * (i % 5)
                if len(parts) > 40:
                    del parts[8:]
            else:
                assert fa.cat(parts).sum().item() % 2 == 0
                assert fa.zeros(sizes).numel() == 6
                try:
                    assert fa.tensor(numbers).dtype is fa.float32
                except RuntimeError as error:  # it became longer or shorter between two looks
                    assert "data changed while it was read" in str(error)

    together(work)


def test_hooks_come_and_go_while_backward_runs() -> None:
    w = fa.ones(3, requires_grad=True)
    y = w * 2
    node = y.grad_fn
    seen = [0] * THREADS

    def work(number: int) -> None:
        def hook(grad: Any) -> None:
            seen[number] += 1

        for _ in range(300):
            handles = [w.register_hook(hook), y.register_hook(hook)]
            handles.append(y.grad_fn.register_prehook(lambda grads: None))
            handles.append(y.grad_fn.register_hook(lambda inputs, outputs: None))
            node.metadata[number] = number
            y.sum().backward(retain_graph=True)
            for handle in handles:
                handle.remove()

    together(work)
    assert min(seen) >= 600  # its own calls at least
    assert w.grad.tolist() == [2.0 * 300 * THREADS] * 3
    assert sorted(node.metadata) == list(range(THREADS))


def test_attributes_of_one_tensor() -> None:
    for _ in range(50):
        x = fa.ones(2)  # unknown to the collector until it has attributes
        together(lambda number, x=x: setattr(x, f"a{number}", number), 4)
        assert [getattr(x, f"a{i}") for i in range(4)] == [0, 1, 2, 3]
        assert gc.is_tracked(x)


def test_a_module_whose_parameters_change() -> None:
    net = fa.nn.Linear(4, 4)
    x = fa.ones(2, 4)

    def work(number: int) -> None:
        for _ in range(500):
            if number == 0:
                net.weight = fa.nn.Parameter(fa.ones(4, 4))
            else:
                assert net(x).shape == (2, 4)

    together(work)


def test_gradients_of_all_threads_are_added() -> None:
    leaf = fa.zeros(50, requires_grad=True)

    def work(_: int) -> None:
        for _ in range(200):
            (leaf * 2).sum().backward()

    together(work)
    assert leaf.grad.tolist() == [2.0 * 200 * THREADS] * 50


def test_a_view_whose_history_all_ask_for_at_once() -> None:
    """Its base got one after the view was taken: the first call makes the view's."""
    for _ in range(150):
        w = fa.ones(4, requires_grad=True)
        base = fa.ones(4)
        view = base[1:]
        base.mul_(w)

        def work(k: int, w: fa.Tensor = w, view: fa.Tensor = view) -> list[float]:
            return fa.autograd.grad((view * k).sum(), w, retain_graph=True)[0].tolist()

        found = together(work, 4)
        assert found == [[0.0, k, k, k] for k in range(4)]
