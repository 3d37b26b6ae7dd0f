"""Networks: modules, parameters, functions, initial values, and helpers, under torch's names."""

from __future__ import annotations

from facula._exports import VENDORS as _VENDORS
from facula._moving import add_methods as _add_methods
from facula.nn import functional, init, modules, utils
from facula.nn.modules import *  # noqa: F403
from facula.nn.parameter import Buffer, Parameter

for _name in _VENDORS:
    _add_methods(Module, _name)  # noqa: F405

__all__ = ["Buffer", "Parameter", "functional", "init", "utils", *modules.__all__]
