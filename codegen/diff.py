"""How the generated files change against a git revision."""

from __future__ import annotations

import difflib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

SOURCES = ("ops.yaml", "codegen", "python")


class RevisionError(Exception):
    """The revision is unknown, its generator fails, or there is no git."""


def texts_at(root: Path, revision: str) -> dict[str, str]:
    """What the generator of a revision makes of that revision's schema."""
    command = ["git", "-C", str(root), "archive", "--format=tar", revision, "--", *SOURCES]
    if shutil.which("git") is None:
        raise RevisionError("git is not installed, and holds the revisions")
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode:
        raise RevisionError(archive.stderr.decode().strip())
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
            # Early releases of Python 3.10 and 3.11 have no filters.
            safe: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            tar.extractall(folder, **safe)
        out = Path(folder) / "out"
        generator = [sys.executable, "-m", "codegen", "gen", "--out", str(out)]
        made = subprocess.run(generator, cwd=folder, capture_output=True, text=True, check=False)
        if made.returncode:
            raise RevisionError(f"the generator of {revision} fails:\n{made.stderr.strip()}")
        paths = [p for p in out.rglob("*") if p.is_file()]
        return {str(p.relative_to(out)): p.read_text(encoding="utf-8") for p in paths}


def unified(old: Mapping[str, str], new: Mapping[str, str], revision: str) -> Iterator[str]:
    """Lines of a unified diff, file by file."""
    for name in sorted({*old, *new}):
        before, after = old.get(name, ""), new.get(name, "")
        if before != after:
            yield from difflib.unified_diff(
                before.splitlines(),
                after.splitlines(),
                f"{revision}/{name}" if name in old else "/dev/null",
                f"now/{name}" if name in new else "/dev/null",
                lineterm="",
            )


def stat(lines: list[str]) -> Iterator[str]:
    """Added and removed lines of each file of a unified diff."""
    counts: dict[str, list[int]] = {}
    name = ""
    for line in lines:
        if line.startswith("--- "):
            name = line[4:].partition("/")[2]
        elif line.startswith("+++ "):
            name = line[4:].partition("/")[2] if line != "+++ /dev/null" else name
            counts[name] = [0, 0]
        elif line.startswith("+"):
            counts[name][0] += 1
        elif line.startswith("-"):
            counts[name][1] += 1
    width = max(map(len, counts), default=0)
    for file, (added, removed) in counts.items():
        yield f"{file:{width}}  +{added} -{removed}"
    total = [sum(column) for column in zip(*counts.values(), strict=True)] or [0, 0]
    yield f"{len(counts)} files, +{total[0]} -{total[1]}"
