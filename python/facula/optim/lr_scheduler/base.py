"""`LRScheduler`, the base of all schedules."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from facula.optim.optimizer import Optimizer

__all__ = ["LRScheduler"]


def checked_optimizer(optimizer: Any) -> Any:
    if not hasattr(optimizer, "param_groups"):
        raise TypeError(f"optimizer must be an Optimizer, not {type(optimizer).__name__}")
    return optimizer


class LRScheduler:
    """Base class: a subclass defines `get_lr`, the rates for the epoch `self.last_epoch`.

    Args:
        optimizer: whose groups' "lr" is set.
        last_epoch: -1 to start, else the last epoch done (groups then need "initial_lr"). A
            schedule that multiplies the current rate takes the one that the groups hold as that of
            the epoch that begins: an optimizer's state, loaded, holds it.
    """

    # Whether `get_lr` makes a rate from the last one; then none is made of a rate that was loaded.
    _follows_current = False

    def __init__(self, optimizer: Any, last_epoch: int = -1) -> None:
        self.optimizer = checked_optimizer(optimizer)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming"
                )
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._last_lr: list[float] = []
        self._begin()

    def _begin(self) -> None:
        """Enter the first epoch, which a loaded optimizer may have entered already."""
        if self.last_epoch >= 0 and self._follows_current:
            self.last_epoch += 1
            self._last_lr = self._current()
        else:
            self.step()

    def get_lr(self) -> list[float]:
        """Compute the rate of each group for `last_epoch`."""
        raise NotImplementedError

    def get_last_lr(self) -> list[float]:
        """The rates that the last `step` set."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch and set the rates.

        `epoch` jumps to that epoch; this needs a closed form where the schedule has one.
        """
        if epoch is None:
            self.last_epoch += 1
            if self.last_epoch == 1 and self._last_lr and _never_stepped(self.optimizer):
                warnings.warn(
                    f"{type(self).__name__}.step() comes before the optimizer's first step(): the "
                    "first rate of the schedule is skipped; call optimizer.step() first",
                    stacklevel=2,
                )
            rates = self.get_lr()
        else:
            self.last_epoch = epoch
            closed = getattr(self, "_get_closed_form_lr", self.get_lr)
            rates = closed()
        self._set(rates)

    def _rewind(self) -> None:
        """Undo the first step, which is taken when a scheduler is made, but for the rates."""
        self.last_epoch -= 1

    def _set(self, rates: Sequence[float]) -> None:
        for group, lr in zip(self.optimizer.param_groups, rates, strict=False):
            group["lr"] = lr
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def _current(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimizer and functions."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer" and not is_function(v)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the attributes that `state_dict` returned."""
        self.__dict__.update(state_dict)


def _never_stepped(optimizer: Any) -> bool:
    """Whether the optimizer surely has not stepped; one with a `step` of its own may have."""
    own = getattr(type(optimizer), "step", None) is not Optimizer.step
    return not own and not getattr(optimizer, "_has_stepped", True)


def is_function(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and any(is_function(v) for v in value)
    return callable(value) or isinstance(value, LRScheduler)


def one_each(name: str, value: Any, count: int) -> list[float]:
    """One number for each group: `value` is that, or one number for all."""
    if isinstance(value, (list, tuple)):
        if len(value) != count:
            raise ValueError(f"expected {count} values for {name}, got {len(value)}")
        return list(value)
    return [value] * count
