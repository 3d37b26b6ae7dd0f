"""Learning rate schedules: call `step()` after each epoch (or each batch) of optimizer steps.

The rates follow from the current ones step by step, so that schedulers on one optimizer chain.
"""

from __future__ import annotations

from facula.optim.lr_scheduler.base import LRScheduler
from facula.optim.lr_scheduler.closed import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from facula.optim.lr_scheduler.composed import ChainedScheduler, ReduceLROnPlateau, SequentialLR
from facula.optim.lr_scheduler.cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
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
