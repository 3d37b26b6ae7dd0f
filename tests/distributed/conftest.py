"""Jobs of several processes: `job(n, code)` runs a program in each and gives what each printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mpi4py", reason="processes on CPUs are joined by mpi4py")

HEAD = """
import os, sys, time, signal
import facula as fa
import facula.distributed as dist
from facula.distributed import ReduceOp
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
"""


class Job:
    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0

    def program(self, code: str) -> Path:
        self.count += 1
        path = self.folder / f"program {self.count}.py"
        path.write_text(HEAD + textwrap.dedent(code), encoding="utf-8")
        return path

    def launch(self, n: int, program: Path, *flags: str, **environment: str) -> Any:
        return subprocess.run(
            [
                *(sys.executable, "-m", "facula.distributed.run", "--nproc-per-node", str(n)),
                *(*flags, str(program)),
            ],
            capture_output=True,
            text=True,
            timeout=150,
            env={**os.environ, "FACULA_DISTRIBUTED_PATIENCE": "8", **environment},
            cwd=self.folder,
        )

    def __call__(self, n: int, code: str, *flags: str, **environment: str) -> list[list[str]]:
        """What each rank printed; all must end well."""
        done = self.launch(n, self.program(code), *flags, **environment)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = re.findall(r"^\[(\d+)\] (.*)$", done.stdout, re.M)
        return [[text for rank, text in lines if int(rank) == r] for r in range(n)]

    def by_hand(self, n: int, code: str, **environment: str) -> list[tuple[int, str]]:
        """Started without a launcher: each rank's status and all that it printed."""
        import socket

        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        program = self.program(code)
        running = []
        for rank in range(n):
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(n), **environment}
            env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **env}
            env.setdefault("FACULA_DISTRIBUTED_PATIENCE", "3")
            running.append(
                subprocess.Popen(
                    [sys.executable, str(program)],
                    env=env,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    cwd=self.folder,
                )
            )
        try:
            said = [p.communicate(timeout=100)[0] for p in running]
        finally:
            for p in running:
                p.kill()
        return [(p.returncode, text) for p, text in zip(running, said, strict=True)]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Job]:
    """As `job`, for several at a time: each of a name, in a folder of its own."""
    return lambda name: Job(tmp_path_factory.mktemp(name))
