"""Every operator with numbers that no size has: a right result or an error with a text, at once.

No call may crash, compute for long, need much memory for a small result, or speak of its own
inside. Calls run in child processes, which such faults end. FACULA_EXTREMES=thorough tries all
numbers, pairs of them and empty tensors: some five minutes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from extreme_calls import calls
from facula.testing._samples import operators

THOROUGH = os.environ.get("FACULA_EXTREMES") == "thorough"
SHARDS = 8
NAMES = [op.name for op in operators() if op.samples() and not op.derived_from]
CALLS = list(dict.fromkeys(name for name, *_ in calls()))

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or "asan" in Path("/proc/self/maps").read_text(),
    reason="limits the address space",
)


def faults_of(names: list[str], called: list[str], folder: Path, seconds: float) -> list[str]:
    """What is wrong with any call; a child that a call ends is followed by another."""
    found: list[str] = []
    at, first = folder / "at", 0
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    while len(found) < 500:
        job = {
            "ops": names,
            "calls": called,
            "thorough": THOROUGH,
            "first": first,
            "at": str(at),
            "seconds": seconds,
        }
        at.write_bytes(b"")
        child = subprocess.run(
            [
                sys.executable,
                os.path.join(os.path.dirname(__file__), "extremes.py"),
                json.dumps(job),
            ],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        found += child.stdout.splitlines()
        if child.returncode == 0:
            return found
        number, _, text = at.read_text().strip().partition("\t")
        if not number:
            return [*found, child.stderr]
        reason = signal.Signals(-child.returncode).name if child.returncode < 0 else child.stderr
        found.append(f"{text}: {reason}")
        first = int(number) + 1
    return found


@pytest.mark.parametrize("shard", range(SHARDS))
def test_extreme_numbers(shard: int, tmp_path: Path) -> None:
    names = [n for n in NAMES if zlib.crc32(n.encode()) % SHARDS == shard]
    found = faults_of(names, CALLS[shard::SHARDS], tmp_path, 4.0 if THOROUGH else 2.0)
    assert not found, "\n".join(found)
