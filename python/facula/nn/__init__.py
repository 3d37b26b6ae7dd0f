"""Networks: modules, parameters, functions, initial values, and helpers, under torch's names."""

from __future__ import annotations

from facula._moving import add_owner as _add_owner
from facula.nn import functional, init, modules, utils
from facula.nn.modules import *  # noqa: F403
from facula.nn.parameter import Buffer, Parameter

_add_owner(Module)  # noqa: F405

__all__ = ["Buffer", "Parameter", "functional", "init", "utils", *modules.__all__]
