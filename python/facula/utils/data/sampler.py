"""Samplers: the order in which indices are visited, and how they form batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import facula

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

T_co = TypeVar("T_co", covariant=True)


def _positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} should be a boolean value, but got {name}={value}")
    return value


def new_seed(generator: Any = None) -> int:
    """Draw a seed; the state of the generator moves on by one number."""
    return int(
        facula.randint(
            0, 2**63 - 1, (), dtype=facula.int64, generator=generator, device="cpu"
        ).item()
    )


class Sampler(Generic[T_co]):
    """Base class: a subclass defines `__iter__` and, mostly, `__len__`."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__()")


class SequentialSampler(Sampler[int]):
    """0, 1, ..., len(data_source) - 1."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """A new permutation at each pass, or draws with replacement.

    Args:
        num_samples: how many to give; len(data_source) by default.
        generator: seeded by the caller for repeatable orders.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Any = None,
    ) -> None:
        self.data_source, self.generator = data_source, generator
        self.replacement = _flag("replacement", replacement)
        self._num_samples = num_samples
        if num_samples is not None:
            _positive("num_samples", num_samples)

    @property
    def num_samples(self) -> int:
        """How many indices one pass gives."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, wanted = len(self.data_source), self.num_samples
        generator = self.generator
        if generator is None:
            # A generator of its own: what runs during the pass does not change the order.
            generator = facula.Generator()
            generator.manual_seed(new_seed())
        if self.replacement:
            for start in range(0, wanted, 1024):
                count = min(1024, wanted - start)
                yield from facula.randint(
                    0, n, (count,), dtype=facula.int64, generator=generator, device="cpu"
                ).tolist()
            return
        given = 0
        while n and given < wanted:
            order = facula.randperm(n, generator=generator, device="cpu").tolist()[: wanted - given]
            yield from order
            given += len(order)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in a new random order at each pass."""

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        for i in facula.randperm(
            len(self.indices), generator=self.generator, device="cpu"
        ).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with probabilities proportional to `weights`."""

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Any = None,
    ) -> None:
        self.num_samples = _positive("num_samples", num_samples)
        self.replacement = _flag("replacement", replacement)
        self.weights = facula.as_tensor(weights, dtype=facula.float64, device="cpu")
        if self.weights.dim() != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given shape {tuple(self.weights.shape)}"
            )
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        yield from facula.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        ).tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` of a sampler's indices; drop_last leaves out an incomplete one."""

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool) -> None:
        self.sampler: Iterable[int] = sampler
        self.batch_size = _positive("batch_size", batch_size)
        self.drop_last = _flag("drop_last", drop_last)

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        size = len(self.sampler)  # type: ignore[arg-type]
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)
