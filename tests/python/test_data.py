"""Datasets, samplers, collation, and the loader."""

from __future__ import annotations

import sys
from collections import namedtuple

import facula
import numpy as np
import pytest
from facula.testing import assert_close
from facula.utils import data


class Squares(data.Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i == 13:
            raise KeyError("unlucky")
        return i * i


def test_datasets():
    pairs = data.TensorDataset(facula.arange(4), facula.arange(4) * 10)
    assert len(pairs) == 4 and pairs[2][1].item() == 20
    with pytest.raises(ValueError, match="Size mismatch"):
        data.TensorDataset(facula.zeros(2), facula.zeros(3))
    both = Squares(3) + Squares(2)
    assert [both[i] for i in range(5)] == [0, 1, 4, 0, 1] and both[-1] == 1
    for bad in (5, -6):
        with pytest.raises(IndexError):
            both[bad]
    assert data.Subset(Squares(9), [8, 2])[0] == 64
    assert data.StackDataset(a=Squares(3), b=Squares(3))[2] == {"a": 4, "b": 4}


def test_random_split():
    parts = data.random_split(Squares(10), [0.5, 0.25, 0.25])
    assert [len(p) for p in parts] == [6, 2, 2]
    assert sorted(i for p in parts for i in p.indices) == list(range(10))
    first, second = (
        data.random_split(Squares(10), [7, 3], facula.Generator().manual_seed(5))[1].indices
        for _ in range(2)
    )
    assert first == second
    with pytest.warns(UserWarning, match="index 1 is 0"):
        data.random_split(Squares(2), [0.9, 0.1])
    with pytest.raises(ValueError, match="the dataset has 10"):
        data.random_split(Squares(10), [7, 4])
    with pytest.raises(ValueError, match=r"at least 0, got \[-1, 11\]"):
        data.random_split(Squares(10), [-1, 11])


def test_a_stack_asks_for_a_batch_at_once():
    class Many(Squares):
        def __getitems__(self, indices):
            return [-i for i in indices]

    both = data.StackDataset(Many(5), Squares(5))
    assert both.__getitems__([3, 1]) == [(-3, 9), (-1, 1)]
    named = data.StackDataset(a=Many(5), b=Squares(5))
    assert named.__getitems__([4]) == [{"a": -4, "b": 16}]
    Many.__getitems__ = lambda self, indices: []
    with pytest.raises(ValueError, match="0 samples for 2 indices"):
        both.__getitems__([1, 2])


@pytest.mark.parametrize(
    ("size", "replicas", "drop_last", "shares"),
    [
        (5, 2, False, [[0, 2, 4], [1, 3, 0]]),
        (5, 2, True, [[0, 2], [1, 3]]),
        (1, 3, False, [[0], [0], [0]]),
        (2, 3, True, [[], [], []]),
        (6, 3, False, [[0, 3], [1, 4], [2, 5]]),
    ],
)
def test_distributed_sampler(size, replicas, drop_last, shares):
    def share(rank, **options):
        sampler = data.DistributedSampler(
            range(size), replicas, rank, drop_last=drop_last, **options
        )
        assert len(sampler) == len(list(sampler))
        return sampler

    assert [list(share(r, shuffle=False)) for r in range(replicas)] == shares
    drawn = [list(share(r, seed=3)) for r in range(replicas)]
    kept = set(range(size)) if not drop_last else {i for s in drawn for i in s}
    assert {i for s in drawn for i in s} == kept
    assert len(kept) == min(size, replicas * len(drawn[0]))


def test_distributed_sampler_by_epoch():
    sampler = data.distributed.DistributedSampler(range(50), 2, 0)
    first = list(sampler)
    assert list(sampler) == first
    sampler.set_epoch(1)
    assert list(sampler) != first
    with pytest.raises(ValueError, match=r"interval \[0, 1\]"):
        data.DistributedSampler(range(4), 2, 2)
    with pytest.raises(RuntimeError, match="num_replicas and rank"):
        data.DistributedSampler(range(4))


def test_samplers():
    source = range(10)
    assert list(data.SequentialSampler(source)) == list(source)
    assert sorted(data.RandomSampler(source)) == list(source)
    assert len(list(data.RandomSampler(source, num_samples=25))) == 25
    drawn = list(data.RandomSampler(source, replacement=True, num_samples=2000))
    assert set(drawn) == set(source) and len(drawn) == 2000
    assert sorted(data.SubsetRandomSampler([5, 7])) == [5, 7]
    weighted = list(data.WeightedRandomSampler([0.0, 1.0, 3.0], 4000))
    assert 0 not in weighted and 0.7 < weighted.count(2) / 4000 < 0.8
    assert list(data.BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    assert len(data.BatchSampler(range(5), 2, True)) == 2
    for bad in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="batch_size"):
            data.BatchSampler(range(5), bad, False)


def test_collate_of_numpy_strings():
    for batch in (["a", "bc"], [b"a", b"bc"]):
        strings = [np.array(s)[()] for s in batch]
        assert data.default_collate(strings) == batch
        assert data.default_collate([{"k": s, "n": 1} for s in strings])["k"] == batch
        assert data.default_convert(strings) == batch
        loader = data.DataLoader([(s, i) for i, s in enumerate(strings)], batch_size=2)
        ((found, numbers),) = loader
        assert list(found) == batch and numbers.tolist() == [0, 1]
    with pytest.raises(TypeError, match="dtype datetime64"):
        data.default_collate([np.datetime64("2026-01-01")])


def test_collate():
    Point = namedtuple("Point", "x y")
    batch = data.default_collate([{"a": 1.5, "b": (1, "s")}, {"a": 2.5, "b": (2, "t")}])
    assert batch["a"].dtype == facula.float64 and batch["b"][1] == ["s", "t"]
    assert_close(batch["b"][0], facula.tensor([1, 2]))
    point = data.default_collate([Point(facula.zeros(2), True), Point(facula.ones(2), False)])
    assert tuple(point.x.shape) == (2, 2) and point.y.dtype == facula.bool
    arrays = data.default_collate([np.float32([1, 2]), np.float32([3, 4])])
    assert_close(arrays, facula.tensor([[1.0, 2.0], [3.0, 4.0]]))
    with pytest.raises(RuntimeError, match="equal size"):
        data.default_collate([[1], [1, 2]])
    numbers = data.default_collate([1 + 2j, 3.0])
    assert numbers.dtype == facula.complex128 and numbers.tolist() == [1 + 2j, 3]
    for nothing in ([], ()):
        with pytest.raises(ValueError, match="the batch has no samples"):
            data.default_collate(nothing)
    with pytest.raises(TypeError, match="found object"):
        data.default_collate([object()])
    with pytest.raises(RuntimeError):
        data.default_collate([facula.zeros(2), facula.zeros(3)])


Pair, Other = namedtuple("Pair", "x y"), namedtuple("Other", "x z")
MASKED = np.ma.array([1.0, 2.0], mask=[False, True])


@pytest.mark.parametrize(
    ("batch", "kind", "text"),
    [
        (
            [{"a": 1}, {"b": 1}],
            ValueError,
            r"sample 1 lacks the keys \['a'\] and has the keys \['b'\]",
        ),
        ([{"a": 1}, {"a": 1}, {}], ValueError, r"sample 2 lacks the keys \['a'\]"),
        ([{"a": 1}, {"a": 1, "c": 2}], ValueError, r"sample 1 has the keys \['c'\] besides"),
        ([{"a": 1}, 3], TypeError, "sample 1 is of type int, sample 0 is a dict"),
        ([[1], [1, 2]], RuntimeError, "equal size, but sample 1 has 2 entries and sample 0 1"),
        ([[1], 2], TypeError, "sample 1 is of type int"),
        ([Pair(1, 2), Other(1, 2)], TypeError, "sample 1 is a Other and sample 0 a Pair"),
        (
            [{"a": [1, {"k": facula.zeros(n)}]} for n in (2, 3)],
            RuntimeError,
            r"in entry \['a'\]\[1\]\['k'\]: sample 1 has shape \(3,\), sample 0 has \(2,\)",
        ),
        ([facula.zeros(2), 1], TypeError, "sample 1 is of type int, sample 0 is a Tensor"),
        ([facula.zeros(2), np.zeros(2)], TypeError, "sample 1 is of type ndarray"),
        ([np.zeros(2), np.zeros(3)], RuntimeError, r"sample 1 has shape \(3,\)"),
        ([1, None], TypeError, "sample 1 is of type NoneType, sample 0 is an int"),
        ([1, "2"], TypeError, "sample 1 is of type str, sample 0 is an int"),
        ([1.0, "2"], TypeError, "sample 1 is of type str, sample 0 is a float"),
        ([1j, b"2"], TypeError, "sample 1 is of type bytes, sample 0 is a complex number"),
        (["a", 1], TypeError, "sample 1 is of type int, sample 0 is a str"),
        (["a", b"a"], TypeError, "sample 1 is of type bytes"),
        ([(1, None), (1, None)], TypeError, r"in entry \[1\]: .* found NoneType"),
        ([np.zeros(2), MASKED], TypeError, "sample 1 is a masked array"),
        ([{"m": MASKED}], TypeError, r"in entry \['m'\]: sample 0 is a masked array"),
        ([np.array([None])], TypeError, "sample 0 is an array of dtype object"),
        ([np.zeros(2), np.array(["a"])], TypeError, "sample 1 is an array of dtype <U1"),
        ([np.zeros(2, [("a", "i4")])], TypeError, "sample 0 is an array of dtype"),
    ],
)
def test_what_does_not_collate_is_named(batch, kind, text):
    with pytest.raises(kind, match=text):
        data.default_collate(batch)


def test_masked_arrays_are_not_converted():
    with pytest.raises(TypeError, match="default_convert: the sample is a masked array"):
        data.default_convert({"m": MASKED})
    mixed = data.default_collate([True, 2]), data.default_collate([1.0, np.float32(2), 3])
    assert mixed[0].tolist() == [1, 2] and mixed[1].tolist() == [1.0, 2.0, 3.0]


def test_collate_of_containers_and_own_types(monkeypatch):
    from collections import OrderedDict, defaultdict, deque
    from fractions import Fraction
    from types import MappingProxyType

    from facula.utils.data._utils.collate import collate

    counts = defaultdict(int, a=1)
    joined = data.default_collate([counts, counts])
    assert type(joined) is defaultdict and joined.default_factory is int
    assert joined["a"].tolist() == [1, 1] and counts == {"a": 1}
    assert type(data.default_collate([OrderedDict(a=1)])) is OrderedDict
    assert type(data.default_collate([deque([1, 2])])) is deque
    fixed = data.default_collate([MappingProxyType({"a": 1})])
    assert isinstance(fixed, MappingProxyType) and fixed["a"].tolist() == [1]

    class Word(str):
        pass

    assert data.default_collate([Word("a")]) == ["a"]
    with pytest.raises(TypeError, match="found Fraction"):
        data.default_collate([Fraction(1)])
    monkeypatch.setitem(
        data.default_collate_fn_map, Fraction, lambda batch, *, collate_fn_map: summed(batch)
    )
    assert data.default_collate([{"z": Fraction(1)}, {"z": Fraction(2)}]) == {"z": 3}
    arrays = collate([np.ones(2)], collate_fn_map={**data.default_collate_fn_map, int: max})
    assert arrays.dtype == facula.float64 and arrays.shape == (1, 2)
    own = {int: lambda batch, *, collate_fn_map: max(batch)}
    assert collate([(1, [5]), (4, [2])], collate_fn_map=own) == [4, [5]]


def summed(batch):
    return sum(batch)


def test_loader_batches():
    loader = data.DataLoader(Squares(5), batch_size=2)
    assert [b.tolist() for b in loader] == [[0, 1], [4, 9], [16]] and len(loader) == 3
    assert len(data.DataLoader(Squares(5), 2, drop_last=True)) == 2
    assert list(data.DataLoader(Squares(3), batch_size=None)) == [0, 1, 4]
    assert sorted(int(b) for b in data.DataLoader(Squares(5), shuffle=True)) == [0, 1, 4, 9, 16]
    custom = data.DataLoader(Squares(4), batch_sampler=[[3, 0], [1]], collate_fn=tuple)
    assert list(custom) == [(9, 0), (1,)]


def test_loader_is_repeatable_and_differs_by_pass():
    def passes():
        generator = facula.Generator().manual_seed(3)
        loader = data.DataLoader(Squares(12), 4, shuffle=True, generator=generator)
        return [[b.tolist() for b in loader] for _ in range(2)]

    first, second = passes(), passes()
    assert first == second and first[0] != first[1]


def test_iterable_dataset():
    class Stream(data.IterableDataset):
        def __iter__(self):
            return iter(range(5))

    assert [b.tolist() for b in data.DataLoader(Stream(), 2)] == [[0, 1], [2, 3], [4]]
    assert len(list(data.DataLoader(Stream(), 2, drop_last=True))) == 2
    assert list(data.DataLoader(Stream() + Stream(), None)) == [*range(5), *range(5)]
    with pytest.raises(TypeError):
        len(data.DataLoader(Stream(), 2))
    with pytest.raises(ValueError, match="own order"):
        data.DataLoader(Stream(), shuffle=True)


def test_errors_arrive_as_raised():
    with pytest.raises(KeyError, match="unlucky") as info:
        list(data.DataLoader(Squares(20), 4))
    if sys.version_info >= (3, 11):
        assert info.value.__notes__ == ["while reading sample 13 of Squares"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"num_workers": -1}, ValueError),
        ({"sampler": [0], "shuffle": True}, ValueError),
        ({"batch_sampler": [[0]], "batch_size": 2}, ValueError),
        ({"batch_size": None, "drop_last": True}, ValueError),
        ({"batch_size": 0}, ValueError),
        ({"persistent_workers": True}, ValueError),
    ],
)
def test_option_checks(options, error):
    with pytest.raises(error):
        data.DataLoader(Squares(4), **options)


def test_no_worker_here():
    assert data.get_worker_info() is None
