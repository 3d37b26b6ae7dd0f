"""A checkpoint as a folder: one index, and safetensors files, of which each process writes its own.

The index names the files that belong to it, and is replaced in one step when all of them are on
disk: whoever reads finds the last whole checkpoint, whatever is killed at whatever moment. What an
unfinished one left behind goes with the next.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

import facula
from facula import Tensor, distributed
from facula.utils._atomic import write_file

__all__ = ["load", "save"]

_INDEX = "index.json"
_PART = re.compile(r"step-[0-9a-f]{16}")
_FORMAT = 1


def _group_of(given: Any) -> Any:
    """The group that does it together, or None for this process alone."""
    if given is None and not distributed.is_initialized():
        return None
    return given or distributed.group.WORLD


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Everything in nested dictionaries and lists, with its place."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            if not isinstance(key, (str, int)):
                raise TypeError(
                    f"distributed.checkpoint: {key!r} is a key in {_shown(path)}; keys are texts"
                    " and"
                    " whole numbers"
                )
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list) and value:
        for i, inner in enumerate(value):
            yield from _leaves(inner, (*path, i))
    else:
        yield path, value


def _shown(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path)) or "the state"


def _named(state: Mapping[str, Any]) -> dict[str, Any]:
    named = {}
    for path, value in _leaves(state):
        name = json.dumps(path)
        named[name] = value
    return named


def _every(value: Any, group: Any) -> list[Any]:
    if group is None:
        return [value]
    box = [None] * group.size()
    distributed.all_gather_object(box, value, group)
    return box


def _agree(group: Any, what: str, error: BaseException | None) -> None:
    """All raise if one failed."""
    texts = _every(None if error is None else f"{type(error).__name__}: {error}", group)
    failed = [f"rank {r}: {t}" for r, t in enumerate(texts) if t is not None]
    if error is not None:
        raise error
    if failed:
        raise RuntimeError(f"distributed.checkpoint.{what}: " + "; ".join(failed))


def save(
    state_dict: Mapping[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str],
    process_group: Any = None,
) -> None:
    """Writes a checkpoint, of which each process writes a share. All processes call it.

    Args:
        state_dict: nested dictionaries and lists. Tensors of one name are the same in all processes
            that have it, and written once; a name may be in some processes alone. Other values are
            what `facula.save` takes in a safetensors file; those of the first process count.
        checkpoint_id: a folder; made if it is not there. The checkpoint that it holds stays whole
            until the new one is.
        process_group: all processes by default; without a job this one alone.

    Raises:
        TypeError: a value cannot be written. OSError: the disk is full, or the folder cannot be
        written. RuntimeError: one of these in another process, which it names; the old
        checkpoint is still there.
    """
    group = _group_of(process_group)
    rank = 0 if group is None else group.rank()
    folder = os.fspath(checkpoint_id)
    error: BaseException | None = None
    part = ""
    try:
        named = _named(state_dict)
        part = _begun(folder, rank)
    except Exception as failure:
        error, named = failure, {}
    _agree(group, "save", error)
    part = _every(part, group)[0]
    owners = _owners(named, group, rank)
    try:
        mine = {n: v for n, v in named.items() if owners[n] == rank}
        file = os.path.join(folder, part, f"rank-{rank}.safetensors")
        facula.save(
            {n: v.detach() if isinstance(v, Tensor) else v for n, v in mine.items()},
            file,
            format="safetensors",
        )
    except Exception as failure:
        error = failure
    try:
        _agree(group, "save", error)
    except BaseException:
        if rank == 0:
            shutil.rmtree(os.path.join(folder, part), ignore_errors=True)
        raise
    try:
        if rank == 0:
            _finished(folder, part, owners)
    except Exception as failure:
        error = failure
        shutil.rmtree(os.path.join(folder, part), ignore_errors=True)
    _agree(group, "save", error)


def _begun(folder: str, rank: int) -> str:
    """A new place for files, by the first process."""
    if rank != 0:
        return ""
    os.makedirs(folder, exist_ok=True)
    part = "step-" + secrets.token_hex(8)
    os.mkdir(os.path.join(folder, part))
    return part


def _owners(named: dict[str, Any], group: Any, rank: int) -> dict[str, int]:
    """Who writes what: tensors by whoever has least so far of those that have them."""
    sizes = {
        n: v.numel() * v.element_size() if isinstance(v, Tensor) else -1 for n, v in named.items()
    }
    every = _every(sizes, group)
    have: dict[str, list[int]] = {}
    largest: dict[str, int] = {}
    for r, theirs in enumerate(every):
        for name, size in theirs.items():
            have.setdefault(name, []).append(r)
            largest[name] = max(size, largest.get(name, -1))
    loads = [0] * len(every)
    owners = {}
    for name in sorted(have, key=lambda n: (-largest[n], n)):
        who = have[name]
        owners[name] = who[0] if largest[name] < 0 else min(who, key=lambda r: loads[r])
        loads[owners[name]] += max(largest[name], 0)
    return owners


def _finished(folder: str, part: str, owners: dict[str, int]) -> None:
    """Makes the files the checkpoint, and removes those of others."""
    files = {n: f"{part}/rank-{r}.safetensors" for n, r in owners.items()}
    text = json.dumps({"format": _FORMAT, "files": files}, indent=0).encode()
    descriptor = os.open(os.path.join(folder, part), os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    write_file(os.path.join(folder, _INDEX), lambda file: file.write(text) and None)
    for name in os.listdir(folder):
        if _PART.fullmatch(name) and name != part:
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str],
    process_group: Any = None,
) -> None:
    """Fills a state with a checkpoint, in place. Each process reads what its state has.

    Args:
        state_dict: of the form of the one that was saved, or a part of it. Tensors keep their
        place,
            dtype and device; other values are replaced.
        checkpoint_id: the folder. How many processes wrote it does not matter.

    Raises:
        FileNotFoundError: there is no checkpoint. ValueError: the index or a file is damaged, or a
        tensor has another shape. KeyError: the checkpoint lacks a name.
    """
    folder = os.fspath(checkpoint_id)
    files = _index_of(folder)
    opened: dict[str, Any] = {}
    found: list[tuple[tuple[Any, ...], Any, Any]] = []
    for path, value in _leaves(state_dict):
        name = json.dumps(path)
        if name not in files:
            raise KeyError(
                f"distributed.checkpoint.load: {folder} has no {_shown(path)}; it has"
                f" {len(files)} names"
            )
        file = files[name]
        if file not in opened:
            opened[file] = facula.load(os.path.join(folder, file))
        stored = opened[file][name]
        if isinstance(value, Tensor) and (
            not isinstance(stored, Tensor) or stored.shape != value.shape
        ):
            have = tuple(stored.shape) if isinstance(stored, Tensor) else type(stored).__name__
            raise ValueError(
                f"distributed.checkpoint.load: {_shown(path)} is {have} in {folder}, and"
                f" {tuple(value.shape)} here"
            )
        found.append((path, value, stored))
    for path, value, stored in found:  # nothing is written before all fits
        if isinstance(value, Tensor):
            with facula.no_grad():
                value.copy_(stored)
        else:
            _put(state_dict, path, stored)


def _index_of(folder: str) -> dict[str, str]:
    path = os.path.join(folder, _INDEX)
    with open(path, "rb") as file:
        try:
            index = json.loads(file.read())
            files = index["files"]
            good = index["format"] == _FORMAT and all(
                isinstance(f, str) and re.fullmatch(_PART.pattern + r"/rank-\d+\.safetensors", f)
                for f in files.values()
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            good = False
    if not good:
        raise ValueError(f"distributed.checkpoint.load: {path} is no index of a checkpoint")
    return dict(files)


def _put(state: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        state = state[key]
    state[path[-1]] = value
