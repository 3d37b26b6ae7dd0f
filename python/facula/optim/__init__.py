"""Optimizers and learning rate schedules, under torch's names."""

from __future__ import annotations

from facula.optim import lr_scheduler
from facula.optim.adam import Adam, Adamax, AdamW, NAdam
from facula.optim.adaptive import Adadelta, Adagrad, RMSprop
from facula.optim.optimizer import Optimizer
from facula.optim.sgd import SGD

__all__ = [
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "Optimizer",
    "RMSprop",
    "lr_scheduler",
]
