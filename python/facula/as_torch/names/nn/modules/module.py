"""`torch.nn.modules.module`: names that programs take from that file."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from facula.nn.modules._state import _Keys
from facula.nn.modules.module import Module

__all__ = ["Module"]

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"
# Hooks for all modules, of which there are none.
_global_parameter_registration_hooks: OrderedDict[int, Any] = OrderedDict()
_global_buffer_registration_hooks: OrderedDict[int, Any] = OrderedDict()
_global_module_registration_hooks: OrderedDict[int, Any] = OrderedDict()


class _IncompatibleKeys(_Keys):
    """What `load_state_dict` found, as programs make it themselves."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__
