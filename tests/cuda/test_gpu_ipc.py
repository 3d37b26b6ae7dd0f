"""Tensors of a GPU in queues: another process opens their memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cuda
PROGRAMS = Path(__file__).parent / "ipc_programs.py"


@pytest.mark.parametrize(
    "name",
    ["queue", "arguments", "killed", "sender_gone", "same_process", "ordered", "reused"],
)  # fmt: skip
def test_programs(name: str) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAMS), name], capture_output=True, text=True, check=False,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.endswith("good\n"), done.stdout + done.stderr


def test_expandable_segments() -> None:
    env = {**os.environ, "FACULA_DEVICE_EXPANDABLE": "1"}
    done = subprocess.run(
        [sys.executable, str(PROGRAMS), "expandable"], capture_output=True, text=True, check=False,
        env=env, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
