"""Helpers that are not about tensors, loaded when used.

`data` has datasets and loaders, `hooks` what takes hooks away, `cpp_extension` builds C++ beside
facula; `cmake_prefix_path` is where CMake's `find_package(facula)` looks.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

_SUBMODULES = ("benchmark", "checkpoint", "cpp_extension", "data", "flop_counter", "hooks")
_SUBMODULES += ("tensorboard", "trainer", "viz")


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"facula.utils.{name}")
    if name == "cmake_prefix_path":
        return os.path.join(os.path.dirname(os.path.dirname(__file__)), "share", "cmake")
    raise AttributeError(f"module 'facula.utils' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES, "cmake_prefix_path"})
