"""Memory of a device in other processes, with a driver whose memory is files without a name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "ipc_programs.py"


@pytest.mark.parametrize(
    "name", ["queue", "arguments", "killed", "sender_gone", "same_process", "expandable"]
)
def test_programs(name: str, pretended: Path, tmp_path: Path) -> None:
    path = os.pathsep.join([str(pretended), *(p for p in sys.path if p)])
    env = {
        **os.environ, "LD_LIBRARY_PATH": str(pretended), "PYTHONPATH": path,
        "FACULA_CACHE": str(tmp_path),
        "FACULA_DEVICE_EXPANDABLE": "1" if name == "expandable" else "0",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(PROGRAMS), name], capture_output=True, text=True, env=env, check=False,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.endswith("good\n"), done.stdout + done.stderr
