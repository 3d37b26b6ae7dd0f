"""The device @NAME@: facula loads it when the name is first used."""

from __future__ import annotations

from pathlib import Path


def register() -> None:
    """Called by facula through the entry point `facula.backends`."""
    from facula import backends

    library = next(Path(__file__).parent.glob("@NAME@*.so"), None)
    if library is None:  # say, the source folder on sys.path, before the installed package
        raise ImportError(f"{Path(__file__).parent} has no compiled @NAME@*.so; pip install it")
    backends.load_library(library)
