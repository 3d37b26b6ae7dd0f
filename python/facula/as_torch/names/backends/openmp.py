"""`torch.backends.openmp`: a library that facula does not use."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """False."""
    return False
