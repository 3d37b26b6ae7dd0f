"""The choice among methods of attention, of which facula has one; masks; `flex_attention`."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

__all__ = [
    "WARN_FOR_UNFUSED_KERNELS",
    "SDPBackend",
    "activate_flash_attention_impl",
    "current_flash_attention_impl",
    "list_flash_attention_impls",
    "register_flash_attention_impl",
    "restore_flash_attention_impl",
    "sdpa_kernel",
]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.Enum):
    """torch's methods of attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Within it attention is what it is outside; torch's choice gives the same values.

    Raises:
        TypeError: an entry is no SDPBackend.
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else list(backends)
    for backend in chosen:
        if not isinstance(backend, SDPBackend):
            raise TypeError(f"sdpa_kernel(): {backend!r} is no SDPBackend")
    yield


def list_flash_attention_impls() -> list[str]:
    """Kernels of others for attention: none."""
    return []


def current_flash_attention_impl() -> str | None:
    """None: facula's own method is in use."""
    return None


def restore_flash_attention_impl() -> None:
    """Nothing to restore: facula's own method is in use."""


def register_flash_attention_impl(impl: str, *, register_fn: Any) -> None:
    """Raises RuntimeError: attention has no place for kernels of others."""
    raise RuntimeError(
        f"register_flash_attention_impl({impl!r}): attention takes no kernels of others here; an "
        f"operator of facula.library does"
    )


def activate_flash_attention_impl(impl: str) -> None:
    """Raises RuntimeError: there are none."""
    raise RuntimeError(f"activate_flash_attention_impl({impl!r}): there are none")
