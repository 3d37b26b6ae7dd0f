"""Whether and how calls are captured: what `facula.compile` and `Module.compile` share."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from facula import _C

_MODES = ("0", "1", "check")


def capture_for(dynamic: bool | None, wait: bool = False) -> Callable[[], Any] | None:
    """What opens a scope of capture, None where FACULA_COMPILE switches it off.

    Raises ValueError where FACULA_COMPILE is none of 0, 1 and check.
    """
    mode = os.environ.get("FACULA_COMPILE", "") or "1"
    if mode not in _MODES:
        raise ValueError(
            f"FACULA_COMPILE is {mode!r}; it may be 0 (nothing is compiled), 1 (the default) or"
            " check (every plan is compared with its operators run one by one)"
        )
    if mode == "0":
        return None
    return functools.partial(_C._Capture, dynamic is True, mode == "check", False, wait)
