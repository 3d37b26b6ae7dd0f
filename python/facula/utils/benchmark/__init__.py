"""Measure how long statements take, and compare."""

from __future__ import annotations

from facula.utils.benchmark._compare import Colorize, Compare
from facula.utils.benchmark._measurement import (
    Measurement,
    TaskSpec,
    select_unit,
    trim_sigfig,
    unit_to_english,
)
from facula.utils.benchmark._timer import Language, Timer, set_torch_threads, timer

__all__ = [
    "Colorize",
    "Compare",
    "Language",
    "Measurement",
    "TaskSpec",
    "Timer",
    "select_unit",
    "set_torch_threads",
    "timer",
    "trim_sigfig",
    "unit_to_english",
]
