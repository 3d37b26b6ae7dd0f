"""Files for TensorBoard, by its Python package: `pip install tensorboard`."""

from __future__ import annotations

import importlib.util
from typing import Any

_NAMES = ("FileWriter", "SummaryWriter")


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec("tensorboard") is not None
    except ValueError:  # it was taken away from what is imported
        return False


__all__ = list(_NAMES) if _is_installed() else []


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'facula.utils.tensorboard' has no attribute {name!r}")
    if not _is_installed():
        raise ImportError(
            f"facula.utils.tensorboard.{name} needs the package tensorboard: "
            "pip install tensorboard"
        )
    from facula.utils.tensorboard import writer

    return getattr(writer, name)
