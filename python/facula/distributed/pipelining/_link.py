"""Tensors that one stage hands to the next, or gradients back."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import facula
from facula import Tensor
from facula.distributed._group import ProcessGroup
from facula.distributed._point_to_point import irecv, isend

__all__ = ["Link"]

_MOST, _DIMS = 16, 8  # tensors in one message, dimensions of each
_WIDTH = 3 + _DIMS
_DTYPES = sorted({d for d in vars(facula).values() if isinstance(d, facula.dtype)}, key=str)


class Link:
    """One way from a stage to another: what is sent first comes first.

    Each message is a head, that tells shapes and dtypes, and the tensors. Both ends in one process
    share the object.

    Args:
        group: of the stages' processes.
        peer: the rank in it of the other end.
        tag: of all messages of the link.
    """

    def __init__(self, group: ProcessGroup, peer: int, tag: int) -> None:
        self._group, self._peer, self._tag = group, peer, tag
        self._here: deque[list[tuple[Tensor, bool]]] | None = None
        if peer == group.rank():
            self._here = deque()
        self._sent: list[Any] = []

    def send(self, tensors: Sequence[Tensor]) -> None:
        """Sends tensors; they are not to be written until `finish`."""
        if self._here is not None:
            self._here.append([(t.detach(), t.requires_grad) for t in tensors])
            return
        head = facula.zeros(1 + _MOST * _WIDTH, dtype=facula.int64)
        if len(tensors) > _MOST or any(t.dim() > _DIMS for t in tensors):
            raise ValueError(
                f"PipelineStage: {len(tensors)} tensors go to the next stage; at most {_MOST} of"
                f" {_DIMS} dimensions can"
            )
        numbers = [len(tensors)]
        for t in tensors:
            shape = [*t.shape, *[0] * (_DIMS - t.dim())]
            numbers += [_DTYPES.index(t.dtype), int(t.requires_grad), t.dim(), *shape]
        head[: len(numbers)] = facula.tensor(numbers)
        for t in (head, *tensors):
            if t.numel():
                self._sent.append(
                    isend(t.detach(), group=self._group, group_dst=self._peer, tag=self._tag)
                )

    def receive(self) -> list[tuple[Tensor, bool]]:
        """The next tensors, and whether each wants a gradient."""
        if self._here is not None:
            return self._here.popleft()
        head = facula.empty(1 + _MOST * _WIDTH, dtype=facula.int64)
        self._filled(head)
        count, *numbers = head.tolist()
        found = []
        for i in range(count):
            kind, wants, dims, *shape = numbers[i * _WIDTH : (i + 1) * _WIDTH]
            t = facula.empty(shape[:dims], dtype=_DTYPES[kind])
            if t.numel():
                self._filled(t)
            found.append((t, bool(wants)))
        return found

    def _filled(self, t: Tensor) -> None:
        work = irecv(t, group=self._group, group_src=self._peer, tag=self._tag)
        assert work is not None
        work.wait()

    def finish(self) -> None:
        """Waits until all that was sent has gone."""
        for work in self._sent:
            work.wait()
        self._sent = []
