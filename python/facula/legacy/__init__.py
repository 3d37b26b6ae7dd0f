"""Lua torch's style of training: modules with hand-driven backward, optimizers as functions."""

from __future__ import annotations

import importlib
from typing import Any

_SUBMODULES = ("nn", "optim")
__all__ = ["nn", "optim"]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"facula.legacy.{name}")
    raise AttributeError(f"module 'facula.legacy' has no attribute {name!r}")
