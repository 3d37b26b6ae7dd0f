"""Means of a model's parameters over training: stochastic weight averaging and exponential means.

Izmailov et al. 2018; Polyak & Juditsky 1992.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import facula
from facula.optim.lr_scheduler.base import LRScheduler, one_each

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def _checked(decay: float) -> float:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided; it must be within [0, 1]")
    return decay


def _move(mean: Any, current: Any, share: float) -> None:
    """mean += share (current - mean), in place."""
    if mean.is_floating_point() or mean.is_complex():
        mean.lerp_(current, share)
    else:
        mean.copy_(mean * (1 - share) + current * share)


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Any, Any, Any], Any]:
    """An `avg_fn` of `AveragedModel`: decay * mean + (1 - decay) * current."""
    _checked(decay)

    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        with facula.no_grad():
            return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[[Any, Any, Any], Any]:
    """An `avg_fn` of `AveragedModel`: the mean of all models so far."""

    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        with facula.no_grad():
            return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[Any, Any, Any], None]:
    """`get_ema_avg_fn` for lists of tensors, in place: a `multi_avg_fn`."""
    _checked(decay)

    def ema_update(ema_param_list: Any, current_param_list: Any, num_averaged: Any) -> None:
        with facula.no_grad():
            for mean, current in zip(ema_param_list, current_param_list, strict=True):
                _move(mean, current, 1 - decay)

    return ema_update


def get_swa_multi_avg_fn() -> Callable[[Any, Any, Any], None]:
    """`get_swa_avg_fn` for lists of tensors, in place: a `multi_avg_fn`."""

    def swa_update(averaged_param_list: Any, current_param_list: Any, num_averaged: Any) -> None:
        with facula.no_grad():
            for mean, current in zip(averaged_param_list, current_param_list, strict=True):
                _move(mean, current, 1 / (float(num_averaged) + 1))

    return swa_update


class AveragedModel(facula.nn.Module):
    """A copy of a model, `module`, whose parameters are means of the model's.

    Args:
        model: what is copied; the first `update_parameters` copies its values too.
        device: where the copy goes.
        avg_fn: called with a mean, a parameter and `n_averaged`; gives the new mean.
        multi_avg_fn: the same for lists of them, in place. The default of both: equal weights.
        use_buffers: average the buffers too; else they are copied.

    Raises:
        ValueError: both functions are given.
    """

    n_averaged: Any

    def __init__(
        self,
        model: Any,
        device: Any = None,
        avg_fn: Callable[[Any, Any, Any], Any] | None = None,
        multi_avg_fn: Callable[[Any, Any, Any], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ValueError("only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", facula.tensor(0, dtype=facula.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Any) -> None:
        """Take the model's parameters into the means."""
        with facula.no_grad():
            means = [mean.detach() for mean in self._of(self.module)]
            current = [
                p.detach().to(mean.device) for mean, p in zip(means, self._of(model), strict=True)
            ]
            if int(self.n_averaged) == 0:
                for mean, p in zip(means, current, strict=True):
                    mean.copy_(p)
            elif self.avg_fn is not None:
                for mean, p in zip(means, current, strict=True):
                    mean.copy_(self.avg_fn(mean, p, self.n_averaged.to(mean.device)))
            else:
                update = self.multi_avg_fn or get_swa_multi_avg_fn()
                kinds: dict[Any, tuple[list[Any], list[Any]]] = {}
                for mean, p in zip(means, current, strict=True):
                    lists = kinds.setdefault((str(mean.device), mean.dtype), ([], []))
                    lists[0].append(mean)
                    lists[1].append(p)
                for some, others in kinds.values():
                    update(some, others, self.n_averaged.to(some[0].device))
            if not self.use_buffers:
                for mine, other in zip(self.module.buffers(), model.buffers(), strict=True):
                    mine.detach().copy_(other.detach().to(mine.device))
            self.n_averaged += 1

    def _of(self, module: Any) -> Iterable[Any]:
        if self.use_buffers:
            return itertools.chain(module.parameters(), module.buffers())
        return module.parameters()  # type: ignore[no-any-return]


def update_bn(loader: Iterable[Any], model: Any, device: Any = None) -> None:
    """Set the running means of the model's batch normalisation to those over a loader's batches.

    A batch is a tensor, or a list or tuple that begins with the tensor the model takes.
    """
    kind = facula.nn.modules.batchnorm._BatchNorm
    layers = [module for module in model.modules() if isinstance(module, kind)]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    was_training = model.training
    model.train()
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # equal weights
    try:
        with facula.no_grad():
            for batch in loader:
                x = batch[0] if isinstance(batch, (list, tuple)) else batch
                model(x if device is None else x.to(device))
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """Goes from each group's rate to `swa_lr` over `anneal_epochs`, then stays.

    Args:
        optimizer: whose rates are set.
        swa_lr: the last rate, one for all groups or one each.
        anneal_epochs: at least 0.
        anneal_strategy: "cos" or "linear".
        last_epoch: see `LRScheduler`.
    """

    _follows_current = True

    def __init__(
        self,
        optimizer: Any,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        groups = optimizer.param_groups
        for rate, group in zip(one_each("swa_lr", swa_lr, len(groups)), groups, strict=True):
            group["swa_lr"] = rate
        self.anneal_epochs = anneal_epochs
        self._anneal_strategy = anneal_strategy
        self._steps = last_epoch if last_epoch < 0 else last_epoch + 1
        super().__init__(optimizer, last_epoch)

    def _rewind(self) -> None:
        super()._rewind()
        self._steps -= 1

    def _share(self, step: int) -> float:
        """How far it is on the way after some steps."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * t)) / 2 if self._anneal_strategy == "cos" else t

    def get_lr(self) -> list[float]:
        """From the rates that the groups have, which other schedules may have set."""
        self._steps += 1
        step = max(1, self._steps) if self.anneal_epochs == 0 else self._steps
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            lr, last = group["lr"], group["swa_lr"]
            start = last if before == 1 else (lr - before * last) / (1 - before)
            rates.append(last * now + start * (1 - now))
        return rates
