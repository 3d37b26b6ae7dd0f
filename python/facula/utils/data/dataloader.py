"""`DataLoader`: iterate over a dataset in batches, in this process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import facula
from facula import backends
from facula.utils.data.collate import default_collate, default_convert
from facula.utils.data.dataset import IterableDataset
from facula.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler

__all__ = ["DataLoader", "WorkerInfo", "get_worker_info"]


class WorkerInfo(NamedTuple):
    """What a worker process knows about itself."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


def get_worker_info() -> WorkerInfo | None:
    """In a worker process its WorkerInfo, else None: here always None."""
    return None


class _Endless:
    """Sampler of an IterableDataset: its indices mean nothing."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader:
    """Batches of a dataset's samples.

    Args:
        dataset: a Dataset (`__getitem__`, `__len__`) or an IterableDataset.
        batch_size: samples in a batch; None gives single samples.
        shuffle: a new random order at each pass.
        sampler: the order of indices; batch_sampler: lists of indices. Each excludes the options
            that it replaces.
        num_workers: 0; worker processes are not implemented.
        collate_fn: list of samples to batch, `default_collate` by default.
        pin_memory, timeout, worker_init_fn, multiprocessing_context, prefetch_factor,
            persistent_workers: about workers and devices; without workers they do nothing.
        drop_last: leave out a last batch that is not full.
        generator: of the shuffled order; seed it for repeatable runs.

    An error in the dataset arrives as it was raised, with a note (Python 3.11 or later) that names
    the index.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        if num_workers < 0:
            raise ValueError(f"num_workers should be non-negative, got {num_workers}")
        if num_workers > 0:
            raise NotImplementedError(
                f"DataLoader(num_workers={num_workers}): worker processes are not implemented yet; "
                "use num_workers=0, which loads in this process"
            )
        if timeout < 0:
            raise ValueError(f"timeout should be non-negative, got {timeout}")
        if prefetch_factor is not None or persistent_workers:
            raise ValueError("prefetch_factor and persistent_workers need num_workers > 0")
        self.dataset, self.num_workers, self.generator = dataset, num_workers, generator
        self.pin_memory, self.timeout, self.worker_init_fn = pin_memory, timeout, worker_init_fn
        self.pin_memory_device = pin_memory_device
        self._iterable = isinstance(dataset, IterableDataset)
        if self._iterable:
            if shuffle:
                raise ValueError("an IterableDataset has its own order: shuffle must not be True")
            if sampler is not None or batch_sampler is not None:
                raise ValueError("an IterableDataset has its own order: it takes no sampler")
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                    "and drop_last"
                )
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None gives single samples: it excludes drop_last")
        if sampler is None:
            if self._iterable:
                sampler = _Endless()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    def __iter__(self) -> Iterator[Any]:
        batches = self._stream() if self._iterable else self._indexed()
        return map(self._pinned, batches) if self._pins() else batches

    def _pins(self) -> bool:
        """Pinning is for a device that copies in the background; without one it does nothing."""
        if not self.pin_memory:
            return False
        device = self.pin_memory_device or backends.current_accelerator()
        self._pin_device = device
        return bool(device) and backends.info(facula.device(device).type)["pins"]

    def _pinned(self, value: Any) -> Any:
        if isinstance(value, facula.Tensor):
            return value.pin_memory(self._pin_device) if value.device.type == "cpu" else value
        if hasattr(value, "pin_memory"):
            return value.pin_memory()
        if isinstance(value, Mapping):
            return type(value)({k: self._pinned(v) for k, v in value.items()})
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(self._pinned, value))
        if isinstance(value, (tuple, list)):
            return type(value)(map(self._pinned, value))
        return value

    def __len__(self) -> int:
        """Number of batches; TypeError if the dataset or the sampler has no length."""
        if not self._iterable:
            return len(self.batch_sampler if self._auto_collation else self.sampler)
        size = len(self.dataset)
        if self.batch_size is None:
            return size
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)

    def _stream(self) -> Iterator[Any]:
        samples = iter(self.dataset)
        if not self._auto_collation:
            for sample in samples:
                yield self.collate_fn(sample)
            return
        assert self.batch_size is not None
        batch: list[Any] = []
        for sample in samples:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.collate_fn(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.collate_fn(batch)

    def _indexed(self) -> Iterator[Any]:
        if not self._auto_collation:
            for index in self.sampler:
                yield self.collate_fn(_sample(self.dataset, index))
            return
        many = getattr(self.dataset, "__getitems__", None)
        for indices in self.batch_sampler:
            if many is not None:
                samples = many(indices)
                if len(samples) != len(indices):
                    raise RuntimeError(
                        f"{type(self.dataset).__name__}.__getitems__ returned {len(samples)} "
                        f"samples for {len(indices)} indices"
                    )
            else:
                samples = [_sample(self.dataset, i) for i in indices]
            yield self._collated(samples, indices)

    def _collated(self, samples: list[Any], indices: Iterable[Any]) -> Any:
        try:
            return self.collate_fn(samples)
        except Exception as error:
            _note(error, f"while joining the samples {list(indices)} into a batch")
            raise


def _sample(dataset: Any, index: Any) -> Any:
    try:
        return dataset[index]
    except Exception as error:
        _note(error, f"while reading sample {index} of {type(dataset).__name__}")
        raise


def _note(error: BaseException, text: str) -> None:
    if hasattr(error, "add_note"):
        with contextlib.suppress(Exception):
            error.add_note(text)
