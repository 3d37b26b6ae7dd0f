"""`torch.backends.cudnn`: its switches can be set; `FACULA_CUDNN=0` is what turns cuDNN off."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

allow_tf32 = False
benchmark = False
benchmark_limit = 10
deterministic = False
enabled = True


def is_available() -> bool:
    """Is there a GPU that may use it?"""
    from facula import cuda

    return bool(cuda.is_available())


def version() -> int | None:
    """None: facula does not tell."""
    return None


@contextlib.contextmanager
def flags(**settings: Any) -> Iterator[None]:
    """Nothing changes within it."""
    yield
