"""Schedules made of others, and the one that follows a metric."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from facula.optim.lr_scheduler.base import LRScheduler, checked_optimizer, one_each

__all__ = ["ChainedScheduler", "ReduceLROnPlateau", "SequentialLR"]


class _Composed(LRScheduler):
    """A scheduler of others."""

    _schedulers: list[Any]

    def _check(self, optimizer: Any, schedulers: Sequence[Any]) -> None:
        name = type(self).__name__
        if not schedulers:
            raise ValueError(f"{name} expects at least one scheduler")
        for i, scheduler in enumerate(schedulers):
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name}: scheduler {i} is a ReduceLROnPlateau, whose step() needs a metric; "
                    "step it on its own"
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(f"scheduler {i} belongs to another optimizer")

    def state_dict(self) -> dict[str, Any]:
        """Attributes, and the state of each scheduler."""
        state = super().state_dict()
        state["_schedulers"] = [s.state_dict() for s in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        state = dict(state_dict)
        for scheduler, saved in zip(self._schedulers, state.pop("_schedulers"), strict=True):
            scheduler.load_state_dict(saved)
        self.__dict__.update(state)


class SequentialLR(_Composed):
    """Runs one scheduler after the other, changing at the milestones."""

    def __init__(
        self,
        optimizer: Any,
        schedulers: Sequence[Any],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        self._check(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "SequentialLR expects one milestone fewer than schedulers, got "
                f"{len(schedulers)} schedulers and {len(milestones)} milestones"
            )
        self._schedulers, self._milestones = list(schedulers), list(milestones)
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        if last_epoch >= 0:
            # Each may have changed the rate when it was made: the one whose turn it is says it.
            turn, begin = self._turn()
            self._schedulers[turn].step(self.last_epoch - begin)
            self._last_lr = self._schedulers[turn].get_last_lr()
            return
        # Each scheduler took its first step when it was made: start over with the first alone.
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for scheduler in self._schedulers:
            scheduler._rewind()
        self._schedulers[0].step()
        self._last_lr = self._schedulers[0].get_last_lr()

    def _turn(self) -> tuple[int, int]:
        """Which scheduler's turn it is, and the epoch at which that began."""
        turn = bisect_right(self._milestones, self.last_epoch)
        return turn, self._milestones[turn - 1] if turn else 0

    def _rewind(self) -> None:
        # Of its schedulers the first alone has begun.
        self.last_epoch -= 1
        self._schedulers[0]._rewind()

    def step(self, epoch: int | None = None) -> None:
        """Step the scheduler whose turn it is; at its milestone it starts from epoch 0."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        turn, begin = self._turn()
        scheduler = self._schedulers[turn]
        if epoch is not None or (turn > 0 and begin == self.last_epoch):
            scheduler.step(self.last_epoch - begin)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Composed):
    """Steps all of its schedulers at once."""

    def __init__(self, schedulers: Sequence[Any], optimizer: Any = None) -> None:
        self.optimizer = optimizer
        if optimizer is None and schedulers:
            self.optimizer = schedulers[0].optimizer
        self._check(self.optimizer, schedulers)
        self._schedulers = list(schedulers)
        self._last_lr = self._current()

    def _rewind(self) -> None:
        for scheduler in self._schedulers:
            scheduler._rewind()

    def step(self, epoch: int | None = None) -> None:
        """Step every scheduler; `epoch` jumps there, where the factors of all are multiplied."""
        if epoch is None:
            for scheduler in self._schedulers:
                scheduler.step()
            self._last_lr = self._current()
            return
        start = [group["initial_lr"] for group in self.optimizer.param_groups]
        rates = list(start)
        for scheduler in self._schedulers:
            self._set(start)
            scheduler.step(epoch)
            pairs = zip(rates, self._current(), start, strict=True)
            rates = [rate * now / first if first else now for rate, now, first in pairs]
        self._set(rates)


class ReduceLROnPlateau(LRScheduler):
    """Times factor when a metric has not become better for `patience` epochs.

    Args:
        mode: "min" or "max": which way is better.
        threshold: how much better counts, relative ("rel") or absolute ("abs").
        cooldown: epochs after a reduction in which nothing is counted.
        min_lr: lower bound, one number or one for each group.
        eps: smaller changes of the rate are not made.
    """

    def __init__(
        self,
        optimizer: Any,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: Any = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError(f"factor must be below 1, not {factor}")
        if mode not in ("min", "max"):
            raise ValueError(f"mode must be 'min' or 'max', not {mode!r}")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold_mode must be 'rel' or 'abs', not {threshold_mode!r}")
        self.optimizer = checked_optimizer(optimizer)
        self.mode, self.factor, self.patience = mode, factor, patience
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.cooldown, self.eps = cooldown, eps
        self.min_lrs = one_each("min_lr", min_lr, len(optimizer.param_groups))
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.best = math.inf if mode == "min" else -math.inf
        self.cooldown_counter = self.num_bad_epochs = 0
        self.last_epoch = 0
        self._last_lr = self._current()

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take the epoch's metric into account."""
        current = float(metrics)
        if epoch is not None:
            warnings.warn("the epoch argument is deprecated", DeprecationWarning, stacklevel=2)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._current()

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"the optimizer now has {len(groups)} groups, but min_lr was a list of "
                    f"{len(self.min_lrs)}"
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, low in zip(groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, low)
            if old - new > self.eps:
                group["lr"] = new

    @property
    def in_cooldown(self) -> bool:
        """Whether a reduction was made less than `cooldown` epochs ago."""
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """Whether `a` improves on `best` by more than the threshold."""
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "rel":
            return sign * a < sign * best * (1.0 - sign * self.threshold)
        return sign * a < sign * best - self.threshold
