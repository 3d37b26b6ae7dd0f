"""Learning rate schedules: call `step()` after each epoch (or each batch) of optimizer steps.

The rates follow from the current ones step by step, so that schedulers on one optimizer chain.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


def _check_optimizer(optimizer: Any) -> Any:
    if not hasattr(optimizer, "param_groups"):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
    return optimizer


class LRScheduler:
    """Base class: a subclass defines `get_lr`, the rates for the epoch `self.last_epoch`.

    Args:
        optimizer: whose groups' "lr" is set.
        last_epoch: -1 to start, else the last epoch done (groups then need "initial_lr").
    """

    def __init__(self, optimizer: Any, last_epoch: int = -1) -> None:
        self.optimizer = _check_optimizer(optimizer)
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
            rates = self.get_lr()
        else:
            self.last_epoch = epoch
            closed = getattr(self, "_get_closed_form_lr", self.get_lr)
            rates = closed()
        self._set(rates)

    def _set(self, rates: Sequence[float]) -> None:
        for group, lr in zip(self.optimizer.param_groups, rates, strict=False):
            group["lr"] = lr
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def _current(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimizer and functions."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer" and not _is_function(v)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the attributes that `state_dict` returned."""
        self.__dict__.update(state_dict)


def _is_function(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and any(_is_function(v) for v in value)
    return callable(value) or isinstance(value, LRScheduler)


class _Lambdas(LRScheduler):
    def __init__(self, optimizer: Any, lr_lambda: Any, last_epoch: int = -1) -> None:
        count = len(_check_optimizer(optimizer).param_groups)
        if isinstance(lr_lambda, (list, tuple)):
            if len(lr_lambda) != count:
                raise ValueError(f"Expected {count} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas: list[Callable[[int], float]] = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * count
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """As LRScheduler; of callable objects (not functions) their attributes."""
        state = super().state_dict()
        state["lr_lambdas"] = [
            dict(fn.__dict__) if not hasattr(fn, "__code__") and hasattr(fn, "__dict__") else None
            for fn in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        state = dict(state_dict)
        for fn, saved in zip(self.lr_lambdas, state.pop("lr_lambdas", []), strict=False):
            if saved is not None:
                fn.__dict__.update(saved)
        super().load_state_dict(state)


class LambdaLR(_Lambdas):
    """initial_lr * lr_lambda(epoch); one function, or one for each group."""

    def get_lr(self) -> list[float]:
        return [
            base * fn(self.last_epoch)
            for base, fn in zip(self.base_lrs, self.lr_lambdas, strict=True)
        ]


class MultiplicativeLR(_Lambdas):
    """The current rate * lr_lambda(epoch), from epoch 1 on."""

    def get_lr(self) -> list[float]:
        if self.last_epoch <= 0:
            return self._current()
        return [
            lr * fn(self.last_epoch)
            for lr, fn in zip(self._current(), self.lr_lambdas, strict=True)
        ]


class StepLR(LRScheduler):
    """Times gamma every step_size epochs."""

    def __init__(
        self, optimizer: Any, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        if step_size <= 0:
            raise ValueError(f"step_size is {step_size}, expected a positive integer")
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._current()
        return [lr * self.gamma for lr in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        return [b * self.gamma ** (self.last_epoch // self.step_size) for b in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Times gamma at each of the milestones."""

    def __init__(
        self, optimizer: Any, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        times = self.milestones.get(self.last_epoch, 0)
        return [lr * self.gamma**times for lr in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        done = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**done for base in self.base_lrs]

    def state_dict(self) -> dict[str, Any]:
        """As LRScheduler."""
        return {**super().state_dict(), "milestones": dict(self.milestones)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        super().load_state_dict(state_dict)
        self.milestones = Counter(self.milestones)


class ConstantLR(LRScheduler):
    """Times factor until epoch total_iters, then the full rate."""

    def __init__(
        self,
        optimizer: Any,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 <= factor <= 1.0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self._current()]
        if self.last_epoch != self.total_iters:
            return self._current()
        return [lr * (1.0 / self.factor) for lr in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        now = self.factor if self.last_epoch < self.total_iters else 1.0
        return [base * now for base in self.base_lrs]


class LinearLR(LRScheduler):
    """The factor goes linearly from start_factor to end_factor over total_iters epochs."""

    def __init__(
        self,
        optimizer: Any,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1.0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or "
                "equal to 1."
            )
        if not 0 <= end_factor <= 1.0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in self._current()]
        if self.last_epoch > self.total_iters:
            return self._current()
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return [lr * (1.0 + rise / before) for lr in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        part = min(self.total_iters, self.last_epoch) / self.total_iters
        factor = self.start_factor + (self.end_factor - self.start_factor) * part
        return [base * factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Times gamma every epoch."""

    def __init__(self, optimizer: Any, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return self._current()
        return [lr * self.gamma for lr in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """initial_lr * (1 - epoch / total_iters)^power, 0 from total_iters on."""

    def __init__(
        self, optimizer: Any, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0 or self.last_epoch > self.total_iters:
            return self._current()
        left = 1.0 - self.last_epoch / self.total_iters
        before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return [lr * (left / before) ** self.power for lr in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        part = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (1.0 - part) ** self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """eta_min + (initial_lr - eta_min) (1 + cos(pi epoch / T_max)) / 2 (Loshchilov 2017)."""

    def __init__(
        self, optimizer: Any, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        epoch, period, low = self.last_epoch, self.T_max, self.eta_min
        if epoch == 0:
            return self._current()
        if (epoch - 1 - period) % (2 * period) == 0:
            # At the minimum the ratio below is 0 / 0.
            rise = (1 - math.cos(math.pi / period)) / 2
            return [
                lr + (base - low) * rise
                for base, lr in zip(self.base_lrs, self._current(), strict=True)
            ]
        ratio = (1 + math.cos(math.pi * epoch / period)) / (
            1 + math.cos(math.pi * (epoch - 1) / period)
        )
        return [ratio * (lr - low) + low for lr in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        cos = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * cos for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine annealing that restarts after T_0 epochs, then after T_mult times as many, ..."""

    def __init__(
        self,
        optimizer: Any,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        cos = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * cos for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:  # type: ignore[override]
        """Go to the next epoch, or to `epoch`, which may be a fraction."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self.T_cur, self.T_i = epoch, self.T_0
            while self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
                if self.T_mult == 1:
                    self.T_cur = epoch % self.T_0
        self.last_epoch = math.floor(epoch)
        self._set(self.get_lr())


class OneCycleLR(LRScheduler):
    """Up to max_lr, then down far below the start, within total_steps batches (Smith 2018).

    Args:
        max_lr: the top, one number or one for each group.
        total_steps: number of batches; or give epochs and steps_per_epoch.
        pct_start: the part of the cycle that rises.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: move momentum (or beta1) the other way, between base and max_momentum.
        div_factor: initial_lr = max_lr / div_factor.
        final_div_factor: min_lr = initial_lr / final_div_factor.
        three_phase: a separate last phase from initial_lr to min_lr.
    """

    def __init__(
        self,
        optimizer: Any,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.85,
        max_momentum: Any = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        groups = _check_optimizer(optimizer).param_groups
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("give total_steps, or both epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if total_steps <= 0 or not isinstance(total_steps, int):
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        if not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self.total_steps, self._anneal = total_steps, anneal_strategy
        self.cycle_momentum, self.use_beta1 = cycle_momentum, False
        rise = float(pct_start * total_steps) - 1
        if three_phase:
            self._phases = [
                (rise, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                (2 * rise, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                (total_steps - 1.0, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            self._phases = [
                (rise, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                (total_steps - 1.0, "max_lr", "min_lr", "base_momentum", "max_momentum"),
            ]
        if last_epoch == -1:
            for group, top in zip(groups, _each("max_lr", max_lr, len(groups)), strict=True):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
                raise ValueError(
                    "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
                )
            self.use_beta1 = "betas" in optimizer.defaults
            if last_epoch == -1:
                lows = _each("base_momentum", base_momentum, len(groups))
                highs = _each("max_momentum", max_momentum, len(groups))
                for group, low, high in zip(groups, lows, highs, strict=True):
                    self._set_momentum(group, high)
                    group["base_momentum"], group["max_momentum"] = low, high
        super().__init__(optimizer, last_epoch)

    def _set_momentum(self, group: dict[str, Any], value: float) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value

    def _between(self, start: float, end: float, part: float) -> float:
        if self._anneal == "linear":
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)

    def get_lr(self) -> list[float]:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        rates = []
        for group in self.optimizer.param_groups:
            start = 0.0
            for i, (end, lr0, lr1, m0, m1) in enumerate(self._phases):
                if step <= end or i == len(self._phases) - 1:
                    part = (step - start) / (end - start)
                    rates.append(self._between(group[lr0], group[lr1], part))
                    if self.cycle_momentum:
                        momentum = self._between(group[m0], group[m1], part)
                        self._set_momentum(group, momentum)
                    break
                start = end
        return rates


def _each(name: str, value: Any, count: int) -> list[float]:
    if isinstance(value, (list, tuple)):
        if len(value) != count:
            raise ValueError(f"expected {count} values for {name}, got {len(value)}")
        return list(value)
    return [value] * count


class SequentialLR(LRScheduler):
    """Runs one scheduler after the other, changing at the milestones."""

    def __init__(
        self,
        optimizer: Any,
        schedulers: Sequence[Any],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        if not schedulers:
            raise ValueError("SequentialLR expects at least one scheduler")
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "SequentialLR expects one milestone fewer than schedulers, got "
                f"{len(schedulers)} schedulers and {len(milestones)} milestones"
            )
        for i, scheduler in enumerate(schedulers):
            if scheduler.optimizer is not optimizer:
                raise ValueError(f"scheduler {i} belongs to another optimizer")
        self._schedulers, self._milestones = list(schedulers), list(milestones)
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Each scheduler took its first step when it was made: start over with the first alone.
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for scheduler in self._schedulers:
            scheduler.last_epoch -= 1
        self._schedulers[0].step()
        self._last_lr = self._schedulers[0].get_last_lr()

    def step(self, epoch: int | None = None) -> None:
        """Step the scheduler whose turn it is; at its milestone it starts from epoch 0."""
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            scheduler.step(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

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


class ChainedScheduler(SequentialLR):
    """Steps all of its schedulers at once."""

    def __init__(self, schedulers: Sequence[Any], optimizer: Any = None) -> None:
        if not schedulers:
            raise ValueError("ChainedScheduler expects at least one scheduler")
        self.optimizer = optimizer if optimizer is not None else schedulers[0].optimizer
        for i, scheduler in enumerate(schedulers):
            if scheduler.optimizer is not self.optimizer:
                raise ValueError(f"scheduler {i} belongs to another optimizer")
        self._schedulers = list(schedulers)
        self._last_lr = self._current()

    def step(self, epoch: int | None = None) -> None:
        """Step every scheduler."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._current()


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
            raise ValueError("Factor should be < 1.0.")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.optimizer = _check_optimizer(optimizer)
        self.mode, self.factor, self.patience = mode, factor, patience
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.cooldown, self.eps = cooldown, eps
        self.min_lrs = _each("min_lr", min_lr, len(optimizer.param_groups))
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
