"""Starts the workers and speaks with them."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, BinaryIO

ROOT = Path(__file__).resolve().parents[2]


class Failed(Exception):
    """A worker could not do what it was told; `kind` is "absent" or "error"."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def read(stream: BinaryIO) -> Any:
    return pickle.load(stream)


def write(stream: BinaryIO, value: Any) -> None:
    pickle.dump(value, stream, protocol=pickle.HIGHEST_PROTOCOL)
    stream.flush()


class Process:
    """One worker. Attributes are its methods: `process.setup(key)`."""

    def __init__(
        self, name: str, threads: int, path: str = "", cpus: set[int] | None = None
    ) -> None:
        self.name, self.threads = name, threads
        self.child = subprocess.Popen(
            [sys.executable, "-m", "tools.bench.worker", name, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(threads, path),
            cwd=ROOT,
            start_new_session=True,  # Ctrl-C is for the command, which then ends its workers
            preexec_fn=(lambda: os.sched_setaffinity(0, cpus)) if cpus else None,
        )
        self.about: dict[str, str] = self.reply()

    def reply(self) -> Any:
        assert self.child.stdout is not None
        try:
            kind, value = read(self.child.stdout)
        except EOFError:
            raise Failed(
                "error", f"the process of {self.name} ended: {self.child.wait()}"
            ) from None
        if kind == "broken":
            self.child.kill()
            self.child.wait()
            kind = "error"
        if kind != "ok":
            raise Failed(kind, value)
        return value

    def tell(self, method: str, *arguments: Any) -> None:
        """Asks without waiting for the reply."""
        assert self.child.stdin is not None
        write(self.child.stdin, (method, arguments))

    def __getattr__(self, method: str) -> Any:
        def ask(*arguments: Any) -> Any:
            self.tell(method, *arguments)
            return self.reply()

        return ask

    def close(self) -> None:
        assert self.child.stdin is not None and self.child.stdout is not None
        self.child.stdin.close()
        self.child.stdout.close()
        self.child.wait()


def environment(threads: int, path: str = "") -> dict[str, str]:
    """The variables of a worker: its threads, and where its facula is."""
    count = str(threads)
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    folders = [f for f in (path, os.environ.get("PYTHONPATH", "")) if f]
    return {
        **os.environ,
        **dict.fromkeys(names, count),
        "PYTHONPATH": os.pathsep.join(folders),
        "PYTHONHASHSEED": "0",
    }


class Crew:
    """The workers of a run, started when first needed and again when one has died."""

    def __init__(self, paths: dict[str, str], cpus: set[int] | None = None) -> None:
        self.paths, self.cpus = paths, cpus
        self.running: dict[tuple[str, int], Process] = {}
        self.missing: dict[str, Failed] = {}

    def get(self, name: str, threads: int) -> Process:
        if name in self.missing:
            raise self.missing[name]
        process = self.running.get((name, threads))
        if process is None or process.child.poll() is not None:
            try:
                process = Process(name, threads, self.paths.get(name, ""), self.cpus)
            except Failed as error:
                self.missing[name] = error
                raise
            self.running[name, threads] = process
        return process

    def fresh(self, name: str, threads: int) -> Process:
        return Process(name, threads, self.paths.get(name, ""), self.cpus)

    def close(self) -> None:
        for process in self.running.values():
            process.close()
        self.running.clear()


BUSY = """
import os
parent = os.getppid()
while os.getppid() == parent:
    pass
"""


class Busy:
    """A process that keeps one core busy within a `with` block, and sleeps outside it."""

    def __init__(self, cpu: int) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-c", BUSY],
            preexec_fn=lambda: os.sched_setaffinity(0, {cpu}),
        )
        self.child.send_signal(signal.SIGSTOP)

    def __enter__(self) -> None:
        self.child.send_signal(signal.SIGCONT)

    def __exit__(self, *_: object) -> None:
        self.child.send_signal(signal.SIGSTOP)

    def close(self) -> None:
        self.child.kill()
        self.child.wait()
