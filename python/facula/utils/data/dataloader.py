"""`DataLoader`: iterate over a dataset in batches, with worker processes or without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from facula.utils.data._utils.collate import default_collate, default_convert
from facula.utils.data._utils.info import WorkerInfo, get_worker_info
from facula.utils.data._utils.iterators import _BaseDataLoaderIter, _SingleProcessDataLoaderIter
from facula.utils.data.dataset import IterableDataset
from facula.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler

__all__ = ["DataLoader", "WorkerInfo", "get_worker_info"]

T_co = TypeVar("T_co", covariant=True)

# They decide what a pass gives: another value after the loader was made would do half of it.
_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _InfiniteConstantSampler:
    """Sampler of an IterableDataset: its indices mean nothing."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[T_co]):
    """Batches of a dataset's samples.

    Args:
        dataset: a Dataset (`__getitem__`, `__len__`) or an IterableDataset.
        batch_size: samples in a batch; None gives single samples.
        shuffle: a new random order at each pass.
        sampler: the order of indices; batch_sampler: lists of indices. Each excludes the options
            that it replaces.
        num_workers: processes that read samples and make batches; 0 does it in this one.
        collate_fn: list of samples to batch, `default_collate` by default.
        pin_memory: copy batches to page-locked memory, in a thread if there are workers. Without a
            device that copies from there it does nothing.
        drop_last: leave out a last batch that is not full.
        timeout: seconds to wait for a batch of the workers; 0 waits for ever.
        worker_init_fn: called with its number in each worker, after seeding and before it reads.
        multiprocessing_context: how workers start: "fork", "spawn", "forkserver" or a context of
            `facula.multiprocessing`; Python's default otherwise.
        generator: of the shuffled order and of the workers' base seed.
        prefetch_factor: batches that each worker makes ahead, 2 by default.
        persistent_workers: keep the workers, and their copies of the dataset, between passes.
        in_order: batches come in the sampler's order; False gives them as they are made.

    Batches and their order do not depend on num_workers. Worker i seeds Python's `random`, NumPy
    (if it is imported) and facula with base seed + i; the base seed is drawn from `generator` when
    the workers start.

    An error in the dataset arrives as it was raised, with a note (Python 3.11 or later) that names
    the index, and with the worker's traceback as its cause. A worker that dies raises RuntimeError
    with its pid and signal, and so does one that takes longer than `timeout`; the next pass starts
    new workers.
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
            raise ValueError(
                f"num_workers should be non-negative, got {num_workers}; 0 loads in this process"
            )
        if timeout < 0:
            raise ValueError(f"timeout should be non-negative, got {timeout}")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing: let "
                "num_workers > 0 to enable it"
            )
        if prefetch_factor is not None and prefetch_factor <= 0:
            raise ValueError(f"prefetch_factor should be positive, got {prefetch_factor}")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        self.dataset, self.num_workers, self.generator = dataset, num_workers, generator
        self.pin_memory, self.timeout, self.worker_init_fn = pin_memory, timeout, worker_init_fn
        self.pin_memory_device, self.in_order = pin_memory_device, in_order
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self.multiprocessing_context = multiprocessing_context
        self._iterator: Any = None
        # Of a stream, once someone asked how long it says it is.
        self._length_asked: int | None = None
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
                sampler = _InfiniteConstantSampler()
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
        self._complete = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and self.__dict__.get("_complete"):
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized: "
                "make another loader"
            )
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """The context that starts the workers, or None: Python's default."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            from facula import multiprocessing

            if self.num_workers == 0:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading "
                    f"(num_workers > 0), but got num_workers={self.num_workers}"
                )
            if isinstance(context, str):
                known = multiprocessing.get_all_start_methods()
                if context not in known:
                    raise ValueError(
                        "multiprocessing_context option should specify a valid start method in "
                        f"{known}, but got multiprocessing_context={context!r}"
                    )
                context = multiprocessing.get_context(context)
            elif not hasattr(context, "Process"):
                raise TypeError(
                    "multiprocessing_context option should be a valid context object or a string "
                    f"specifying the start method, but got {context!r}"
                )
        self._context = context

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __iter__(self) -> _BaseDataLoaderIter:
        if not self.num_workers:
            return _SingleProcessDataLoaderIter(self)
        # Sockets, processes and threads are imported by those who have workers.
        from facula.utils.data._utils.parallel import _MultiProcessingDataLoaderIter

        if not self.persistent_workers:
            return _MultiProcessingDataLoaderIter(self)
        iterator = self._iterator
        if iterator is None or not iterator.usable():
            self._iterator = iterator = _MultiProcessingDataLoaderIter(self)
        else:
            iterator.reset()
        return iterator

    def __getstate__(self) -> dict[str, Any]:
        # Workers stay with this process, for a copy as for a pickle.
        return {**self.__dict__, "_iterator": None}

    def __len__(self) -> int:
        """Number of batches; TypeError if the dataset or the sampler has no length."""
        if not self._iterable:
            return len(self.batch_sampler if self._auto_collation else self.sampler)
        size = len(self.dataset)
        if self.batch_size is not None:
            size = size // self.batch_size if self.drop_last else -(-size // self.batch_size)
        self._length_asked = size
        return size


def __getattr__(name: str) -> Any:
    if name == "_MultiProcessingDataLoaderIter":
        from facula.utils.data._utils import parallel

        return parallel._MultiProcessingDataLoaderIter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
