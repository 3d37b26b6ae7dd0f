"""Averages gradients over processes while backward still runs.

Gradients go in buckets: as the last of a bucket is there, its all_reduce starts, beside the rest of
backward (S. Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training",
VLDB 2020). All processes start buckets in one order; after the first backward they are made anew,
in
the order in which gradients came on rank 0.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import facula
from facula import Tensor, distributed

Hook = Callable[[Any, "GradBucket"], Any]


class Bucket:
    """Gradients that go together, one after the other in one tensor."""

    def __init__(self, indices: Sequence[int], parameters: Sequence[Tensor]) -> None:
        self.indices = list(indices)
        first = parameters[self.indices[0]]
        sizes = [parameters[i].numel() for i in self.indices]
        self.flat = facula.zeros(sum(sizes), dtype=first.dtype, device=first.device)
        parts = self.flat.split(sizes)
        self.views = {
            i: part.view(parameters[i].shape) for i, part in zip(self.indices, parts, strict=True)
        }
        self.missing = set(self.indices)
        self.future: Any = None


class GradBucket:
    """What a communication hook is given: one bucket of gradients, not averaged yet."""

    def __init__(
        self, index: int, bucket: Bucket, parameters: Sequence[Tensor], is_last: bool
    ) -> None:
        self._index, self._bucket, self._is_last = index, bucket, is_last
        self._parameters = [parameters[i] for i in bucket.indices]

    def index(self) -> int:
        """Which of the buckets it is."""
        return self._index

    def buffer(self) -> Tensor:
        """All of its gradients as one tensor of one dimension."""
        return self._bucket.flat

    def set_buffer(self, tensor: Tensor) -> None:
        """Other values in place of the gradients."""
        self._bucket.flat.copy_(tensor)

    def gradients(self) -> list[Tensor]:
        """Its gradients, as parts of the buffer."""
        return [self._bucket.views[i] for i in self._bucket.indices]

    def parameters(self) -> list[Tensor]:
        """Whose they are."""
        return list(self._parameters)

    def is_last(self) -> bool:
        """Is it the last of this backward?"""
        return self._is_last


def in_buckets(
    order: Iterable[int], parameters: Sequence[Tensor], first: int, most: int
) -> list[Bucket]:
    """Buckets of at most `most` bytes, the first of `first`; dtypes and devices do not mix."""
    buckets: list[Bucket] = []
    open_: dict[Any, tuple[list[int], int]] = {}
    for i in order:
        p = parameters[i]
        key = (p.dtype, p.device)
        held, size = open_.pop(key, ([], 0))
        held.append(i)
        size += p.numel() * p.element_size()
        if size >= (most if buckets else first):
            buckets.append(Bucket(held, parameters))
        else:
            open_[key] = (held, size)
    return buckets + [Bucket(held, parameters) for held, _ in open_.values()]


class Reducer:
    """Averages the gradients of some parameters in each backward that is prepared.

    Args:
        names, parameters: whose gradients.
        group: of processes.
        sizes: bytes of the first bucket, and of the others.
        as_views: `p.grad` becomes a part of its bucket, which saves a copy and the memory.
    """

    def __init__(
        self,
        names: Sequence[str],
        parameters: Sequence[Tensor],
        group: Any,
        sizes: tuple[int, int],
        as_views: bool,
    ) -> None:
        self.names, self.parameters, self._group = list(names), list(parameters), group
        self._sizes, self._as_views = sizes, as_views
        self._buckets = in_buckets(reversed(range(len(names))), parameters, *sizes)
        self._place = self._places()
        self._lock = threading.RLock()
        self._active = self._rebuilt = False
        self._arrived: list[int] = []
        self._used: set[int] = set()
        self._next = 0
        self._unsure = False
        self.scale = 1.0  # of what is averaged
        self.hook: tuple[Any, Hook] | None = None
        self._handles = [
            p.register_post_accumulate_grad_hook(self._noted(i)) for i, p in enumerate(parameters)
        ]

    def _places(self) -> dict[int, Bucket]:
        return {i: bucket for bucket in self._buckets for i in bucket.indices}

    def _noted(self, index: int) -> Callable[[Tensor], None]:
        def noted(p: Tensor) -> None:
            if self._active:
                self._ready(index, used=True)

        return noted

    def check_finished(self) -> None:
        """Raises if the last backward did not bring all gradients."""
        if not self._active:
            return
        left = [self.names[i] for b in self._buckets for i in sorted(b.missing)]
        shown = ", ".join(left[:8]) + (f" and {len(left) - 8} more" if len(left) > 8 else "")
        raise RuntimeError(
            "DistributedDataParallel: the last backward brought no gradient of: "
            f"{shown}. The other processes wait for these. If parameters take no part in some"
            " losses,"
            " give find_unused_parameters=True; make sure that the whole output is used by the loss"
        )

    def prepare(self, unused: Iterable[int] | None, unsure: bool) -> None:
        """The next backward is averaged.

        Args:
            unused: which parameters it will not reach.
            unsure: may processes differ in what they reach?
        """
        with self._lock:
            if not self._active and self._arrived and not self._rebuilt:
                self._rebuild()
            for bucket in self._buckets:
                bucket.missing, bucket.future = set(bucket.indices), None
            self._arrived, self._used, self._next = [], set(), 0
            self._active, self._unsure = True, unsure
            for i in unused or ():
                self._ready(i, used=False)

    def keep_order(self) -> None:
        """Buckets are made anew no more: a process without gradients cannot take part in that."""
        self._rebuilt = True

    def add_nothing(self, unsure: bool) -> None:
        """This process's part of an average to which it has nothing to add."""
        self.prepare((), unsure)
        for p in self.parameters:
            p.grad = None
        for i in range(len(self.parameters)):
            self._ready(i, used=False, always=not unsure)

    def _rebuild(self) -> None:
        order = self._arrived if len(set(self._arrived)) == len(self.parameters) else None
        box = [order]
        distributed.broadcast_object_list(box, group=self._group, group_src=0)
        self._rebuilt = True
        if box[0] is not None:
            self._buckets = in_buckets(box[0], self.parameters, *self._sizes)
            self._place = self._places()

    def _ready(self, index: int, used: bool, always: bool = False) -> None:
        with self._lock:
            bucket = self._place[index]
            if index not in bucket.missing:
                return  # a second use of the parameter in one backward
            bucket.missing.discard(index)
            self._arrived.append(index)
            grad, view = self.parameters[index].grad, bucket.views[index]
            if used or always:
                self._used.add(index)
            if grad is None:
                view.zero_()
            elif grad.data_ptr() != view.data_ptr():
                with facula.no_grad():
                    view.copy_(grad)
            while self._next < len(self._buckets) and not self._buckets[self._next].missing:
                self._start(self._next)
                self._next += 1
            if self._next == len(self._buckets):
                self._finish()

    def _start(self, at: int) -> None:
        bucket = self._buckets[at]
        if self.hook is None:
            bucket.future = distributed.all_reduce(
                bucket.flat, distributed.ReduceOp.AVG, self._group, True
            )
            return
        state, hook = self.hook
        last = at == len(self._buckets) - 1
        bucket.future = hook(state, GradBucket(at, bucket, self.parameters, last))

    def _finish(self) -> None:
        self._active = False
        used = self._used
        if self._unsure:  # what no process reached keeps its gradient, or none
            marks = [int(i in used) for i in range(len(self.parameters))]
            flags = facula.tensor(marks, dtype=facula.uint8, device=self._group.carrier)
            distributed.all_reduce(flags, distributed.ReduceOp.MAX, self._group)
            used = {i for i, flag in enumerate(flags.tolist()) if flag}
        for bucket in self._buckets:
            value = bucket.future.wait()
            if self.hook is not None:
                value = value[0] if isinstance(value, (list, tuple)) else value
                if value is not bucket.flat:
                    bucket.flat.copy_(value.view_as(bucket.flat))
            if self.scale != 1:
                bucket.flat.mul_(self.scale)
            bucket.future = None
            for i in bucket.indices:
                if i in used:
                    self._take(self.parameters[i], bucket.views[i])

    def _take(self, p: Tensor, view: Tensor) -> None:
        if self._as_views:
            p.grad = view
        elif p.grad is None:
            p.grad = view.clone()
        else:
            with facula.no_grad():
                p.grad.copy_(view)

    def close(self) -> None:
        """Gradients are averaged no more."""
        for handle in self._handles:
            handle.remove()
