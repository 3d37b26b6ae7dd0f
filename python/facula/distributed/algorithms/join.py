"""Training on uneven inputs: whoever has none left goes on with the others' collectives.

A process that has no more batches leaves the loop, and in `Join.__exit__` repeats, with nothing of
its own, what the others do in each of their iterations, until all have left.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple

import facula
from facula.distributed._collectives import all_reduce
from facula.distributed._work import Work

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a process without inputs does for one `Joinable`."""

    def main_hook(self) -> None:
        """The collectives of one iteration of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Once, when all have left the loop.

        Args:
            is_last_joiner: was this process among the last ones?
        """


class _Config(NamedTuple):
    enable: bool
    throw_on_early_termination: bool
    is_first: bool


class Joinable(ABC):
    """What does collectives in each iteration, and can take part in `Join`."""

    _join_config = _Config(False, False, False)

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process without inputs does; `kwargs` are those of `Join`."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """Where the tensors of its collectives are."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The processes of its collectives."""


class Join:
    """Within it, processes may do different numbers of iterations.

    Args:
        joinables: in the order of their collectives, such as `[ddp, zero]`; the first one calls
            `Join.notify_join_context(self)` before the collectives of each iteration.
        enable: False: the context does nothing.
        throw_on_early_termination: raise in all processes as soon as one has no inputs left.
        kwargs: for all `join_hook`.

    Raises:
        ValueError: no joinables, or of several groups or devices. TypeError: one is none.
        RuntimeError: with throw_on_early_termination, when a process has left the loop.
    """

    def __init__(
        self,
        joinables: Sequence[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("Join: joinables is empty; give one or more")
        for j in joinables:
            if not isinstance(j, Joinable):
                raise TypeError(f"Join: {type(j).__name__} is no Joinable")
        first = joinables[0]
        for j in joinables[1:]:
            if j.join_process_group is not first.join_process_group:
                raise ValueError("Join: the joinables have several groups; give them one")
            if j.join_device != first.join_device:
                raise ValueError(
                    f"Join: the joinables are on {first.join_device} and {j.join_device}; give"
                    " them one device"
                )
        self._joinables, self._enable = list(joinables), enable
        self._throw = throw_on_early_termination
        self._group, self._device = first.join_process_group, first.join_device
        self._hooks = [j.join_hook(**kwargs) for j in joinables] if enable else []

    def __enter__(self) -> Join:
        for i, j in enumerate(self._joinables):
            j._join_config = _Config(self._enable, self._throw, i == 0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for j in self._joinables:
            j._join_config = Joinable._join_config
        if not self._enable or error is not None:
            return
        is_last = True
        while True:
            left = facula.zeros(1, device=self._device)
            all_reduce(left, group=self._group)
            if not left.item():
                break
            if self._throw:
                all_reduce(facula.ones(1, device=self._device), group=self._group)
                raise _ended()
            is_last = False
            for hook in self._hooks:
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(is_last)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Work | None:
        """Says that this process begins an iteration.

        Returns:
            for the first joinable of a context a `Work`, whose result is how many processes do;
            else None.
        """
        config = joinable._join_config
        if not (config.enable and config.is_first):
            return None
        group, device = joinable.join_process_group, joinable.join_device
        work = all_reduce(facula.ones(1, device=device), group=group, async_op=True)
        if config.throw_on_early_termination:
            ended = facula.zeros(1, device=device)
            all_reduce(ended, group=group)
            if ended.item():
                raise _ended()
        return work


def _ended() -> RuntimeError:
    return RuntimeError("Join: a process has no inputs left, so all end here")
