"""`torch.hub`: its folder. facula fetches nothing from the network."""

from __future__ import annotations

import os

__all__ = ["get_dir", "set_dir"]

_folder: list[str] = []


def get_dir() -> str:
    """Where models are kept: what `set_dir` was given, else $TORCH_HOME/hub, else in ~/.cache."""
    if _folder:
        return _folder[-1]
    cache = os.environ.get("XDG_CACHE_HOME", os.path.join("~", ".cache"))
    home = os.environ.get("TORCH_HOME", os.path.join(cache, "torch"))
    return os.path.join(os.path.expanduser(home), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keep models in this folder."""
    _folder[:] = [os.path.expanduser(d)]
