"""Helpers that are not about tensors: `data` (datasets, loaders) and `hooks`, loaded when used."""

from __future__ import annotations

import importlib
from typing import Any

_SUBMODULES = ("data", "hooks")


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"facula.utils.{name}")
    raise AttributeError(f"module 'facula.utils' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES})
