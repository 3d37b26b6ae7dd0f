"""The threads that share work keep to the CPUs that they may use."""

from __future__ import annotations

import os
from pathlib import Path

import facula as fa
import pytest

TASKS = Path("/proc/self/task")


@pytest.mark.skipif(not TASKS.exists(), reason="threads are listed by Linux")
def test_threads_keep_what_they_may_use() -> None:
    """Threads move to CPUs of their own among those of the program; its own thread is let be."""
    before, threads = os.sched_getaffinity(0), fa.get_num_threads()
    fa.set_num_threads(2)
    try:
        a = fa.ones(1 << 22)
        for _ in range(20):
            assert (a + a).sum().item() == 2 << 22
    finally:
        fa.set_num_threads(threads)
    assert os.sched_getaffinity(0) == before
    for task in TASKS.iterdir():
        assert os.sched_getaffinity(int(task.name)) <= before
