"""One pass over a loader in this process, and what a pass with workers has too."""

from __future__ import annotations

import warnings
from typing import Any

from facula.utils.data._utils import fetch
from facula.utils.data._utils.pin_memory import device_to_pin_for, pin_memory
from facula.utils.data.sampler import new_seed


class _BaseDataLoaderIter:
    """What both have: the order of indices, and a seed of the pass."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._iterable = loader._iterable
        self._fetching = (
            self._iterable,
            loader._auto_collation,
            loader.collate_fn,
            loader.drop_last,
        )
        self._pin_device = None
        if loader.pin_memory:
            self._pin_device = device_to_pin_for(loader.pin_memory_device)
        self._begin()

    def _begin(self) -> None:
        self._sampler_iter = iter(self._loader._index_sampler)
        # Drawn without workers too, so that the order is the same at any number of them.
        self._base_seed = new_seed(self._loader.generator)
        self._num_yielded = 0

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def __len__(self) -> int:
        return len(self._loader._index_sampler)

    def __next__(self) -> Any:
        value = self._next_data()
        self._num_yielded += 1
        expected = self._loader._length_asked
        if self._iterable and expected is not None and self._num_yielded == expected + 1:
            warnings.warn(
                f"Length of IterableDataset {type(self._loader.dataset).__name__} was reported to "
                f"be {expected} (when accessing len(dataloader)), but more batches have been "
                "fetched: with workers, each yields the whole dataset unless its __iter__ asks "
                "get_worker_info() for its share",
                stacklevel=2,
            )
        return value

    def _next_data(self) -> Any:
        raise NotImplementedError


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Reads each batch when it is asked for."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        iterable, *rest = self._fetching
        self._fetcher = fetch.create(iterable, loader.dataset, *rest)

    def _next_data(self) -> Any:
        value = self._fetcher.fetch(next(self._sampler_iter))
        return value if self._pin_device is None else pin_memory(value, self._pin_device)
