"""Tensors between processes: one memory, and nothing of it left behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time

import facula as fa
import pytest
from facula import multiprocessing as mp

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@pytest.fixture(params=["file_descriptor", "file_system"])
def strategy(request):
    if request.param not in mp.get_all_sharing_strategies():
        pytest.skip(f"no {request.param} here")
    mp.set_sharing_strategy(request.param)
    yield request.param
    mp.set_sharing_strategy("file_descriptor")
    gc.collect()
    assert not [f for f in os.listdir("/dev/shm") if f.startswith("facula")]


def add_one(inbox, outbox):
    while (tensor := inbox.get()) is not None:
        with fa.no_grad():
            tensor.add_(1)
        outbox.put((tensor, tensor.is_shared(), tuple(tensor.stride())))
    outbox.put("end")
    inbox.get()


# Spawned ones are slow to start: one strategy will do.
@pytest.mark.parametrize(
    ("method", "strategy"),
    [
        ("fork", "file_descriptor"),
        ("fork", "file_system"),
        ("spawn", "file_descriptor"),
        ("forkserver", "file_descriptor"),
    ],
    indirect=["strategy"],
)
def test_queues_send_memory(method, strategy):
    context = mp.get_context(method)
    inbox, outbox = context.Queue(), context.SimpleQueue()
    process = context.Process(target=add_one, args=(inbox, outbox), daemon=True)
    process.start()

    def sent(tensor):
        inbox.put(tensor)
        return outbox.get()

    shared = fa.zeros(4, 3).t().clone().share_memory_()
    back, there, stride = sent(shared)
    assert there and stride == (1, 3) and shared.sum() == 12
    back.zero_()  # its own memory, come back
    assert shared.sum() == 0 and back.data_ptr() == shared.data_ptr()

    sent(shared[:, 1:])
    assert shared.t().tolist() == [[0] * 3, [1] * 3, [1] * 3, [1] * 3]

    plain = fa.ones(2)
    assert sent(plain)[0].tolist() == [2, 2] and plain.tolist() == [1, 1]
    assert not plain.is_shared()

    weight = fa.nn.Parameter(fa.ones(2)).share_memory_()
    assert isinstance(sent(weight)[0], fa.nn.Parameter) and weight.tolist() == [2, 2]
    for tensor in (fa.empty(0, 3), fa.tensor(1), fa.ones(2, dtype=fa.bfloat16).expand(3, 2)):
        back = sent(tensor.clone())[0]
        assert back.dtype == tensor.dtype and back.shape == tensor.shape
        assert (back == tensor + 1).all()

    inbox.put(None)
    assert outbox.get() == "end"
    inbox.put(None)
    process.join(5)
    assert process.exitcode == 0
    inbox.close()
    inbox.join_thread()


def test_share_memory():
    x = fa.arange(6.0).reshape(2, 3).clone()
    assert not x.is_shared()
    assert x.share_memory_() is x and x.is_shared() and x[0].is_shared()
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    place = x.data_ptr()
    assert x.share_memory_().data_ptr() == place
    with pytest.raises(RuntimeError, match="is a view"):
        fa.zeros(4)[1:].share_memory_()
    leaf = fa.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="detach"):
        (leaf * 2).share_memory_()
    leaf.share_memory_()
    (leaf * 3).sum().backward()
    assert leaf.is_shared() and leaf.grad.tolist() == [3, 3]

    net = fa.nn.Sequential(fa.nn.Linear(2, 2), fa.nn.BatchNorm1d(2))
    assert net.share_memory() is net
    assert all(t.is_shared() for t in [*net.parameters(), *net.buffers()])


def test_a_forked_child_writes_to_it():
    x = fa.zeros(3).share_memory_()
    pid = os.fork()
    if pid == 0:
        x += 7
        os._exit(0)
    os.waitpid(pid, 0)
    assert x.tolist() == [7, 7, 7]


def hogwild(index, net, steps):
    fa.manual_seed(index)
    optimizer = fa.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        x = fa.randn(16, 2)
        optimizer.zero_grad()
        (net(x) - (x @ fa.tensor([[1.0], [-2.0]]) + 0.5)).square().mean().backward()
        optimizer.step()


def test_hogwild():
    net = fa.nn.Linear(2, 1).share_memory()
    mp.start_processes(hogwild, (net, 60), nprocs=2, start_method="fork")
    assert (net.weight - fa.tensor([[1.0, -2.0]])).abs().max() < 0.05
    assert (net.bias - 0.5).abs() < 0.05


def put_and_end(queue):
    queue.put(fa.ones(3))


def test_a_sender_that_has_ended(strategy):
    context = mp.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=put_and_end, args=(queue,))
    process.start()
    process.join()
    if strategy == "file_system":
        assert queue.get().tolist() == [1, 1, 1]
    else:
        with pytest.raises(RuntimeError, match=rf"sender \(pid {process.pid}\) has ended"):
            queue.get()
    queue.close()


def test_pool_and_pipe():
    with mp.get_context("fork").Pool(2) as pool:
        found = pool.map(fa.neg, [fa.full((2,), float(i)) for i in range(4)])
    assert [t[0].item() for t in found] == [0, -1, -2, -3]
    one, other = mp.Pipe()
    x = fa.zeros(2).share_memory_()
    one.send({"x": x})
    other.recv()["x"].add_(1)
    assert x.tolist() == [1, 1]
    one.close()
    other.close()


def test_names():
    assert set(multiprocessing.__all__) <= set(dir(mp))
    for name in ("Queue", "get_context", "cpu_count", "set_start_method"):
        assert getattr(mp, name) is getattr(multiprocessing, name)
    assert mp.pool is multiprocessing.pool  # what is not in __all__
    with pytest.raises(AttributeError, match=r"facula\.multiprocessing"):
        mp.nonsense  # noqa: B018
    with pytest.raises(ValueError, match="file_descriptor"):
        mp.set_sharing_strategy("telepathy")
    assert mp.get_sharing_strategy() == "file_descriptor"


KILLED = """
import os, signal
import facula as fa
from facula import multiprocessing as mp
mp.set_sharing_strategy("file_system")
queue = mp.get_context("fork").SimpleQueue()
x = fa.zeros(1000).share_memory_()
queue.put(x); queue.put(fa.ones(5))
print(*[f for f in os.listdir("/dev/shm") if f.startswith(f"facula-{os.getpid()}-")], flush=True)
"""


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="there is no /dev/shm")
@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_names_go_with_the_program(end):
    done = subprocess.run(
        [sys.executable, "-c", KILLED + end], capture_output=True, text=True, check=False
    )
    names = done.stdout.split()
    # The shared one's own, and one on the way for each that was sent.
    assert len(names) == 3 and done.returncode == (-9 if end else 0), done.stderr
    last = time.monotonic() + 5
    while set(names) & set(os.listdir("/dev/shm")) and time.monotonic() < last:
        time.sleep(0.02)
    assert not set(names) & set(os.listdir("/dev/shm"))


# ---- spawn


def act(index, shared, how):
    shared[index] = index + 1
    if index == 1 and how == "raise":
        raise LookupError("number one")
    if index == 1 and how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if index == 1 and how == "exit":
        sys.exit(7)
    if how:
        time.sleep(60)


def test_spawn():
    shared = fa.zeros(2).share_memory_()
    assert mp.spawn(act, (shared, ""), nprocs=2) is None
    assert shared.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("how", "error", "text"),
    [
        ("raise", mp.ProcessRaisedException, r"Process 1 terminated(.|\n)*LookupError: number one"),
        ("kill", mp.ProcessExitedException, "process 1 .* signal SIGKILL"),
        ("exit", mp.ProcessExitedException, "process 1 .* exit code 7"),
    ],
)
def test_one_that_fails_ends_the_others(how, error, text):
    context = mp.start_processes(
        act, (fa.zeros(3).share_memory_(), how), nprocs=3, join=False, start_method="fork"
    )
    assert len(context.pids()) == 3
    started = time.monotonic()
    with pytest.raises(error, match=text) as info:
        while not context.join():
            pass
    assert time.monotonic() - started < 5
    assert info.value.error_index == 1 and info.value.error_pid == context.pids()[1]
    assert not any(process.is_alive() for process in context.processes)
    again = pickle.loads(pickle.dumps(info.value))
    assert str(again) == str(info.value) and again.__dict__ == info.value.__dict__
