"""`python -m facula.as_torch --scan PATH`: which of torch's names are used, and which are missing.

from facula.as_torch.scan import scan
report = scan(["program.py"])
report.missing                      # names, without "torch."
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import facula
from facula.as_torch import _spaces
from facula.as_torch._refused import is_refused
from facula.as_torch._uses import Use, uses_of
from facula.as_torch._version import __version__

__all__ = ["Name", "Report", "main", "scan", "status_of"]

# What a status says, worst first.
STATUSES = {
    "missing": "facula lacks it",
    "refused": "can be imported; raises when it is used",
    "maybe": "a method that facula's tensors lack, of what may be another object",
    "guarded": "facula lacks it, and the program looks for it before use",
    "there": "facula has it",
}
# Methods of other objects that programs are full of.
_COMMON = frozenset(
    name for kind in (str, bytes, list, tuple, dict, set, int, float, complex) for name in dir(kind)
) | {"indices", "name", "resize"}  # of named tuples, of nearly anything, and of images


@dataclass
class Name:
    """One name of torch: its status (a key of `STATUSES`) and the places that use it."""

    name: str
    status: str
    places: list[str] = field(default_factory=list)


@dataclass
class Report:
    """What `scan` found; `unread` has the files that are no Python, and why."""

    files: int
    names: list[Name]
    unread: list[str]

    @property
    def missing(self) -> list[str]:
        """Names that facula lacks and the program needs."""
        return [name.name for name in self.names if name.status == "missing"]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "torch": str(__version__),
            "facula": facula.__version__,
            "files": self.files,
            "names": [
                {"name": "torch." + n.name, "status": n.status, "places": n.places}
                for n in self.names
            ],
            "unread": self.unread,
        }

    def table(self) -> str:
        """A line per name, the missing ones first, and the sums."""
        width = max([len(n.name) for n in self.names] + [4]) + 6
        lines = []
        for n in self.names:
            more = f" and {len(n.places) - 1} more" if len(n.places) > 1 else ""
            lines.append(f"{n.status:<8} {'torch.' + n.name:<{width}} {n.places[0]}{more}")
        counts = collections.Counter(n.status for n in self.names)
        lines += [f"not read: {text}" for text in self.unread]
        sums = ", ".join(f"{counts[s]} {s}" for s in STATUSES if counts[s]) or "none of torch's"
        lines.append(f"{self.files} files, {len(self.names)} names: {sums}")
        lines += [f"  {s}: {text}" for s, text in STATUSES.items() if counts[s] and s != "there"]
        return "\n".join(lines)


def scan(paths: Iterable[str]) -> Report:
    """Read files, folders and packages (by name), and look their uses of torch up in facula.

    Raises:
        FileNotFoundError: a path is neither a file, a folder nor the name of a package.
    """
    found: dict[str, list[tuple[Use, str]]] = {}
    unread: list[str] = []
    files = 0
    for path in paths:
        for file in _files_of(path):
            files += 1
            try:
                with open(file, "rb") as stream:
                    uses = uses_of(stream.read(), file)  # type: ignore[arg-type]
            except (SyntaxError, ValueError, RecursionError) as error:
                unread.append(f"{file}: {error}")
                continue
            for use in uses:
                name = _significant(use.name)
                found.setdefault(name, []).append((use, f"{file}:{use.line}"))
    names = []
    for name, places in found.items():
        status = status_of(name)
        if status == "missing":
            status = _softened(name, [use for use, _ in places])
        elif not any(use.sure for use, _ in places):
            continue  # another object's method as likely as a tensor's, and no harm either way
        if status:
            names.append(Name(name, status, [place for _, place in places]))
    order = list(STATUSES)
    names.sort(key=lambda n: (order.index(n.status), n.name))
    return Report(files, _without_parents(names), unread)


def status_of(name: str) -> str:
    """ "there", "refused" or "missing", for a name such as "nn.Linear"."""
    try:
        value = _spaces.resolve(name)
    except (AttributeError, ImportError):
        return "missing"
    return "refused" if is_refused(value) else "there"


def _softened(name: str, uses: list[Use]) -> str:
    """The status of a missing name by how it is used; "" if it is of no concern."""
    sure = [use for use in uses if use.sure]
    if not sure:
        return "" if name.rpartition(".")[2] in _COMMON else "maybe"
    return "guarded" if all(use.guarded for use in sure) else "missing"


def _significant(name: str) -> str:
    """`name` up to what is no namespace or class: attributes of objects are not looked at."""
    value: Any = _spaces.space("")
    parts = name.split(".")
    for i, part in enumerate(parts):
        try:
            value = getattr(value, part)
        except (AttributeError, ImportError):
            return ".".join(parts[: i + 1])
        if not isinstance(value, (_spaces.Namespace, type)):
            return ".".join(parts[: i + 1])
    return name


def _without_parents(names: list[Name]) -> list[Name]:
    """Without namespaces that are there and stand for a name within."""
    inner = {n.name.rpartition(".")[0] for n in names}
    return [n for n in names if not (n.status == "there" and n.name in inner)]


def _files_of(path: str) -> Iterator[str]:
    if os.path.isfile(path):
        yield path
        return
    if not os.path.isdir(path):
        spec = None
        if all(part.isidentifier() for part in path.split(".")):
            try:
                spec = importlib.util.find_spec(path)
            except (ImportError, ValueError):
                spec = None
        if spec is None:
            raise FileNotFoundError(
                f"{path!r} is neither a file, a folder nor the name of an installed package"
            )
        if not spec.submodule_search_locations:
            yield str(spec.origin)
            return
        for location in spec.submodule_search_locations:
            yield from _files_of(location)
        return
    for folder, inner, files in os.walk(path):
        inner[:] = sorted(
            d
            for d in inner
            if d[:1] != "."
            and d != "__pycache__"
            and not os.path.exists(os.path.join(folder, d, "pyvenv.cfg"))
        )
        yield from (os.path.join(folder, f) for f in sorted(files) if f.endswith(".py"))


def main(arguments: list[str]) -> int:
    """Print the table; 1 if a name is missing, 2 if a path is not there."""
    parser = argparse.ArgumentParser(prog="python -m facula.as_torch --scan")
    parser.add_argument("path", nargs="+", help="file, folder, or name of a package")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    options = parser.parse_args(arguments)
    try:
        report = scan(options.path)
    except FileNotFoundError as error:
        parser.error(str(error))
    print(json.dumps(report.as_dict(), indent=1) if options.json else report.table())
    return 1 if report.missing else 0
