"""Runs tests against mutants: a pytest plugin that works inside of one collected session.

First each test runs with no mutant on, and what it reaches is noted. Then for each mutant a forked
child runs the tests that reach it, quick ones first, until one fails. A crash and a test that takes
far longer than before count as noticed.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import mmap
import os
import re
import select
import signal
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SIZE = 65536
# Seconds that a test may take beyond 20 times what it took.
GRACE = float(os.environ.get("FACULA_MUTATE_GRACE", "10"))
SLOW = 20.0  # seconds; longer tests wait for the others' verdict
PATIENCE = float(os.environ.get("FACULA_MUTATE_PATIENCE", "120"))  # for a mutant in all


class Switch:
    """The mapped file that says which mutant is on and which were reached."""

    def __init__(self, path: Path) -> None:
        if not path.exists() or path.stat().st_size != SIZE:
            path.write_bytes(bytes(SIZE))
        with path.open("r+b") as file:
            self.map = mmap.mmap(file.fileno(), SIZE)
        self.on(-1)

    def on(self, number: int) -> None:
        self.map[:4] = struct.pack("i", number)

    def taken(self) -> list[int]:
        """The mutants that were reached since the last call."""
        if self.map.find(b"\1", 4) < 0:
            return []
        reached = [m.start() for m in re.finditer(b"\1", self.map[4:])]
        self.map[4:] = bytes(SIZE - 4)
        return reached


class Worker:
    """One of several processes that share the tests, then the mutants."""

    def __init__(self, folder: Path, index: int, of: int) -> None:
        self.folder, self.index, self.of = folder, index, of
        self.switch = Switch(Path(os.environ["FACULA_MUTANTS"]))
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if os.environ["FACULA_MUTATE"] == "reach":
            self.reach(session.items[self.index :: self.of])
        else:
            self.judge({item.nodeid: item for item in session.items})
        return True

    # ---- what each test reaches ----

    def reach(self, items: list[Any]) -> None:
        path = self.folder / f"reach.{self.index}.jsonl"
        known = {(r["test"], r.get("file")) for r in reached(self.folder)}
        items = [item for item in items if (item.nodeid, digest(item.path)) not in known]
        with path.open("a") as out:
            for item, following in itertools.zip_longest(items, items[1:]):
                self.failed.clear()
                self.switch.taken()
                start = time.perf_counter()
                run(item, following)
                taken = time.perf_counter() - start
                record = {"test": item.nodeid, "file": digest(item.path)}
                record |= {"at": round(time.time(), 2), "seconds": round(taken, 4)}
                record |= {"passed": not self.failed, "mutants": self.switch.taken()}
                out.write(json.dumps(record) + "\n")
                out.flush()

    # ---- what notices each mutant ----

    def judge(self, items: dict[str, Any]) -> None:
        reach = [r for r in reached(self.folder) if r["passed"] and r["test"] in items]
        path = self.folder / f"results.{self.index}.jsonl"
        done = {r["mutant"] for r in results(self.folder)}
        numbers = [int(n) for n in json.loads((self.folder / "mutants.json").read_text())]
        wanted = os.environ.get("FACULA_MUTATE_ONLY", "")
        mine = [n for n in numbers[self.index :: self.of] if n not in done]
        if wanted:
            mine = [n for n in map(int, wanted.split(",")) if n % self.of == self.index]
        with path.open("a") as out:
            for number in mine:
                tests = [r for r in reach if number in r["mutants"]]
                record = {
                    "mutant": number,
                    "tests": len(tests),
                    "at": round(time.time(), 2),
                    **self.verdict(number, tests, items),
                }
                out.write(json.dumps(record) + "\n")
                out.flush()

    def verdict(self, number: int, tests: list[Any], items: dict[str, Any]) -> dict[str, Any]:
        start = time.perf_counter()
        order = spread(tests)
        pipe, end = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(pipe)
            os.setsid()
            self.child(number, [items[r["test"]] for r in order], end)
        os.close(end)
        allowed = {r["test"]: r["seconds"] for r in order}
        at, noticed, how = "", "", "no test"
        while order:
            limit = GRACE + 20 * allowed.get(at, 0)
            ready, _, _ = select.select([pipe], [], [], limit)
            said = os.read(pipe, 1 << 16).decode() if ready else ""
            if not ready:
                noticed, how = at, "hang"
            elif not said:
                noticed, how = at, "crash"
            for line in said.split("\n"):
                if line.startswith("at "):
                    at = line[3:]
                elif line.startswith("failed "):
                    noticed, how = line[7:], "failure"
                elif line == "end":
                    how = "survived"
            if noticed or how == "survived":
                break
            if time.perf_counter() - start > PATIENCE:
                how = "survived (in part)"
                break
        os.close(pipe)
        if order:
            os.killpg(child, signal.SIGKILL)
        else:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        self.switch.on(-1)
        return {"by": noticed, "how": how, "seconds": round(time.perf_counter() - start, 2)}

    def child(self, number: int, items: list[Any], end: int) -> None:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        self.switch.on(number)
        for item, following in itertools.zip_longest(items, items[1:]):
            os.write(end, f"at {item.nodeid}\n".encode())
            self.failed.clear()
            run(item, following)
            if self.failed:
                os.write(end, f"failed {item.nodeid}\n".encode())
                os._exit(0)
        os.write(end, b"end\n")
        os._exit(0)


def run(item: Any, following: Any) -> None:
    """Runs a test; fixtures that the next one has too stay."""
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


def spread(tests: list[Any]) -> list[Any]:
    """Tests in the order of their chances: one of each function first, then quick ones."""
    order = sorted(tests, key=lambda r: r["seconds"])
    seen: dict[str, int] = {}
    ranked = []
    for r in order:
        function = r["test"].partition("[")[0]
        seen[function] = seen.get(function, 0) + 1
        ranked.append((r["seconds"] > SLOW, r["seconds"] > 1, seen[function] // 8, r["seconds"], r))
    return [r for *_, r in sorted(ranked, key=lambda t: t[:4])]


def lines(path: Path) -> Iterator[str]:
    if path.exists():
        yield from path.read_text().splitlines()


@functools.cache
def digest(path: Path) -> str:
    """What a test's file holds: what an edited one reaches is asked again."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def latest(folder: Path, files: str, name: str) -> list[Any]:
    """The last record of each, whichever worker wrote it."""
    found = [json.loads(x) for p in sorted(folder.glob(files)) for x in lines(p)]
    return list({r[name]: r for r in sorted(found, key=lambda r: r.get("at", 0))}.values())


def reached(folder: Path) -> list[Any]:
    return latest(folder, "reach.*.jsonl", "test")


def results(folder: Path) -> list[Any]:
    return latest(folder, "results.*.jsonl", "mutant")


def pytest_configure(config: Any) -> None:
    folder, index, of = os.environ["FACULA_MUTATE_WORKER"].split(":")
    # The copy's package, not one that is installed to be edited, whose finder comes before paths.
    sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in type(f).__module__]
    sys.path.insert(0, str(Path(folder) / "python"))
    config.pluginmanager.register(Worker(Path(folder), int(index), int(of)))
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 3000))
