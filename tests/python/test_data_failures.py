"""Workers that raise, die, hang or lack memory, and early ends: one clear error, nothing left."""

from __future__ import annotations

import faulthandler
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import time

import facula as fa
import pytest
from facula.utils import data
from loaders import (  # noqa: F401
    LIMIT,
    Acts,
    Numbers,
    alive,
    firsts,
    nothing_left_behind,
    servers,
)

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


# ---- errors


class TwoParts(Exception):
    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code


class Worded(Exception):
    def __init__(self, *, code):
        super().__init__(code)


def raising(error):
    def act():
        raise error

    return act


def test_an_exception_arrives_with_class_traceback_and_index():
    loader = iter(data.DataLoader(Acts(raising(KeyError("unlucky"))), 2, num_workers=2))
    assert firsts([next(loader), next(loader)]) == [[0, 1], [2, 3]]
    with pytest.raises(KeyError, match="unlucky") as info:
        next(loader)
    assert "in act" in str(info.value.__cause__) and "Traceback" in str(info.value.__cause__)
    if sys.version_info >= (3, 11):
        index, where = info.value.__notes__
        assert index == "while reading sample 5 of Acts"
        assert where.startswith("Caught KeyError in DataLoader worker process 0 (pid ")
    # The others are not lost.
    assert firsts(loader)[0] == [6, 7]


@pytest.mark.parametrize("error", [TwoParts(3, "x"), Worded(code=4)])
def test_an_exception_that_cannot_travel_is_told(error):
    name = type(error).__name__
    text = rf"Caught {name} in DataLoader worker process 0(.|\n)*Original Traceback(.|\n)*{name}"
    with pytest.raises(RuntimeError, match=text):
        list(data.DataLoader(Acts(raising(error)), num_workers=1))


def failing_start(number):
    raise OSError(2, "no such shard", "shard.bin")


def test_errors_in_functions_of_the_user():
    with pytest.raises(FileNotFoundError) as info:
        list(data.DataLoader(Numbers(), num_workers=1, worker_init_fn=failing_start))
    assert info.value.filename == "shard.bin"
    with pytest.raises(ZeroDivisionError):
        list(data.DataLoader(Numbers(), num_workers=1, collate_fn=lambda b: 1 // 0))
    with pytest.raises(RuntimeError, match=r"Acts\[5\] raised StopIteration"):
        list(data.DataLoader(Acts(raising(StopIteration())), num_workers=1))

    def indices():
        yield from (1, 2)
        raise LookupError("sampler")

    for workers in (0, 2):
        loader = iter(data.DataLoader(Numbers(), sampler=indices(), num_workers=workers))
        assert firsts([next(loader)]) == [[1]]
        assert firsts([next(loader)]) == [[2]]
        with pytest.raises(LookupError, match="sampler"):
            next(loader)


def bus_error():
    faulthandler.disable()  # of pytest
    os.kill(os.getpid(), signal.SIGBUS)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), r"killed by signal: Killed \(SIGKILL\)"),
        (bus_error, r"killed by signal: .*\(SIGBUS\).*shared memory"),
        (lambda: os._exit(3), "exited unexpectedly, with status 3"),
        (lambda: sys.exit(0), "exited unexpectedly, with status 0"),
    ],
)
@pytest.mark.parametrize("persistent", [False, True])
def test_a_worker_that_dies(how, text, persistent):
    dataset = Acts(how)
    loader = data.DataLoader(dataset, 2, num_workers=2, persistent_workers=persistent)
    started = time.monotonic()
    batches = iter(loader)
    with pytest.raises(RuntimeError, match=rf"worker \(pid \d+\) .*{text}"):
        list(batches)
    with pytest.raises(RuntimeError, match="worker"):
        next(batches)  # not an end
    assert time.monotonic() - started < LIMIT
    dataset.act = lambda: None
    assert len(list(loader)) == 10
    del loader, batches


def test_an_idle_worker_that_was_killed():
    loader = data.DataLoader(Numbers(), 2, num_workers=2, persistent_workers=True)
    assert len(list(loader)) == 10
    os.kill(loader._iterator._hub.links[1].pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="SIGKILL"):
        list(loader)
    assert len(list(loader)) == 10


def test_a_killed_worker_whose_child_holds_its_socket():
    def act():
        if os.fork() == 0:
            time.sleep(8)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)

    started = time.monotonic()
    with pytest.raises(RuntimeError, match="SIGKILL"):
        list(data.DataLoader(Acts(act), num_workers=1))
    assert time.monotonic() - started < LIMIT


@pytest.mark.parametrize("persistent", [False, True])
def test_timeout(persistent):
    dataset = Acts(lambda: time.sleep(60))
    loader = data.DataLoader(dataset, 2, num_workers=2, timeout=0.4, persistent_workers=persistent)
    started = time.monotonic()
    with pytest.raises(RuntimeError, match=r"timed out after 0.4 seconds: worker 0 of 2 \(pid"):
        list(loader)
    assert time.monotonic() - started < LIMIT
    dataset.act = lambda: None
    assert len(list(loader)) == 10


def little_memory(number):
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))


def test_out_of_shared_memory():
    loader = data.DataLoader(Numbers(4, 100_000), 2, num_workers=1, worker_init_fn=little_memory)
    with pytest.raises(fa.multiprocessing.SharedMemoryError, match=r"shm-size.*batch_size"):
        list(loader)


def test_no_descriptor_left():
    loader = data.DataLoader(Numbers(4, 100_000), 2, num_workers=1)
    batches = iter(loader)
    free = os.open("/", os.O_RDONLY)
    os.close(free)
    old = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, old[1]))
    try:
        with pytest.raises(RuntimeError, match="ulimit -n"):
            list(batches)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, old)
    del batches
    assert len(list(loader)) == 2


def test_what_cannot_be_pickled_is_told():
    kinds = (AttributeError, TypeError, pickle.PicklingError)
    with pytest.raises(kinds) as info:
        list(data.DataLoader(Numbers(), num_workers=1, collate_fn=lambda b: (x for x in b)))
    if sys.version_info >= (3, 11):
        assert "what collate_fn returns is pickled" in info.value.__notes__[0]
    options = {"num_workers": 1, "multiprocessing_context": "spawn"}
    with pytest.raises(kinds) as info:
        list(data.DataLoader(Numbers(), collate_fn=lambda b: b, **options))
    if sys.version_info >= (3, 11):
        assert "collate_fn and worker_init_fn are pickled" in info.value.__notes__[0]


@pytest.mark.parametrize("persistent", [False, True])
def test_an_interrupt(persistent):
    """Ctrl-C, of which the workers hear too."""

    def act():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(60)

    dataset = Acts(act)
    # Sample 5 is not among those that are made before the first one is asked for.
    loader = data.DataLoader(dataset, 1, num_workers=2, persistent_workers=persistent)
    batches = iter(loader)
    pids = [link.pid for link in batches._hub.links]
    with pytest.raises(KeyboardInterrupt):
        list(batches)
    assert not any(alive(pid) for pid in pids)
    with pytest.raises(RuntimeError, match="KeyboardInterrupt"):
        next(batches)
    dataset.act = lambda: None
    assert len(list(loader)) == 20


# ---- ends


@pytest.mark.parametrize("persistent", [False, True])
def test_early_break_and_again(persistent):
    loader = data.DataLoader(
        Numbers(60, 20_000), 2, num_workers=2, persistent_workers=persistent, prefetch_factor=4
    )
    for _ in range(3):
        for i, batch in enumerate(loader):
            assert batch[0, 0] == 2 * i
            if i == 2:
                break
    assert len(list(loader)) == 30


def test_a_new_pass_does_not_wait_for_the_old_one():
    loader = data.DataLoader(
        SlowAfterFirst(), 1, num_workers=1, persistent_workers=True, prefetch_factor=30
    )
    next(iter(loader))
    started = time.monotonic()
    next(iter(loader))
    assert time.monotonic() - started < 2


class SlowAfterFirst(Numbers):
    def __init__(self):
        super().__init__(30)

    def __getitem__(self, i):
        if i:
            time.sleep(0.2)
        return super().__getitem__(i)


def test_a_busy_worker_does_not_hold_up_the_end():
    loader = iter(data.DataLoader(Acts(lambda: time.sleep(60)), 1, num_workers=2))
    next(loader)
    started = time.monotonic()
    del loader
    assert time.monotonic() - started < LIMIT


PROGRAM = """
import os, signal, sys, time
import facula as fa
from facula.utils import data
class Numbers(data.Dataset):
    def __len__(self): return 100
    def __getitem__(self, i):
        return fa.full((20000,), float(i))
loader = data.DataLoader(Numbers(), 2, num_workers=2, persistent_workers={persistent})
for batch in loader:
    break
kept = iter(loader)
next(kept)
print(*[link.pid for link in kept._hub.links], flush=True)
{end}
"""


@pytest.mark.parametrize(
    ("end", "status", "persistent"),
    [
        ("", 0, False),
        ("", 0, True),
        ("raise ValueError", 1, False),
        ("os.fork() or time.sleep(4)\nos.kill(os.getpid(), signal.SIGKILL)", -9, False),
        ("signal.raise_signal(signal.SIGINT)", -2, False),
    ],
)
def test_the_end_of_the_program(persistent, end, status):
    program = PROGRAM.format(persistent=persistent, end=end)
    done = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    pids = done.stdout.readline().split()
    assert done.wait(20) == status and len(pids) == 2
    done.stdout.close()
    last = time.monotonic() + LIMIT
    while any(alive(pid) for pid in pids) and time.monotonic() < last:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in pids)


# ---- the thread that pins


class Pinned:
    def __init__(self, batch):
        self.batch, self.by = batch, None

    def pin_memory(self):
        self.by = threading.current_thread().name
        if self.batch == [3]:
            raise MemoryError("no page-locked memory")
        return self


@pytest.fixture
def pinning(monkeypatch):
    """As with a device that copies in the background."""
    from facula.utils.data._utils import iterators

    monkeypatch.setattr(iterators, "device_to_pin_for", lambda device: "acme")


@pytest.mark.parametrize("persistent", [False, True])
def test_the_thread_that_pins(pinning, persistent):
    options = {"num_workers": 2, "pin_memory": True, "persistent_workers": persistent}
    loader = data.DataLoader(range(8), collate_fn=Pinned, **options)
    for _ in range(2):
        found = iter(loader)
        for i in range(3):
            pinned = next(found)
            assert pinned.batch == [i] and pinned.by == "DataLoader pin_memory"
        with pytest.raises(MemoryError, match="page-locked"):
            next(found)
        assert [p.batch for p in found] == [[4], [5], [6], [7]]
    for _ in loader:
        break

    dataset = Acts(lambda: os.kill(os.getpid(), signal.SIGKILL))
    loader = data.DataLoader(dataset, 2, timeout=0.5, collate_fn=Pinned, **options)
    for how, text in ((None, "SIGKILL"), (lambda: time.sleep(60), "timed out after 0.5")):
        dataset.act = how or dataset.act
        started = time.monotonic()
        with pytest.raises(RuntimeError, match=text):
            list(loader)
        assert time.monotonic() - started < LIMIT
    dataset.act = lambda: None
    assert len(list(loader)) == 10
