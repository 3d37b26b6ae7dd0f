"""Optimizers and learning rate schedules, under torch's names."""

from __future__ import annotations

import importlib
from typing import Any

from facula.optim import lr_scheduler
from facula.optim._swap import swap_in_optimizer_params_and_state
from facula.optim.adafactor import Adafactor
from facula.optim.adam import Adam, Adamax, AdamW, NAdam
from facula.optim.adaptive import Adadelta, Adagrad, RMSprop
from facula.optim.asgd import ASGD
from facula.optim.lbfgs import LBFGS
from facula.optim.muon import Muon
from facula.optim.optimizer import Optimizer
from facula.optim.radam import RAdam
from facula.optim.rprop import Rprop
from facula.optim.sgd import SGD
from facula.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
    "swap_in_optimizer_params_and_state",
]


def __getattr__(name: str) -> Any:
    if name == "swa_utils":  # it needs facula.nn
        return importlib.import_module("facula.optim.swa_utils")
    raise AttributeError(f"module 'facula.optim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
