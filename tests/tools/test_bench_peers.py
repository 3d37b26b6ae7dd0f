"""Rows of tools/bench that several processes run together."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import facula
import pytest

from tools.bench import processes
from tools.bench.inputs import Inputs

pytest.importorskip("mpi4py", reason="processes on CPUs are joined by mpi4py")

KEY = "processes: all_reduce, 1 KB, 2 processes"


@pytest.fixture
def crew() -> Iterator[processes.Crew]:
    made = processes.Crew({})
    yield made
    made.close()


def peers_of(process: processes.Process) -> list[int]:
    pid = process.child.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    commands = {int(c): Path(f"/proc/{c}/cmdline").read_bytes() for c in children}
    return [pid for pid, command in commands.items() if b"tools.bench.worker" in command]


def wait_until_gone(pid: int) -> None:
    limit = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and time.monotonic() < limit:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()


def test_processes_run_a_row_together(crew: processes.Crew) -> None:
    process = crew.get("facula", 1)
    process.setup(KEY)
    (peer,) = peers_of(process)
    (found,) = process.arrays()
    drawn = Inputs(facula).tiled(1 << 8).numpy()
    # Ranks have it once and twice; a second call adds what both have by then.
    assert found == pytest.approx(2 * 3 * drawn, rel=1e-6)
    assert process.sample(3, 1) > 0
    process.drop()
    process.setup(KEY.replace("all_reduce", "all_gather"))
    assert peers_of(process) == [peer]
    (found,) = process.arrays()
    half = Inputs(facula).tiled(1 << 7).numpy()
    assert found == pytest.approx([*half, *(2 * half)], rel=1e-6)
    process.close()
    wait_until_gone(peer)


@pytest.mark.parametrize("late", [0.0, 0.3])
def test_a_lost_peer_is_an_error_and_the_next_row_begins_anew(
    crew: processes.Crew, late: float
) -> None:
    process = crew.get("facula", 1)
    process.setup(KEY)
    os.kill(peers_of(process)[0], signal.SIGKILL)
    time.sleep(late)  # it is told, or the pipe is broken by then
    with pytest.raises(processes.Failed) as caught:
        process.sample(3, 1)
    assert caught.value.kind == "error" and process.child.poll() is not None
    another = crew.get("facula", 1)
    another.setup(KEY)
    assert another.sample(3, 1) > 0
