"""The loader with worker processes: the same batches, clear errors, and nothing left behind."""

from __future__ import annotations

import contextlib
import copy
import faulthandler
import gc
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import OrderedDict, namedtuple
from pathlib import Path

import facula as fa
import numpy as np
import pytest
from facula.utils import data

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
LIMIT = 5  # seconds until an error


def children() -> set[str]:
    found = set()
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):
            found |= set(Path(f"/proc/self/task/{task}/children").read_text().split())
    return found


def left() -> tuple[set[str], set[str], set[str], int]:
    gc.collect()
    return (
        set(os.listdir("/proc/self/fd")),
        {f for f in os.listdir("/dev/shm") if "facula" in f},
        children(),
        threading.active_count(),
    )


@pytest.fixture(scope="module")
def servers():
    """Processes of Python's that stay once they have been needed."""
    from multiprocessing import forkserver, resource_tracker

    resource_tracker.ensure_running()
    forkserver.ensure_running()
    gc.collect()
    gc.freeze()  # collections within the tests are of what the tests made
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def nothing_left_behind(servers):
    before = left()
    started = time.monotonic()
    yield
    assert left() == before
    assert time.monotonic() - started < 4 * LIMIT


class Numbers(data.Dataset):
    """Sample i is i, as a tensor of `width` elements."""

    def __init__(self, n=20, width=3):
        self.n, self.width = n, width

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return fa.full((self.width,), float(i))


class Acts(Numbers):
    """Does something at sample 5."""

    def __init__(self, act, n=20):
        super().__init__(n)
        self.act = act

    def __getitem__(self, i):
        if i == 5:
            self.act()
        return super().__getitem__(i)


def firsts(batches):
    return [b[:, 0].tolist() for b in batches]


# ---- the same batches


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("persistent", [False, True])
def test_order_and_samples_do_not_depend_on_workers(workers, persistent):
    def passes(**options):
        fa.manual_seed(4)
        seeded = fa.Generator().manual_seed(3)
        found = []
        for generator in (seeded, None):
            loader = data.DataLoader(Numbers(23), 4, shuffle=True, generator=generator, **options)
            found += [firsts(loader) for _ in range(3)]
        return found, fa.rand(1).item()

    assert passes(num_workers=workers, persistent_workers=persistent) == passes()


def test_orders_without_batches_and_with_own_batches():
    for workers in (0, 2):
        single = data.DataLoader(Numbers(5), batch_size=None, num_workers=workers)
        assert [t[0].item() for t in single] == [0, 1, 2, 3, 4]
        own = data.DataLoader(Numbers(5), batch_sampler=[[4, 1], [0]], num_workers=workers)
        assert firsts(own) == [[4, 1], [0]]
        assert list(data.DataLoader(Numbers(0), 2, num_workers=workers)) == []


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_ways_to_start(method):
    whole = fa.arange(2.0**18)  # goes to the workers by shared memory
    loader = data.DataLoader(
        data.Subset(data.TensorDataset(whole, whole * 2), list(range(8))),
        2,
        num_workers=1,
        multiprocessing_context=method,
        worker_init_fn=seeds_of,
        persistent_workers=True,
    )
    for _ in range(2):
        assert [x.tolist() for x, y in loader] == [[0, 1], [2, 3], [4, 5], [6, 7]]


Point = namedtuple("Point", "x y")


class Structures(data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        return OrderedDict(
            point=Point(fa.full((2, 3), i + 0.5), i),
            nested={"flag": i % 2 == 0, "text": f"t{i}", "list": [i, [float(i)]]},
            array=np.full((40, 50), i, dtype=np.int16),
            empty=fa.empty(0, 4),
            narrow=fa.tensor([i, 1.5], dtype=fa.bfloat16),
            complex=fa.tensor([complex(i, 1)]),
            turned=fa.arange(6).reshape(2, 3).t() + i,
            large=fa.full((200, 100), i),
        )


def same(a, b):
    assert type(a) is type(b)
    if isinstance(a, fa.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape and fa.equal(a, b)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and np.array_equal(a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        assert a == b


@pytest.mark.parametrize("collate", [None, list, lambda batch: {"all": batch, "long": "x" * 99999}])
def test_structures(collate):
    plain, remote = (
        list(data.DataLoader(Structures(), 4, collate_fn=collate, num_workers=workers))
        for workers in (0, 2)
    )
    same(plain, remote)


class Flags(data.Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, i):
        leaf = fa.ones(2, requires_grad=True)
        return leaf, fa.nn.Parameter(fa.zeros(3)), leaf.detach()


def test_gradients_do_not_leave_a_worker():
    ((leaf, parameter, plain),) = data.DataLoader(Flags(), None, num_workers=1)
    assert leaf.requires_grad and isinstance(parameter, fa.nn.Parameter)
    assert not plain.requires_grad
    computed = data.DataLoader(Flags(), num_workers=1, collate_fn=lambda b: b[0][0] * 2)
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        list(computed)


# ---- memory


@pytest.mark.parametrize("width", [10, 20_000])
def test_kept_batches_stay_as_they_are(width):
    """Of those that are copied out, those in shared memory, and those beyond what is kept there."""
    kept = list(data.DataLoader(Numbers(160, width), 1, num_workers=2))
    for i, batch in enumerate(kept):
        assert (batch == i).all()
        batch += 1  # nobody else's memory
    assert all((batch == i + 1).all() for i, batch in enumerate(kept))


def test_memory_is_used_again():
    places = set()
    for batch in data.DataLoader(Numbers(120, 50_000), 2, num_workers=1):
        places.add(batch.data_ptr())
    assert len(places) <= 8


def keep(batch, kept=[]):  # noqa: B006
    kept.append(data.default_collate(batch))
    if len(kept) > 3:
        assert all((b == b[0, 0]).all() for b in kept), "overwritten"
    return kept[-1]


def test_memory_that_a_worker_keeps_is_not_used_again():
    loader = data.DataLoader(Numbers(30, 20_000), 1, num_workers=1, collate_fn=keep)
    assert [b[0, 0].item() for b in loader] == list(range(30))


def test_a_forked_child_keeps_its_batch():
    loader = iter(data.DataLoader(Numbers(40, 50_000), 1, num_workers=1))
    batch = next(loader)
    go, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        with contextlib.suppress(BaseException):
            signal.alarm(20)
            os.close(told)
            os.read(go, 1)
            try:
                next(loader)
            except RuntimeError as error:
                assert "belongs to the process" in str(error)
            assert (batch == 0).all()
            status = 0
        os._exit(status)
    del batch
    os.close(go)
    assert [b[0, 0].item() for b in loader] == list(range(1, 40))
    os.close(told)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_many_ahead_and_many_indices():
    """More than the sockets hold, in both directions."""
    loader = data.DataLoader(range(900), 1, num_workers=1, prefetch_factor=900)
    assert sum(int(b) for b in loader) == 900 * 899 // 2
    many = data.DataLoader(range(200_000), 100_000, num_workers=2, collate_fn=sum)
    assert sum(many) == 200_000 * 199_999 // 2


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
    loader = data.DataLoader(dataset, 2, num_workers=2, persistent_workers=persistent)
    batches = iter(loader)
    pids = [link.pid for link in batches._hub.links]
    with pytest.raises(KeyboardInterrupt):
        list(batches)
    assert not any(alive(pid) for pid in pids)
    with pytest.raises(RuntimeError, match="KeyboardInterrupt"):
        next(batches)
    dataset.act = lambda: None
    assert len(list(loader)) == 10


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


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


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


# ---- seeds, streams, options


def seeds_of(number):
    info = data.get_worker_info()
    assert info.id == number


class Draws(data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        info = data.get_worker_info()
        assert info.num_workers == 2 and type(info.dataset) is Draws
        with pytest.raises(RuntimeError, match="Cannot assign"):
            info.id = 3
        return (
            info.id,
            info.seed,
            random.random(),
            np.random.rand(),
            fa.rand(1).item(),
            fa.initial_seed(),
        )


def test_seeds():
    def draws(seed):
        generator = fa.Generator().manual_seed(seed)
        loader = data.DataLoader(
            Draws(), None, num_workers=2, generator=generator, collate_fn=tuple
        )
        return list(loader)

    first, again, other = draws(1), draws(1), draws(2)
    assert first == again
    assert [d[0] for d in first] == [0, 1, 0, 1]
    assert first[1][1] == first[0][1] + 1 and first[0][5] == first[0][1]
    for source in (2, 3, 4):
        assert len({d[source] for d in [*first, *other]}) == 8
    # What is documented: base seed + id.
    _, seed, drawn, *_ = first[0]
    assert random.Random(seed).random() == drawn
    assert data.get_worker_info() is None


class Stream(data.IterableDataset):
    def __init__(self, sizes):
        self.sizes = sizes

    def __iter__(self):
        info = data.get_worker_info()
        number = info.id if info else 0
        return (fa.tensor([number, i]) for i in range(self.sizes[number]))


class Short(Stream):
    def __len__(self):
        return 2


def test_streams():
    loader = data.DataLoader(Stream([5, 2, 0]), 2, num_workers=3, persistent_workers=True)
    for _ in range(2):
        found = [b.tolist() for b in loader]
        assert found == [
            [[0, 0], [0, 1]],
            [[1, 0], [1, 1]],
            [[0, 2], [0, 3]],
            [[0, 4]],
        ]
    dropped = data.DataLoader(Stream([5, 3]), 2, num_workers=2, drop_last=True)
    assert len(list(dropped)) == 3
    assert len(list(data.DataLoader(Stream([2, 3]), None, num_workers=2))) == 5


def test_a_stream_longer_than_it_says():
    loader = data.DataLoader(Short([2, 2]), 1, num_workers=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in loader:  # nobody asked
            pass
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="reported to be 2"):
        list(loader)


def test_out_of_order():
    go, told = os.pipe()
    dataset = Acts(lambda: os.read(go, 1), 12)
    loader = iter(data.DataLoader(dataset, 1, num_workers=2, in_order=False))
    # One that waits, and the one behind it.
    found = [next(loader)[0, 0].item() for _ in range(10)]
    os.write(told, b".")
    later = [b[0, 0].item() for b in loader]
    assert sorted([*found, *later]) == list(range(12)) and 5 in later
    os.close(go)
    os.close(told)


def test_options():
    for options, error, text in (
        ({"prefetch_factor": 2}, ValueError, "num_workers > 0"),
        ({"num_workers": 1, "prefetch_factor": 0}, ValueError, "positive"),
        ({"multiprocessing_context": "fork"}, ValueError, "num_workers > 0"),
        ({"num_workers": 1, "multiprocessing_context": "thread"}, ValueError, "'spawn'"),
        ({"num_workers": 1, "multiprocessing_context": 3}, TypeError, "valid context"),
        ({"timeout": -1}, ValueError, "non-negative"),
    ):
        with pytest.raises(error, match=text):
            data.DataLoader(Numbers(), **options)
    loader = data.DataLoader(Numbers(), num_workers=1, persistent_workers=True)
    with pytest.raises(ValueError, match="batch_size attribute should not be set"):
        loader.batch_size = 3
    next(iter(loader))
    for other in (copy.copy(loader), pickle.loads(pickle.dumps(loader))):
        assert other._iterator is None and len(list(other)) == 20
    assert loader.prefetch_factor == 2 and loader.in_order
