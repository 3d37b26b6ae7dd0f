"""Networks: modules, parameters, functions, initial values, and helpers, under torch's names."""

from __future__ import annotations

from facula.nn import functional, init, modules, utils
from facula.nn.modules import *  # noqa: F403
from facula.nn.parameter import Buffer, Parameter

__all__ = ["Buffer", "Parameter", "functional", "init", "utils", *modules.__all__]
