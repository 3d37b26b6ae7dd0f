"""A small training loop with plugins: progress, checkpoints, an early end, logs."""

from __future__ import annotations

from facula.utils.trainer._plugins import (
    Checkpoints,
    EarlyStopping,
    Plugin,
    ProgressBar,
    TensorBoardLog,
)
from facula.utils.trainer._trainer import Trainer

__all__ = [
    "Checkpoints",
    "EarlyStopping",
    "Plugin",
    "ProgressBar",
    "TensorBoardLog",
    "Trainer",
]
