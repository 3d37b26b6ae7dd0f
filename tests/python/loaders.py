"""What the tests of loaders with workers share: data sets, and a look at what is left behind."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
from pathlib import Path

import facula as fa
import pytest
from facula.utils import data

LIMIT = 5  # seconds until an error


def children() -> set[str]:
    found = set()
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):
            found |= set(Path(f"/proc/self/task/{task}/children").read_text().split())
    return found


def left() -> tuple[set[str], set[str], set[str], int]:
    gc.collect()
    return (
        set(os.listdir("/proc/self/fd")),
        {f for f in os.listdir("/dev/shm") if "facula" in f},
        children(),
        threading.active_count(),
    )


@pytest.fixture(scope="module")
def servers():
    """Processes of Python's that stay once they have been needed."""
    from multiprocessing import forkserver, resource_tracker

    resource_tracker.ensure_running()
    forkserver.ensure_running()


@pytest.fixture(autouse=True)
def nothing_left_behind(servers):
    before = left()
    started = time.monotonic()
    yield
    assert left() == before
    assert time.monotonic() - started < 4 * LIMIT


class Numbers(data.Dataset):
    """Sample i is i, as a tensor of `width` elements."""

    def __init__(self, n=20, width=3):
        self.n, self.width = n, width

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return fa.full((self.width,), float(i))


class Acts(Numbers):
    """Does something at sample 5."""

    def __init__(self, act, n=20):
        super().__init__(n)
        self.act = act

    def __getitem__(self, i):
        if i == 5:
            self.act()
        return super().__getitem__(i)


def firsts(batches):
    return [b[:, 0].tolist() for b in batches]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
