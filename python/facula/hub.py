"""`torch.hub`: its folder, and files that are fetched by their address."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlparse
from urllib.request import Request, urlopen

__all__ = [
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]

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


# ---- models of repositories: functions of their hubconf.py


def _repository(repo: str, force_reload: bool, trust_repo: Any, verbose: bool) -> str:
    """The folder of a repository of GitHub, "owner/name:branch", fetched if it is not there."""
    match = re.fullmatch(r"([\w.-]+)/([\w.-]+)(?::([\w./-]+))?", repo)
    if match is None:
        raise ValueError(
            f"hub: a repository is given as 'owner/name' or 'owner/name:branch', not {repo!r}"
        )
    owner, name, ref = match[1], match[2], match[3] or "main"
    folder = os.path.join(get_dir(), "_".join((owner, name, ref.replace("/", "_"))))
    if os.path.isdir(folder) and not force_reload:
        if verbose:
            sys.stderr.write(f"Using cache found in {folder}\n")
        return folder
    _ask(owner, name, trust_repo)
    os.makedirs(get_dir(), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=get_dir()) as place:
        file = os.path.join(place, "source.zip")
        address = f"https://github.com/{owner}/{name}/zipball/{ref}"
        download_url_to_file(address, file, progress=False)
        inside = os.path.join(place, "inside")
        with zipfile.ZipFile(file) as archive:
            _safe(archive, inside)
            archive.extractall(inside)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(os.path.join(inside, os.listdir(inside)[0]), folder)
    return folder


def _safe(archive: zipfile.ZipFile, place: str) -> None:
    root = os.path.realpath(place)
    for name in archive.namelist():
        if not os.path.realpath(os.path.join(root, name)).startswith(root + os.sep):
            raise RuntimeError(f"hub: the archive has a file outside of its folder: {name!r}")


def _ask(owner: str, name: str, trust_repo: Any) -> None:
    """Code of a repository runs here: is its owner trusted?"""
    if trust_repo is True:
        return
    listed = os.path.join(get_dir(), "trusted_list")
    if os.path.exists(listed):
        with open(listed, encoding="utf-8") as lines:
            if f"{owner}_{name}" in lines.read().split():
                return
    if trust_repo == "check":
        answer = input(f"The code of {owner}/{name} will run here. Do you trust it? (y/N) ")
        if answer.strip().lower() in ("y", "yes"):
            os.makedirs(get_dir(), exist_ok=True)
            with open(listed, "a", encoding="utf-8") as lines:
                lines.write(f"{owner}_{name}\n")
            return
    raise RuntimeError(
        f"hub: {owner}/{name} is not trusted; give trust_repo=True if its code may run here"
    )


@contextlib.contextmanager
def _entries(
    repo_or_dir: Any, source: str, force_reload: bool, trust_repo: Any, verbose: bool
) -> Iterator[Any]:
    """The module hubconf.py of a repository, whose folder is where imports look meanwhile."""
    if source not in ("github", "local"):
        raise ValueError(f"hub: source is {source!r}, and may be 'github' or 'local'")
    if source == "github":
        folder = _repository(repo_or_dir, force_reload, trust_repo, verbose)
    else:
        folder = os.path.abspath(os.path.expanduser(os.fspath(repo_or_dir)))
    path = os.path.join(folder, "hubconf.py")
    if not os.path.exists(path):
        raise FileNotFoundError(f"hub: there is no {path}")
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location("hubconf", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        missing = [
            need
            for need in getattr(module, "dependencies", ())
            if importlib.util.find_spec(need) is None
        ]
        if missing:
            raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
        yield module
    finally:
        sys.path.remove(folder)


def _entry(module: Any, name: str) -> Any:
    function = getattr(module, name, None)
    if name[:1] == "_" or not callable(function):
        raise RuntimeError(f"Cannot find callable {name} in hubconf: it has {_names(module)}")
    return function


def _names(module: Any) -> Any:
    return [n for n in dir(module) if n[:1] != "_" and callable(getattr(module, n))]


def list(
    github: Any,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
    verbose: bool = True,
    *,
    source: str = "github",
) -> Any:
    """The models of a repository: names of functions of its hubconf.py.

    Args:
        github: "owner/name:branch", the branch main by default; a folder where source is "local".
        force_reload: fetch it anew.
        skip_validation: not looked at.
        trust_repo: True, or "check" to ask at the terminal; code of the repository runs here.
        verbose: say what is used.
        source: "github" or "local".
    """
    with _entries(github, source, force_reload, trust_repo, verbose) as module:
        return _names(module)


def help(
    github: Any,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
    *,
    source: str = "github",
) -> Any:
    """What a model of a repository says of itself; the arguments are those of `list`."""
    with _entries(github, source, force_reload, trust_repo, True) as module:
        return _entry(module, model).__doc__


def load(
    repo_or_dir: Any,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """What a function of a repository's hubconf.py gives, a model say.

    Args:
        repo_or_dir: "owner/name:branch"; a folder where source is "local".
        model: the function; `args` and `kwargs` are its arguments.
        source: "github" or "local".
        trust_repo: True, or "check" to ask at the terminal; code of the repository runs here.
        force_reload: fetch it anew.
        verbose: say what is used.
        skip_validation: not looked at.

    Raises:
        RuntimeError: it is not trusted, needs a package that is missing, or has no such function.
        FileNotFoundError: it has no hubconf.py.
    """
    with _entries(repo_or_dir, source, force_reload, trust_repo, verbose) as module:
        return _entry(module, model)(*args, **kwargs)
