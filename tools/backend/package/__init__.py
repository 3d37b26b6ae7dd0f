"""The device @NAME@: facula loads it when the name is first used."""

from __future__ import annotations

from pathlib import Path


def register() -> None:
    """Called by facula through the entry point `facula.backends`."""
    from facula import backends

    backends.load_library(next(Path(__file__).parent.glob("@NAME@*.so")))
