"""`torch.hub`: its folder, and files that are fetched by their address."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
import tempfile
import warnings
from typing import Any
from urllib.parse import urlparse
from urllib.request import Request, urlopen

__all__ = ["download_url_to_file", "get_dir", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
READ_DATA_CHUNK = 128 * 1024
_folder: list[str] = []


def _get_torch_home() -> str:
    cache = os.environ.get("XDG_CACHE_HOME", os.path.join("~", ".cache"))
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """Where models are kept: what `set_dir` was given, else $TORCH_HOME/hub, else in ~/.cache."""
    return _folder[-1] if _folder else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keep models in this folder."""
    _folder[:] = [os.path.expanduser(d)]


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Fetch a file; `dst` appears when it is whole.

    Args:
        url: its address.
        dst: where it goes.
        hash_prefix: how its SHA-256 begins, in hexadecimal digits.
        progress: tell on stderr how much is there.

    Raises:
        RuntimeError: its SHA-256 is another.
        OSError: it cannot be fetched or written.
    """
    dst = os.path.expanduser(dst)
    folder = os.path.dirname(os.path.abspath(dst))
    digest = hashlib.sha256()
    with urlopen(Request(url, headers={"User-Agent": "torch.hub"})) as source:
        total = int(source.headers.get("Content-Length") or 0)
        handle, partial = tempfile.mkstemp(suffix=".partial", dir=folder)
        try:
            with os.fdopen(handle, "wb") as target:
                done = 0
                while chunk := source.read(READ_DATA_CHUNK):
                    target.write(chunk)
                    digest.update(chunk)
                    done += len(chunk)
                    if progress:
                        print(f"\r{done} of {total or '?'} bytes", end="", file=sys.stderr)
            if progress:
                print(file=sys.stderr)
            if hash_prefix and not digest.hexdigest().startswith(hash_prefix):
                raise RuntimeError(
                    f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")'
                )
            os.replace(partial, dst)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(partial)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """What `torch.load` reads of a file that is fetched once and kept.

    Args:
        url: its address.
        model_dir: where it is kept; `get_dir()`/checkpoints by default.
        map_location, weights_only: as of `torch.load`.
        progress: tell on stderr how much is there.
        check_hash: the name's part between "-" and the ending is how its SHA-256 begins.
        file_name: its name there; that of the address by default.
    """
    import facula

    if os.getenv("TORCH_MODEL_ZOO"):
        warnings.warn("TORCH_MODEL_ZOO is deprecated, please use env TORCH_HOME", stacklevel=2)
    folder = model_dir if model_dir is not None else os.path.join(get_dir(), "checkpoints")
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    file = os.path.join(folder, name)
    if not os.path.exists(file):
        print(f'Downloading: "{url}" to {file}\n', file=sys.stderr)
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, file, found[1] if found else None, progress=progress)
    return facula.load(file, map_location=map_location, weights_only=weights_only)
