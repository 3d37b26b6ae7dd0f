"""Schedules that rise and fall: warm restarts (Loshchilov 2017), cycles (Smith 2017, 2018)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from facula.optim.lr_scheduler.base import LRScheduler, checked_optimizer, one_each

__all__ = ["CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"]


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
            raise ValueError(f"T_0 must be a positive integer, not {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"T_mult must be an integer of at least 1, not {T_mult}")
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def _begin(self) -> None:
        self.step(self.last_epoch + 1)

    def get_lr(self) -> list[float]:
        cos = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * cos for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:  # type: ignore[override]
        """Go to the next epoch, or to `epoch`, which may be a fraction."""
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"epoch must not be negative, not {epoch}")
            self.T_cur, self.T_i = epoch, self.T_0
            while self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
                if self.T_mult == 1:
                    self.T_cur = epoch % self.T_0
        self.last_epoch = math.floor(epoch)
        self._set(self.get_lr())


class _Cycle(LRScheduler):
    """Moves momentum (beta1 where the optimizer has betas) against the rate."""

    cycle_momentum: bool
    use_beta1 = False

    def _start_momentum(self, optimizer: Any, low: Any, high: Any, last_epoch: int) -> None:
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError(
                f"{type(self).__name__}: cycle_momentum needs an optimizer with momentum or "
                f"betas, {type(optimizer).__name__} has neither"
            )
        self.use_beta1 = "betas" in optimizer.defaults
        if last_epoch != -1:
            return
        groups = optimizer.param_groups
        lows = one_each("base_momentum", low, len(groups))
        highs = one_each("max_momentum", high, len(groups))
        for group, lowest, highest in zip(groups, lows, highs, strict=True):
            group["base_momentum"], group["max_momentum"] = lowest, highest
            self._set_momentum(group, highest)

    def _set_momentum(self, group: dict[str, Any], value: float) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(_Cycle):
    """From base_lr linearly up to max_lr and down again, over and over (Smith 2017).

    The height of cycle c (from 1) at step t is (max_lr - base_lr) times 1 with mode "triangular",
    0.5^(c - 1) with "triangular2", gamma^t with "exp_range".

    Args:
        base_lr, max_lr: the ends, one number or one for each group.
        step_size_up, step_size_down: steps of the rise and of the fall (as the rise).
        scale_fn: the factor of the height in place of mode's, of the cycle or of the step.
        scale_mode: what scale_fn takes: "cycle" or "iterations".
        cycle_momentum: move momentum (or beta1) the other way, between base and max_momentum.
    """

    def __init__(
        self,
        optimizer: Any,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.8,
        max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:
        groups = checked_optimizer(optimizer).param_groups
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ValueError(
                f"CyclicLR: mode must be 'triangular', 'triangular2' or 'exp_range', not {mode!r}"
            )
        if scale_mode not in ("cycle", "iterations"):
            raise ValueError(
                f"CyclicLR: scale_mode must be 'cycle' or 'iterations', not {scale_mode!r}"
            )
        if not step_size_up > 0:
            raise ValueError(f"CyclicLR: step_size_up must be positive, not {step_size_up}")
        if step_size_down is not None and step_size_down < 0:
            raise ValueError(f"CyclicLR: step_size_down must not be negative, not {step_size_down}")
        lows = one_each("base_lr", base_lr, len(groups))
        self.max_lrs = one_each("max_lr", max_lr, len(groups))
        if last_epoch == -1:
            for group, lr in zip(groups, lows, strict=True):
                group["lr"] = lr
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        self.mode, self.gamma, self.scale_mode = mode, gamma, scale_mode
        self._scale_fn = scale_fn
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def _scale(self, cycle: float) -> float:
        if self._scale_fn is not None:
            return self._scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.mode == "triangular":
            return 1.0
        if self.mode == "triangular2":
            return 0.5 ** (cycle - 1)
        return self.gamma**self.last_epoch

    def get_lr(self) -> list[float]:
        turns = self.last_epoch / self.total_size
        cycle = math.floor(1 + turns)
        part = 1 + turns - cycle
        ratio = self.step_ratio
        height = part / ratio if part <= ratio else (1 - part) / (1 - ratio)
        height *= self._scale(cycle)
        if self.cycle_momentum:
            for group in self.optimizer.param_groups:
                low, high = group["base_momentum"], group["max_momentum"]
                self._set_momentum(group, high - (high - low) * height)
        return [
            low + (high - low) * height
            for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]


class OneCycleLR(_Cycle):
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
        groups = checked_optimizer(optimizer).param_groups
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("OneCycleLR needs total_steps, or both epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if total_steps <= 0 or not isinstance(total_steps, int):
            raise ValueError(f"total_steps must be a positive integer, not {total_steps}")
        if not 0 <= pct_start <= 1:
            raise ValueError(f"pct_start must be in [0, 1], not {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be 'cos' or 'linear', not {anneal_strategy!r}")
        self.total_steps, self._anneal = total_steps, anneal_strategy
        self.cycle_momentum = cycle_momentum
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
            for group, top in zip(groups, one_each("max_lr", max_lr, len(groups)), strict=True):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            self._start_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _between(self, start: float, end: float, part: float) -> float:
        if self._anneal == "linear":
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)

    def get_lr(self) -> list[float]:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"OneCycleLR: step() was called {step} times, but the cycle has {self.total_steps} "
                "steps (total_steps)"
            )
        rates = []
        for group in self.optimizer.param_groups:
            start = 0.0
            for i, (end, lr0, lr1, m0, m1) in enumerate(self._phases):
                if step <= end or i == len(self._phases) - 1:
                    # The last step() of a loop over total_steps batches comes after the end.
                    part = min((step - start) / (end - start), 1.0) if end > start else 1.0
                    rates.append(self._between(group[lr0], group[lr1], part))
                    if self.cycle_momentum:
                        momentum = self._between(group[m0], group[m1], part)
                        self._set_momentum(group, momentum)
                    break
                start = end
        return rates
