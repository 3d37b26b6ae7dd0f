"""A checkpoint as a folder: one index, and safetensors files, of which each process writes its own.

The index names the files that belong to it, and is replaced in one step when all of them are on
disk: whoever reads finds the last whole checkpoint, whatever is killed at whatever moment. What an
unfinished one left behind goes with the next.

A tensor in parts (`DTensor`) is in the index under its name with the range of each part, along each
dimension; who reads takes what overlaps with the part it wants.
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
from facula.distributed.checkpoint.stateful import Stateful
from facula.distributed.tensor._layout import layout_of
from facula.utils._atomic import write_file

__all__ = ["load", "save"]

_INDEX = "index.json"
_PART = re.compile(r"step-[0-9a-f]{16}")
_FORMAT = 2  # 1 had no parts
_Ranges = tuple[tuple[int, int], ...]


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


def _named(state: Mapping[str, Any], shapes: dict[str, Any]) -> dict[str, Any]:
    """What this process has, by name; parts with their ranges behind the name."""
    named = {}
    for path, value in _leaves(state):
        name, layout = json.dumps(path), layout_of(value)
        if layout is None or not layout.steps:
            if layout is not None and any(p.is_partial() for p in layout.placements):
                raise TypeError(
                    f"distributed.checkpoint.save: {_shown(path)} is Partial: it has summands in"
                    " several processes; redistribute it"
                )
            named[name] = value
            continue
        shapes[name] = list(layout.full_shape)
        if value.numel():
            named[f"{name} {json.dumps(layout.ranges)}"] = value
    return named


def _states(state: Mapping[str, Any]) -> dict[str, Any]:
    """Objects that have a state, such as modules, become it."""
    return {k: v.state_dict() if isinstance(v, Stateful) else v for k, v in state.items()}


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
        state_dict: nested dictionaries and lists, and objects with `state_dict()` in the outermost
            one. Tensors of one name are the same in all processes that have it, and written once; a
            name may be in some processes alone. Of a `DTensor` each process writes its part. Other
            values are what `facula.save` takes in a safetensors file; those of the first process
            count.
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
    shapes: dict[str, Any] = {}
    try:
        named = _named(_states(state_dict), shapes)
        part = _begun(folder, rank)
    except Exception as failure:
        error, named = failure, {}
    _agree(group, "save", error)
    every = _every((part, shapes), group)
    part = every[0][0]
    for _, theirs in every:
        shapes.update(theirs)
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
            _finished(folder, part, owners, shapes)
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


def _finished(folder: str, part: str, owners: dict[str, int], shapes: dict[str, Any]) -> None:
    """Makes the files the checkpoint, and removes those of others."""
    files = {n: f"{part}/rank-{r}.safetensors" for n, r in owners.items()}
    index = {"format": _FORMAT, "files": files, "shapes": shapes}
    text = json.dumps(index, indent=0).encode()
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
    contents = _Contents(folder)
    states = _states(state_dict)
    found: list[tuple[tuple[Any, ...], Any, Any]] = []
    for path, value in _leaves(states):
        name = json.dumps(path)
        if isinstance(value, Tensor):
            contents.check(name, path, value)
            found.append((path, value, name))
        else:
            found.append((path, value, contents.value(name, path)))
    for path, value, stored in found:  # nothing is written before all fits
        if isinstance(value, Tensor):
            contents.fill(value, stored)
        else:
            _put(states, path, stored)
    for key, given in state_dict.items():
        if isinstance(given, Stateful):
            given.load_state_dict(states[key])
        elif states[key] is not given:
            state_dict[key] = states[key]


class _Contents:
    """What a checkpoint has, read as it is wanted."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files, self._shapes = _index_of(folder)
        self._parts: dict[str, list[tuple[str, _Ranges]]] = {n: [] for n in self._shapes}
        for key in self._files:
            name, at, ranges = key.rpartition("] [[")
            if name + "]" in self._parts and at:
                read = tuple((int(a), int(b)) for a, b in json.loads("[[" + ranges))
                self._parts[name + "]"].append((key, read))
        self._opened: dict[str, Any] = {}

    def _stored(self, key: str) -> Any:
        file = self._files[key]
        if file not in self._opened:
            self._opened[file] = facula.load(os.path.join(self._folder, file))
        return self._opened[file][key]

    def value(self, name: str, path: tuple[Any, ...]) -> Any:
        """What is under a name, in one piece."""
        if name in self._shapes:
            whole = facula.empty(self._shapes[name], dtype=self._stored(self._key(name)).dtype)
            self.fill(whole, name)
            return whole
        if name not in self._files:
            raise KeyError(
                f"distributed.checkpoint.load: {self._folder} has no {_shown(path)}; it has"
                f" {len(self._files)} names"
            )
        return self._stored(name)

    def _key(self, name: str) -> str:
        """Where the first part is."""
        return self._parts[name][0][0] if self._parts[name] else name

    def check(self, name: str, path: tuple[Any, ...], value: Tensor) -> None:
        """Raises if a tensor cannot be filled."""
        layout = layout_of(value)
        wanted = tuple(value.shape) if layout is None else layout.full_shape
        if name in self._shapes:
            have: Any = tuple(self._shapes[name])
        else:
            stored = self.value(name, path)
            is_tensor = isinstance(stored, Tensor)
            have = tuple(stored.shape) if is_tensor else type(stored).__name__
        if have != wanted:
            raise ValueError(
                f"distributed.checkpoint.load: {_shown(path)} is {have} in {self._folder}, and"
                f" {wanted} here"
            )
        if name in self._shapes:
            count = sum(_size(_overlap(r, _ranges_of(value))) for _, r in self._parts[name])
            if count != value.numel():
                raise ValueError(
                    f"distributed.checkpoint.load: of {_shown(path)} {self._folder} has {count} of"
                    f" {value.numel()} elements that are wanted here"
                )

    def fill(self, value: Tensor, name: str) -> None:
        """Copies what is stored to a tensor, or to the part that it is."""
        wanted, layout = _ranges_of(value), layout_of(value)
        with facula.no_grad():
            if name not in self._shapes:
                stored = self._stored(name)
                value.copy_(stored if layout is None else layout.part(stored))
                return
            for key, ranges in self._parts[name]:
                shared = _overlap(ranges, wanted)
                if _size(shared):
                    source = _cut(self._stored(key), shared, ranges)
                    _cut(value.detach(), shared, wanted).copy_(source)


def _ranges_of(t: Tensor) -> _Ranges:
    layout = layout_of(t)
    return tuple((0, n) for n in t.shape) if layout is None else layout.ranges


def _overlap(a: _Ranges, b: _Ranges) -> _Ranges:
    pairs = zip(a, b, strict=True)
    return tuple((max(x[0], y[0]), min(x[1], y[1])) for x, y in pairs)


def _size(ranges: _Ranges) -> int:
    count = 1
    for first, last in ranges:
        count *= max(0, last - first)
    return count


def _cut(part: Tensor, wanted: _Ranges, has: _Ranges) -> Tensor:
    """The wanted ranges of a tensor that is there for some ranges."""
    for dim, ((first, last), (start, _)) in enumerate(zip(wanted, has, strict=True)):
        part = part.narrow(dim, first - start, last - first)
    return part


def _index_of(folder: str) -> tuple[dict[str, str], dict[str, list[int]]]:
    path = os.path.join(folder, _INDEX)
    with open(path, "rb") as file:
        try:
            index = json.loads(file.read())
            files, shapes = index["files"], index.get("shapes", {})
            good = index["format"] in (1, _FORMAT) and all(
                isinstance(f, str) and re.fullmatch(_PART.pattern + r"/rank-\d+\.safetensors", f)
                for f in files.values()
            )
            good = good and all(isinstance(n, int) for s in shapes.values() for n in s)
        except (ValueError, KeyError, TypeError, AttributeError):
            good = False
    if not good:
        raise ValueError(f"distributed.checkpoint.load: {path} is no index of a checkpoint")
    return dict(files), dict(shapes)


def _put(state: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        state = state[key]
    state[path[-1]] = value
