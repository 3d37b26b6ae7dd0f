"""`Trainer`: the loop over epochs and batches."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import facula
from facula.utils.trainer._plugins import Checkpoints, Plugin

__all__ = ["Trainer"]


def _moved(value: Any, device: Any) -> Any:
    """Tensors in lists, tuples and dictionaries on a device."""
    if isinstance(value, facula.Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, Mapping):
        return {k: _moved(v, device) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_moved(v, device) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(v, device) for v in value)
    return value


def _size(batch: Any) -> int:
    """How many samples a batch has: the first size of its first tensor."""
    if isinstance(batch, facula.Tensor):
        return batch.shape[0] if batch.dim() else 1
    values = batch.values() if isinstance(batch, Mapping) else batch
    if isinstance(batch, (list, tuple, Mapping)):
        return next((_size(v) for v in values), 1)
    return 1


class Trainer:
    """Fits a model to batches of (input, target).

    Args:
        model: Module, called with a batch's input.
        criterion: of output and target to the loss, a tensor of one element.
        optimizer: has the model's parameters.
        scheduler: steps after each epoch; ReduceLROnPlateau is given the loss of validation, or of
            training where there is none.
        metrics: name -> function of output and target to a number, averaged over samples.
        device: where batches and the model go; None leaves them.
        clip_norm: joint norm of the gradients that is not exceeded.
        accumulate: batches whose gradients make one step. Losses are divided by it.
        autocast: a dtype to compute the forward in, such as `facula.bfloat16`.
        plugins: of `Plugin`, called in their order.

    Attributes:
        epoch, iteration, updates: epochs, batches and steps of the optimizer that are done.
        history: a dictionary of averages for each epoch; those of validation begin with "valid_".

    >>> import facula as fa
    >>> from facula.utils.trainer import Trainer
    >>> x = fa.arange(8.0).reshape(8, 1) / 8
    >>> model = fa.nn.Linear(1, 1)
    >>> trainer = Trainer(model, fa.nn.MSELoss(), fa.optim.SGD(model.parameters(), lr=0.5))
    >>> history = trainer.fit([(x, 3 * x)], epochs=100)
    >>> history[-1]["loss"] < 0.01
    True
    """

    def __init__(
        self,
        model: Any,
        criterion: Callable[[Any, Any], Any],
        optimizer: Any,
        *,
        scheduler: Any = None,
        metrics: Mapping[str, Callable[[Any, Any], Any]] | None = None,
        device: Any = None,
        clip_norm: float | None = None,
        accumulate: int = 1,
        autocast: Any = None,
        plugins: Iterable[Plugin] = (),
    ) -> None:
        if accumulate < 1:
            raise ValueError(f"Trainer(): accumulate is {accumulate}, expected at least 1")
        for name in metrics or {}:
            if name == "loss" or name.startswith("valid_"):
                raise ValueError(f"Trainer(): a metric cannot be called {name!r}")
        self.model = model if device is None else model.to(device)
        self.criterion, self.optimizer, self.scheduler = criterion, optimizer, scheduler
        self.metrics = dict(metrics or {})
        self.device, self.clip_norm = device, clip_norm
        self.accumulate, self.autocast = accumulate, autocast
        self.plugins = list(plugins)
        self.epoch = self.iteration = self.updates = 0
        self.epochs = 0  # where fit() ends
        self.history: list[dict[str, float]] = []
        self._stopped = ""

    # ---- one batch

    def _forward(self, batch: Any) -> tuple[Any, Any, Any]:
        try:
            given, target = batch
        except (TypeError, ValueError):
            raise TypeError(
                "Trainer: a batch is a pair of input and target, not "
                f"{type(batch).__name__}; override Trainer.forward for others"
            ) from None
        context: Any = contextlib.nullcontext()
        if self.autocast is not None:
            kind = facula.device(self.device or "cpu").type
            context = facula.autocast(kind, dtype=self.autocast)
        with context:
            output = self.model(given)
            return output, target, self.criterion(output, target)

    def forward(self, batch: Any) -> tuple[Any, Any, Any]:
        """(output, target, loss) of a batch on the device; override it for other batches."""
        return self._forward(batch)

    def _step(self) -> None:
        if self.clip_norm is not None:
            facula.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.updates += 1
        self._tell("on_update")

    def _tell(self, event: str, *args: Any) -> None:
        for plugin in self.plugins:
            getattr(plugin, event)(self, *args)

    # ---- loops

    def stop(self, reason: str = "asked to") -> None:
        """End `fit` after this epoch."""
        self._stopped = reason or "asked to"

    @property
    def stopped(self) -> str:
        """Why the last `fit` ended before its epochs; "" if it did not."""
        return self._stopped

    def fit(
        self, data: Iterable[Any], epochs: int, valid: Iterable[Any] | None = None
    ) -> list[dict[str, float]]:
        """Train until `epochs` are done in all, those before a resumption included.

        Args:
            data: batches; gone through once an epoch, such as a DataLoader.
            valid: batches to evaluate after each epoch.

        Returns:
            `history`.

        Raises:
            ValueError: `data` has no batch.
        """
        self.epochs, self._stopped = epochs, ""
        self._tell("on_start")
        try:
            while self.epoch < epochs and not self._stopped:
                self._tell("on_epoch_start")
                averages = self._train(data)
                if valid is not None:
                    found = self.evaluate(valid)
                    averages.update({f"valid_{k}": v for k, v in found.items()})
                self._schedule(averages)
                self.epoch += 1
                self.history.append(averages)
                self._tell("on_epoch_end", averages)
        finally:
            self._tell("on_end")
        return self.history

    def _train(self, data: Iterable[Any]) -> dict[str, float]:
        self.model.train()
        self.optimizer.zero_grad()
        sums = _Averages()
        pending = 0
        for batch in data:
            if self.device is not None:
                batch = _moved(batch, self.device)
            output, target, loss = self.forward(batch)
            (loss / self.accumulate if self.accumulate > 1 else loss).backward()
            self.iteration += 1
            pending += 1
            self._note(sums, batch, output, target, loss)
            if pending == self.accumulate:
                self._step()
                pending = 0
            self._tell("on_batch", sums.last)
        if not sums.count:
            raise ValueError("Trainer.fit(): the data have no batch")
        if pending:
            self._step()
        return sums.means()

    def evaluate(self, data: Iterable[Any]) -> dict[str, float]:
        """Averages of the loss and the metrics, in evaluation mode and without gradients."""
        training = self.model.training
        self.model.eval()
        sums = _Averages()
        try:
            with facula.no_grad():
                for batch in data:
                    if self.device is not None:
                        batch = _moved(batch, self.device)
                    output, target, loss = self.forward(batch)
                    self._note(sums, batch, output, target, loss)
        finally:
            self.model.train(training)
        if not sums.count:
            raise ValueError("Trainer.evaluate(): the data have no batch")
        return sums.means()

    def _note(self, sums: _Averages, batch: Any, output: Any, target: Any, loss: Any) -> None:
        with facula.no_grad():
            found = {"loss": float(loss)}
            for name, metric in self.metrics.items():
                found[name] = float(metric(output, target))
        sums.add(found, _size(batch))

    def _schedule(self, averages: dict[str, float]) -> None:
        if self.scheduler is None:
            return
        plateau = facula.optim.lr_scheduler.ReduceLROnPlateau
        if isinstance(self.scheduler, plateau):
            self.scheduler.step(averages.get("valid_loss", averages["loss"]))
        else:
            self.scheduler.step()

    # ---- saving

    def state_dict(self) -> dict[str, Any]:
        """All that `load_state_dict` needs to go on as if nothing had happened."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "epoch": self.epoch,
            "iteration": self.iteration,
            "updates": self.updates,
            "history": self.history,
            "random": facula.get_rng_state(),
            "plugins": [p.state_dict() for p in self.plugins],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; model, optimizer, scheduler and plugins must be of the same kinds.

        Raises:
            ValueError: it has a scheduler and this trainer not, or the reverse.
        """
        if (state["scheduler"] is None) != (self.scheduler is None):
            raise ValueError(
                "Trainer.load_state_dict(): one of the state and this trainer has a scheduler, the "
                "other has none"
            )
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        self.epoch, self.iteration = state["epoch"], state["iteration"]
        self.updates = state["updates"]
        self.history = [dict(h) for h in state["history"]]
        facula.set_rng_state(state["random"])
        for plugin, own in zip(self.plugins, state["plugins"], strict=False):
            plugin.load_state_dict(own)

    def save(self, path: str) -> None:
        """Write `state_dict` to a file, whole or not at all."""
        facula.save(self.state_dict(), path)

    def resume(self, path: str) -> bool:
        """Go on from a file of `save`, or from the latest one of a folder of `Checkpoints`.

        Returns:
            Whether there was one; an empty or missing folder is none.
        """
        if not os.path.isfile(path):
            latest = Checkpoints.latest(path)
            if latest is None:
                return False
            path = latest
        where = "cpu" if self.device is None else self.device
        self.load_state_dict(facula.load(path, map_location=where))
        return True


class _Averages:
    """Means over samples, of what batches gave."""

    def __init__(self) -> None:
        self.count = 0
        self.sums: dict[str, float] = {}
        self.last: dict[str, float] = {}

    def add(self, values: dict[str, float], samples: int) -> None:
        self.last = values
        self.count += samples
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value * samples

    def means(self) -> dict[str, float]:
        return {name: total / self.count for name, total in self.sums.items()}
