"""Datasets: by index or as a stream, and ways to join and split them."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import facula

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Samples by index: a subclass defines `__getitem__` and, for most uses, `__len__`.

    It may define `__getitems__(indices)` to fetch a batch at once.
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__()")

    def __add__(self, other: Dataset[T_co]) -> ConcatDataset[T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """Samples as a stream: a subclass defines `__iter__`."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__()")

    def __add__(self, other: Dataset[T_co]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[Any]):
    """Sample i is (tensors[0][i], tensors[1][i], ...); all have one first size."""

    def __init__(self, *tensors: Any) -> None:
        sizes = [t.shape[0] if t.dim() else None for t in tensors]
        if not tensors or None in sizes or len(set(sizes)) > 1:
            shapes = ", ".join(str(tuple(t.shape)) for t in tensors)
            raise ValueError(
                f"Size mismatch between tensors: expected one first size, got {shapes}"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


class StackDataset(Dataset[Any]):
    """Sample i is a tuple (or dictionary) of the datasets' samples i."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError("StackDataset takes datasets either all by position or all by name")
        self.datasets: Any = kwargs if kwargs else args
        sizes = {len(d) for d in (kwargs.values() if kwargs else args)}
        if len(sizes) > 1:
            raise ValueError(f"Size mismatch between datasets: {sorted(sizes)}")
        self._length = sizes.pop()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        if not isinstance(self.datasets, dict):
            columns = [_many(dataset, indices) for dataset in self.datasets]
            return list(zip(*columns, strict=True))
        names = list(self.datasets)
        columns = [_many(self.datasets[name], indices) for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


def _many(dataset: Any, indices: list[int]) -> list[Any]:
    """The samples at `indices`, at once if the dataset can."""
    many = getattr(dataset, "__getitems__", None)
    if many is None:
        return [dataset[i] for i in indices]
    found = many(indices)
    if len(found) != len(indices):
        raise ValueError(
            f"{type(dataset).__name__}.__getitems__ returned {len(found)} samples for "
            f"{len(indices)} indices"
        )
    return found


class ConcatDataset(Dataset[T_co]):
    """The samples of several datasets, one after the other."""

    def __init__(self, datasets: Iterable[Dataset[T_co]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("datasets should not be an empty iterable")
        for dataset in self.datasets:
            if isinstance(dataset, IterableDataset):
                raise TypeError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(itertools.accumulate(len(d) for d in self.datasets))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> T_co:
        size = len(self)
        if not -size <= idx < size:
            raise IndexError(f"index {idx} is out of range for a dataset of {size} samples")
        idx %= size
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][idx - before]


class ChainDataset(IterableDataset[Any]):
    """The samples of several streams, one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        super().__init__()
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise TypeError("ChainDataset only supports IterableDataset")
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)


class Subset(Dataset[T_co]):
    """The samples of `dataset` at `indices`."""

    def __init__(self, dataset: Dataset[T_co], indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return _many(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[float], generator: Any = None
) -> list[Subset[Any]]:
    """Split into parts that do not overlap, in random order.

    Args:
        lengths: sizes that sum to the dataset's, or fractions that sum to 1 (what rounding leaves
            goes to the first parts, one each).
        generator: of the permutation; the default generator otherwise.

    Raises:
        ValueError: the lengths do not sum to the dataset's length, or one is negative.
    """
    size = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        for i, fraction in enumerate(lengths):
            if not 0 <= fraction <= 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1")
        counts = [math.floor(size * fraction) for fraction in lengths]
        for i in range(size - sum(counts)):
            counts[i % len(counts)] += 1
        for i, count in enumerate(counts):
            if count == 0:
                warnings.warn(
                    f"Length of split at index {i} is 0. This might result in an empty dataset.",
                    stacklevel=2,
                )
    else:
        counts = [int(n) for n in lengths]
    if min(counts, default=0) < 0:
        raise ValueError(f"lengths must be at least 0, got {list(lengths)}")
    if sum(counts) != size:
        raise ValueError(
            f"the sum of input lengths is {sum(lengths)}, the dataset has {size} samples"
        )
    order = facula.randperm(size, generator=generator, device="cpu").tolist()
    ends = itertools.accumulate(counts)
    return [Subset(dataset, order[end - n : end]) for end, n in zip(ends, counts, strict=True)]
