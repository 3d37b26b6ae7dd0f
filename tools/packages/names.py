"""Which names of a list facula has, under its own name and as torch.

A list has a line `## facula.nn (169)` for each module, and below it the module's public names.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Found", "find", "lists", "table"]


@dataclass
class Found:
    """What is there of a module's names.

    lacking: names that `facula.MODULE` has not.
    absent: names that `torch.MODULE` has not, where torch is facula.
    refused: names that are there to be imported, and raise when they are used.
    """

    module: str
    names: list[str]
    lacking: list[str]
    absent: list[str]
    refused: list[str]


def lists(path: Path) -> dict[str, list[str]]:
    """The names of a list, by module."""
    found: dict[str, list[str]] = {}
    module = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            module = re.sub(r"\s*\(\d+\)", "", line[3:]).strip()
        elif line and not line.startswith("#"):
            found.setdefault(module, []).extend(line.split())
    return found


def _place(module: str) -> Any:
    """A module, or a class of one; None where there is none."""
    try:
        return importlib.import_module(module)
    except ImportError:
        outer, _, name = module.rpartition(".")
        return getattr(_place(outer), name, None) if outer else None


def find(path: Path) -> Iterator[Found]:
    """What is there of each module of a list."""
    from facula.as_torch._refused import is_refused
    from facula.as_torch._spaces import resolve

    for module, names in lists(path).items():
        place = _place(module)
        found = Found(module, names, [n for n in names if not hasattr(place, n)], [], [])
        for name in names:
            inner = ".".join([*module.split(".")[1:], name])
            try:
                value = resolve(inner)
            except AttributeError:
                found.absent.append(name)
                continue
            if is_refused(value):
                found.refused.append(name)
        yield found


def table(path: Path, all_names: bool) -> str:
    """A line a module, and the sums."""
    lines = [f"{'module':<28}{'names':>7}{'facula lacks':>14}{'torch lacks':>13}{'refused':>9}"]
    sums = [0, 0, 0, 0]
    for found in find(path):
        counts = [len(x) for x in (found.names, found.lacking, found.absent, found.refused)]
        sums = [a + b for a, b in zip(sums, counts, strict=True)]
        lines.append("{:<28}{:>7}{:>14}{:>13}{:>9}".format(found.module, *counts))
        if all_names:
            kinds = (("facula", found.lacking), ("torch", found.absent), ("refused", found.refused))
            lines += [f"    {kind}: {' '.join(names)}" for kind, names in kinds if names]
    lines.append("{:<28}{:>7}{:>14}{:>13}{:>9}".format("all", *sums))
    return "\n".join(lines)
