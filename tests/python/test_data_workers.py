"""The loader with worker processes: the same batches as without, memory, seeds, streams."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import random
import signal
import warnings
from collections import OrderedDict, namedtuple

import facula as fa
import numpy as np
import pytest
from facula.utils import data
from loaders import Acts, Numbers, firsts, nothing_left_behind, servers  # noqa: F401

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")

# Of functions without a name and of pipes, which the start that Python 3.14 prefers does not pass.
FORKED = {"multiprocessing_context": "fork"}


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
        list(data.DataLoader(Structures(), 4, collate_fn=collate, **options))
        for options in ({}, {"num_workers": 2, **FORKED})
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
    computed = data.DataLoader(Flags(), num_workers=1, collate_fn=lambda b: b[0][0] * 2, **FORKED)
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
    loader = iter(data.DataLoader(dataset, 1, num_workers=2, in_order=False, **FORKED))
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
