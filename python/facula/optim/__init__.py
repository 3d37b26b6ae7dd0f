"""Optimizers and learning rate schedules, under torch's names."""

from __future__ import annotations

from facula.optim import lr_scheduler
from facula.optim.adam import Adam, Adamax, AdamW, NAdam
from facula.optim.adaptive import Adadelta, Adagrad, RMSprop
from facula.optim.asgd import ASGD
from facula.optim.optimizer import Optimizer
from facula.optim.radam import RAdam
from facula.optim.rprop import Rprop
from facula.optim.sgd import SGD

__all__ = [
    "ASGD",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
]
