"""Runs a package's tests in one of the two environments, and keeps what became of them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
from pathlib import Path
from typing import Any

from .table import Package

__all__ = ["collect", "draw", "run"]

ROOT = Path(__file__).resolve().parents[2]
#: Seconds that one run of pytest may take, and that a test may, for the plugin pytest-timeout.
ALL = 1800
LIMIT = ("--timeout=90",)
#: Bytes that it may have.
MEMORY = 6 << 30


def _pytest(work: Path, side: str, package: Package, folder: Path, paths: list[str]) -> int:
    python = str(work / side / "bin" / "python")
    command = [
        *(python, *(("-m", "facula.as_torch") if side == "facula" else ()), "-m", "pytest", "-q"),
        *("-p", "tools.packages.recorder", "-p", "no:cacheprovider", "--rootdir=."),
        *("--continue-on-collection-errors", *LIMIT, *package.options, *paths),
    ]
    env = {
        **os.environ,
        "FACULA_PACKAGES": str(folder),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *_sources(side)]),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        **dict(setting.split("=", 1) for setting in package.settings),
    }
    with (folder / "log").open("a") as log:
        try:
            return subprocess.run(
                command,
                cwd=work / "src" / package.name,
                env=env,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                timeout=ALL,
                preexec_fn=_limit,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            return -1


def _sources(side: str) -> list[str]:
    """facula's sources where they hold the compiled module; else the one that is installed."""
    place = ROOT / "python"
    return [str(place)] if side == "facula" and any(place.glob("facula/_C*.so")) else []


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def _folder(work: Path, side: str, package: Package) -> Path:
    folder = work / "runs" / side / package.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def collect(work: Path, side: str, package: Package) -> list[str]:
    """The names of the package's tests."""
    folder = _folder(work, side, package)
    _pytest(work, side, package, folder, list(package.tests))
    if not (folder / "collected").exists():
        raise RuntimeError(f"{package.name}: nothing was collected; see {folder / 'log'}")
    names = (folder / "collected").read_text(encoding="utf-8").split("\n")
    return [name for name in names if re.search(package.only, name)]


def draw(names: list[str], count: int, seed: int) -> list[str]:
    """`count` of the tests: the same ones whatever else is collected."""

    def key(name: str) -> bytes:
        return hashlib.sha256(f"{seed} {name}".encode()).digest()

    chosen = set(sorted(names, key=key)[:count])
    return [name for name in names if name in chosen]


def run(work: Path, side: str, package: Package, names: list[str]) -> dict[str, dict[str, Any]]:
    """Runs the named tests: {name: {"outcome": "passed", ..., "reason": text, "where": place}}.

    After a crash the rest are run anew; the test it was in has the outcome "crashed".
    """
    folder = _folder(work, side, package)
    found: dict[str, dict[str, Any]] = {}
    files: dict[str, str] = {}
    left = list(names)
    while left:
        (folder / "wanted").write_text(json.dumps(left), encoding="utf-8")
        (folder / "done").write_text("", encoding="utf-8")
        paths = list(dict.fromkeys(name.partition("::")[0] for name in left))
        code = _pytest(work, side, package, folder, paths)
        started = None
        for line in (folder / "done").read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if "start" in entry:
                started = entry["start"]
            elif "file" in entry:
                files[entry["file"]] = entry["reason"]
            elif found.get(entry["test"], {}).get("outcome") in (None, "passed"):
                found[entry["test"]] = entry
        if started is None and code not in (0, 1, 5):
            files[""] = _last_error((folder / "log").read_text(encoding="utf-8"))
        if code in (0, 1, 2, 5) or started is None:
            break
        if started not in found:
            found[started] = {"outcome": "crashed", "reason": f"crash: exit status {code}"}
        rest = [name for name in left if name not in found]
        if len(rest) == len(left):
            break
        left = rest
    for name in names:
        if name not in found:
            at_fault = files.get(name.partition("::")[0]) or files.get("", "not collected")
            found[name] = {"outcome": "missing", "reason": at_fault, "where": ""}
    return {name: found[name] for name in names}


def _last_error(log: str) -> str:
    """What a run said that did not come as far as a test."""
    lines = [line for line in log.splitlines() if line.startswith("E  ")]
    return lines[-1][1:].strip() if lines else "pytest ended before the first test"
