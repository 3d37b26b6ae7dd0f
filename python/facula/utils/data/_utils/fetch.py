"""Read the samples of a batch and join them, in this process or in a worker."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["Indexed", "Stream", "create"]


class Indexed:
    """Batches of a dataset with `__getitem__`, for lists of indices (or single ones)."""

    def __init__(self, dataset: Any, batched: bool, collate_fn: Any, drop_last: bool) -> None:
        self.dataset, self.batched, self.collate_fn = dataset, batched, collate_fn
        self.many = getattr(dataset, "__getitems__", None) if batched else None

    def fetch(self, indices: Any) -> Any:
        """The batch of the samples at `indices`."""
        if not self.batched:
            return self.collate_fn(_sample(self.dataset, indices))
        if self.many is not None:
            samples = self.many(indices)
            if len(samples) != len(indices):
                raise RuntimeError(
                    f"{type(self.dataset).__name__}.__getitems__ returned {len(samples)} "
                    f"samples for {len(indices)} indices"
                )
        else:
            samples = _samples(self.dataset, indices)
        try:
            return self.collate_fn(samples)
        except Exception as error:
            _note(error, f"while joining the samples {list(indices)} into a batch")
            raise


class Stream:
    """Batches of an IterableDataset; StopIteration at its end."""

    def __init__(self, dataset: Any, batched: bool, collate_fn: Any, drop_last: bool) -> None:
        self.samples: Iterator[Any] = iter(dataset)
        self.batched, self.collate_fn, self.drop_last = batched, collate_fn, drop_last
        self.ended = False

    def fetch(self, indices: Any) -> Any:
        """The next batch, of as many samples as there are indices."""
        if self.ended:
            raise StopIteration
        if not self.batched:
            return self.collate_fn(next(self.samples))
        batch: list[Any] = []
        for _ in indices:
            try:
                batch.append(next(self.samples))
            except StopIteration:
                self.ended = True
                break
        if not batch or (self.drop_last and len(batch) < len(indices)):
            raise StopIteration
        return self.collate_fn(batch)


def create(
    iterable: bool, dataset: Any, batched: bool, collate_fn: Any, drop_last: bool
) -> Indexed | Stream:
    """The fetcher of this kind of dataset."""
    return (Stream if iterable else Indexed)(dataset, batched, collate_fn, drop_last)


def _samples(dataset: Any, indices: Iterable[Any]) -> list[Any]:
    index = None
    try:
        samples = []
        for index in indices:
            samples.append(dataset[index])
        return samples
    except StopIteration as error:
        # It would end the loop over the loader.
        raise RuntimeError(f"{type(dataset).__name__}[{index}] raised StopIteration") from error
    except Exception as error:
        _note(error, f"while reading sample {index} of {type(dataset).__name__}")
        raise


def _sample(dataset: Any, index: Any) -> Any:
    return _samples(dataset, (index,))[0]


def _note(error: BaseException, text: str) -> None:
    if hasattr(error, "add_note"):
        with contextlib.suppress(Exception):
            error.add_note(text)
