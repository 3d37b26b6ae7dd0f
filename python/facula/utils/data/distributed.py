"""The share of a dataset that one of several processes reads."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized
from typing import Any

import facula
from facula.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index, from `rank` on, of one order that all replicas know.

    Args:
        dataset: of a length that does not change.
        num_replicas, rank: how many processes share it, and which this one is; those of the process
            group by default.
        shuffle: in an order that follows from seed + epoch; call `set_epoch` before each pass.
        seed: the same in all processes.
        drop_last: leave out what does not divide; else the first indices come twice, so that all
            replicas have the same number.

    Raises:
        ValueError: rank is not below num_replicas. RuntimeError: no process group to ask.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            group = _process_group()
            num_replicas = group.get_world_size() if num_replicas is None else num_replicas
            rank = group.get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0
        size = len(dataset)
        self.num_samples = size // num_replicas if drop_last else -(-size // num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        size = len(self.dataset)
        order = list(range(size))
        if self.shuffle:
            generator = facula.Generator().manual_seed(self.seed + self.epoch)
            order = facula.randperm(size, generator=generator, device="cpu").tolist()
        if size and self.total_size > size:
            order = (order * math.ceil(self.total_size / size))[: self.total_size]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Another order for each `epoch`, the same in all processes."""
        self.epoch = epoch


def _process_group() -> Any:
    group = getattr(facula, "distributed", None)
    if group is None or not group.is_available() or not group.is_initialized():
        raise RuntimeError(
            "DistributedSampler: there is no process group to ask: give num_replicas and rank"
        )
    return group
