"""Compiling what changed, in a folder that processes share under a lock."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from facula.utils.cpp_extension import _elf, _tools


@dataclass
class Unit:
    """One source with what its compilation depends on beside the headers that it finds."""

    source: Path
    text: str  # for what is generated; "" where the source is the user's own file
    flags: tuple[str, ...] = ()

    def object_name(self) -> str:
        return f"{self.source.stem}-{_digest(str(self.source), *self.flags)[:8]}.o"


@dataclass
class Project:
    """The library `name` in a folder: its sources, and the flags of all of them."""

    name: str
    folder: Path
    units: list[Unit]
    flags: list[str]
    link_flags: list[str]
    verbose: bool = False
    explain: Any = None  # says of functions that are missing who wants them

    def build(self) -> Path:
        """The library, built anew where anything that it is made of has changed."""
        command = [*_tools.compiler()]
        base = _digest(
            _tools.abi(), _tools.version_of(command), *command, *self.flags, *self.link_flags
        )
        old = _read(self.folder / "manifest.json")
        records: dict[str, Any] = {}
        stale: list[Unit] = []
        for unit in self.units:
            name = unit.object_name()
            record = old.get("objects", {}).get(name)
            key = _digest(base, unit.text or _digest_of(unit.source))
            if record and record["key"] == key and self._is_fresh(name, record["headers"]):
                records[name] = record
            else:
                stale.append(unit)
                records[name] = {"key": key}
        wanted = _digest(base, json.dumps(sorted(records)))
        library = self.folder / old.get("library", "none")
        if not stale and old.get("linked") == wanted and library.exists():
            return library
        with ThreadPoolExecutor(max(1, min(len(stale), _cpus()))) as pool:
            jobs = [pool.submit(self.compile, command, unit) for unit in stale]
        errors = [e for job in jobs if (e := job.exception()) is not None]
        for unit, job in zip(stale, jobs, strict=True):
            if job.exception() is None:
                records[unit.object_name()]["headers"] = job.result()
            else:
                del records[unit.object_name()]
        # what went well is not done again, whatever follows
        self._note({"objects": records, "library": old.get("library", "none")})
        if others := [e for e in errors if not isinstance(e, _tools.BuildError)]:
            raise others[0]
        if errors:
            raise _tools.BuildError("\n\n".join(map(str, errors)))
        library = self.link(command, sorted(records), wanted, records)
        self._note({"objects": records, "library": library.name, "linked": wanted})
        self.clear(library, records)
        return library

    def _note(self, manifest: Mapping[str, Any]) -> None:
        write_text(self.folder / "manifest.json", json.dumps(manifest))

    def _is_fresh(self, name: str, headers: Mapping[str, str]) -> bool:
        there = (self.folder / name).exists()
        return there and all(_digest_of(Path(p)) == digest for p, digest in headers.items())

    def compile(self, command: Sequence[str], unit: Unit) -> dict[str, str]:
        """Compiles one source; the headers of the user's that it read, with their digests."""
        if unit.text:
            write_text(unit.source, unit.text)
        target = self.folder / unit.object_name()
        deps = target.with_suffix(".d")
        made = target.with_suffix(".tmp.o")
        what = ["-MMD", "-MF", str(deps), "-c", str(unit.source), "-o", str(made)]
        said = f"compiling {unit.source.name} of the extension {self.name}"
        _tools.run([*command, *_tools.FLAGS, *self.flags, *unit.flags, *what], said, self.verbose)
        os.replace(made, target)
        read = deps.read_text(encoding="utf-8").replace("\\\n", " ").partition(":")[2]
        paths = [p.replace("\\ ", " ") for p in re.split(r"(?<!\\)\s+", read) if p]
        return {p: _digest_of(Path(p)) for p in paths}

    def link(
        self,
        command: Sequence[str],
        objects: Sequence[str],
        wanted: str,
        records: Mapping[str, Any],
    ) -> Path:
        content = _digest(wanted, json.dumps(records, sort_keys=True))
        library = self.folder / f"{self.name}-{content[:12]}.so"
        made = library.with_suffix(".tmp")
        files = [str(self.folder / name) for name in objects]
        what = [*files, *_tools.LINK_FLAGS, *self.link_flags, "-o", str(made)]
        try:
            _tools.run([*command, *what], f"linking the extension {self.name}", self.verbose)
        except _tools.BuildError as error:
            said = str(error)
            more = self.explain(said, files) if self.explain else ""
            raise _tools.BuildError(f"{said}\n{more}".rstrip()) from None
        finish(made, self.name, self.explain)
        os.replace(made, library)
        return library

    def clear(self, library: Path, records: Mapping[str, Any]) -> None:
        """Removes what earlier builds left; a process that has a library loaded keeps it."""
        for path in [*self.folder.glob("*.so"), *self.folder.glob("*.o")]:
            if path != library and path.name not in records:
                path.unlink(missing_ok=True)


def finish(library: Path, name: str, explain: Any = None) -> None:
    """The last step of every build: looks that nothing is missing, and weakens what is facula's.

    Raises BuildError for functions that neither the extension nor facula has, and where one of the
    two has a C++ runtime of its own, so that no exception could pass between them.
    """
    alone = [p for p in (library, _tools.CORE) if _elf.holds_runtime(p)]
    if alone:
        raise _tools.BuildError(
            f"the extension {name} would not share a C++ runtime with facula: one is linked into "
            f"{' and '.join(p.name for p in alone)}; build with a compiler and flags that leave "
            "libstdc++ a library of its own (no -static-libstdc++), facula too"
        )
    lost = _elf.missing(library, _tools.CORE)
    if lost:
        names = _demangled(lost)
        text = "\n".join(f"undefined symbol: {n}" for n in names)
        more = explain(text) if explain else ""
        raise _tools.BuildError(
            f"the extension {name} calls functions that neither it nor facula has:\n"
            + (f"{text}\n{more}" if more else text)
        )
    _elf.weaken(library)


def _demangled(names: Sequence[str]) -> list[str]:
    try:
        return _tools.run(["c++filt", *names], "c++filt", False).splitlines()
    except (OSError, _tools.BuildError):
        return list(names)


# ---- the cache ----


def cache_folder() -> Path:
    """FACULA_CACHE, else the user's own folder of caches; as the texts of CUDA kernels have it."""
    for variable, below in (("FACULA_CACHE", ""), ("XDG_CACHE_HOME", "facula")):
        if stated := os.environ.get(variable):
            return Path(stated, below, "extensions").absolute()
    return Path.home() / ".cache" / "facula" / "extensions"


def folder_of(name: str, stated: str | os.PathLike[str] | None, *key: str) -> Path:
    """Where an extension is built: one place for each Python, facula and set of sources."""
    if stated is not None:
        return Path(stated).absolute()
    tag = sys.implementation.cache_tag or "python"
    return cache_folder() / f"{name}-{_digest(tag, _tools.abi(), *key)[:12]}"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time; the others wait, and find what it made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise RuntimeError(
            f"extensions are built in {folder}, which cannot be written ({error}); pass "
            "build_directory=, or set FACULA_CACHE to a folder that can"
        ) from error
    with lock:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_text(path: Path, text: str) -> None:
    """Replaces a file, whole or not at all; one that says the same stays."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(path.name + ".tmp")
    made.write_text(text, encoding="utf-8")
    os.replace(made, path)


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _digest_of(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "missing"


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
