"""`torch.backends.mps`: Apple GPUs, which facula does not have."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """False."""
    return False


is_built = is_available


def is_macos_or_newer(major: int, minor: int) -> bool:
    """False."""
    return False
