"""What goes along with a training: progress, checkpoints, an early end, logs."""

from __future__ import annotations

import contextlib
import math
import os
import re
import sys
from typing import Any

__all__ = ["Checkpoints", "EarlyStopping", "Plugin", "ProgressBar", "TensorBoardLog"]


class Plugin:
    """Base class: each method is called at its event, with the trainer; override what is wanted."""

    def on_start(self, trainer: Any) -> None:
        """`fit` begins."""

    def on_epoch_start(self, trainer: Any) -> None:
        """An epoch begins."""

    def on_batch(self, trainer: Any, values: dict[str, float]) -> None:
        """A batch is done; `values` are its loss and metrics."""

    def on_update(self, trainer: Any) -> None:
        """The optimizer has stepped."""

    def on_epoch_end(self, trainer: Any, averages: dict[str, float]) -> None:
        """An epoch is done; `averages` are its loss and metrics, "valid_..." of validation."""

    def on_end(self, trainer: Any) -> None:
        """`fit` ends, by an error too."""

    def state_dict(self) -> dict[str, Any]:
        """What belongs in checkpoints."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""


def _text(values: dict[str, float]) -> str:
    return ", ".join(f"{k} {v:.4g}" for k, v in values.items())


class ProgressBar(Plugin):
    """Shows how far it is: a bar of tqdm if that is installed, else a line an epoch.

    Args:
        bar: False for lines in any case.
        file: where to; stderr by default.
    """

    def __init__(self, bar: bool = True, file: Any = None) -> None:
        self.file = file
        self._tqdm: Any = None
        self._now: Any = None
        if bar:
            with contextlib.suppress(ImportError):
                from tqdm import tqdm

                self._tqdm = tqdm
        self._batches: int | None = None
        self._seen = 0

    def on_epoch_start(self, trainer: Any) -> None:
        self._seen = 0
        if self._tqdm is not None:
            name = f"epoch {trainer.epoch + 1}/{trainer.epochs}"
            self._now = self._tqdm(
                total=self._batches, desc=name, file=self.file or sys.stderr, unit="batch"
            )

    def on_batch(self, trainer: Any, values: dict[str, float]) -> None:
        self._seen += 1
        if self._now is not None:
            self._now.set_postfix_str(_text(values), refresh=False)
            self._now.update()

    def on_epoch_end(self, trainer: Any, averages: dict[str, float]) -> None:
        self._batches = self._seen
        if self._now is not None:
            self._now.set_postfix_str(_text(averages))
            self._now.close()
            self._now = None
        else:
            line = f"epoch {trainer.epoch}/{trainer.epochs}: {_text(averages)}"
            print(line, file=self.file or sys.stderr, flush=True)

    def on_end(self, trainer: Any) -> None:
        if self._now is not None:
            self._now.close()
            self._now = None


def _better(mode: str) -> Any:
    if mode not in ("min", "max"):
        raise ValueError(f"mode is {mode!r}, expected 'min' or 'max'")
    return (lambda a, b, d: a < b - d) if mode == "min" else (lambda a, b, d: a > b + d)


def _monitored(averages: dict[str, float], name: str) -> float:
    if name not in averages:
        raise KeyError(f"there is no average {name!r} to watch; there are {sorted(averages)}")
    return averages[name]


class Checkpoints(Plugin):
    """Writes the trainer's state to `folder`, from which `Trainer.resume` goes on.

    Args:
        folder: made if it is not there.
        every: epochs from one to the next.
        keep: how many of the latest stay; None for all.
        best: an average, such as "valid_loss": the state where it was best is kept as "best.pt".
        mode: "min" or "max": which is better.
    """

    _NAME = re.compile(r"epoch_(\d+)\.pt")

    def __init__(
        self,
        folder: str,
        every: int = 1,
        keep: int | None = 3,
        best: str | None = None,
        mode: str = "min",
    ) -> None:
        if every < 1 or (keep is not None and keep < 1):
            raise ValueError(f"Checkpoints(): every is {every}, keep {keep}; both at least 1")
        self.folder, self.every, self.keep, self.best = os.fspath(folder), every, keep, best
        self._better = _better(mode)
        self.best_value = math.inf if mode == "min" else -math.inf

    @classmethod
    def files(cls, folder: str) -> list[str]:
        """Paths of the states by epoch, the oldest first."""
        if not os.path.isdir(folder):
            return []
        found = [(int(m[1]), n) for n in os.listdir(folder) if (m := cls._NAME.fullmatch(n))]
        return [os.path.join(folder, name) for _, name in sorted(found)]

    @classmethod
    def latest(cls, folder: str) -> str | None:
        """Path of the latest state."""
        return (cls.files(folder) or [None])[-1]

    def on_epoch_end(self, trainer: Any, averages: dict[str, float]) -> None:
        os.makedirs(self.folder, exist_ok=True)
        if self.best is not None:
            value = _monitored(averages, self.best)
            if self._better(value, self.best_value, 0.0):
                self.best_value = value
                trainer.save(os.path.join(self.folder, "best.pt"))
        if trainer.epoch % self.every == 0 or trainer.epoch == trainer.epochs:
            trainer.save(os.path.join(self.folder, f"epoch_{trainer.epoch:05d}.pt"))
            for path in self.files(self.folder)[: -self.keep] if self.keep is not None else []:
                os.remove(path)

    def state_dict(self) -> dict[str, Any]:
        return {"best_value": self.best_value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best_value = state["best_value"]


class EarlyStopping(Plugin):
    """Ends the training when an average has not become better for `patience` epochs.

    Args:
        monitor: which.
        patience: epochs without anything better.
        min_delta: by how much it must be better.
        mode: "min" or "max": which is better.
    """

    def __init__(
        self,
        monitor: str = "valid_loss",
        patience: int = 5,
        min_delta: float = 0.0,
        mode: str = "min",
    ) -> None:
        self.monitor, self.patience, self.min_delta = monitor, patience, min_delta
        self._better = _better(mode)
        self.best_value = math.inf if mode == "min" else -math.inf
        self.bad_epochs = 0

    def on_epoch_end(self, trainer: Any, averages: dict[str, float]) -> None:
        value = _monitored(averages, self.monitor)
        if self._better(value, self.best_value, self.min_delta):
            self.best_value, self.bad_epochs = value, 0
            return
        self.bad_epochs += 1
        if self.bad_epochs >= self.patience:
            trainer.stop(
                f"{self.monitor} has not been better than {self.best_value:.4g} for "
                f"{self.bad_epochs} epochs"
            )

    def state_dict(self) -> dict[str, Any]:
        return {"best_value": self.best_value, "bad_epochs": self.bad_epochs}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best_value, self.bad_epochs = state["best_value"], state["bad_epochs"]


class TensorBoardLog(Plugin):
    """Writes averages of epochs, and of every `every`-th batch, for TensorBoard.

    Args:
        writer: a `facula.utils.tensorboard.SummaryWriter`.
        every: batches from one record to the next; 0 for none.
    """

    def __init__(self, writer: Any, every: int = 0) -> None:
        self.writer, self.every = writer, every

    def on_batch(self, trainer: Any, values: dict[str, float]) -> None:
        if self.every and trainer.iteration % self.every == 0:
            for name, value in values.items():
                self.writer.add_scalar(f"batch/{name}", value, trainer.iteration)

    def on_epoch_end(self, trainer: Any, averages: dict[str, float]) -> None:
        for name, value in averages.items():
            self.writer.add_scalar(f"epoch/{name}", value, trainer.epoch)
        for i, group in enumerate(trainer.optimizer.param_groups):
            self.writer.add_scalar(f"epoch/lr{i or ''}", group["lr"], trainer.epoch)

    def on_end(self, trainer: Any) -> None:
        self.writer.flush()
