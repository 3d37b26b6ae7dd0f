"""The processes of one machine that the launcher starts: their logs, and their ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_PRCTL = ctypes.CDLL(None).prctl
_PR_SET_PDEATHSIG = 1
_lock = threading.Lock()  # lines of several processes do not mix


class Failure(RuntimeError):
    """A process of the job failed.

    Attributes:
        rank: which. status: its exit status, or minus the number of the signal that ended it.
    """

    def __init__(self, rank: int, status: int, log: Path | None, tail: Sequence[str]) -> None:
        how = f"exited with status {status}"
        if status < 0:
            with contextlib.suppress(ValueError):
                how = f"was ended by {signal.Signals(-status).name}"
        where = f"; its log is {log}" if log is not None else ""
        said = "".join(f"\n  {line}" for line in tail)
        super().__init__(f"rank {rank} {how}{where}{said and '; it said last:' + said}")
        self.rank, self.status = rank, status


def _end_with_parent() -> None:
    """In a process that starts: it is killed when the launcher is."""
    _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Processes:
    """Starts one process a rank, and ends all if one fails.

    Args:
        command: what each runs. environments: of each, by its rank.
        logs: a folder for `rank N.log`; None shows the lines, each with its rank before it.
    """

    def __init__(
        self,
        command: Sequence[str],
        environments: Mapping[int, Mapping[str, str]],
        logs: Path | None = None,
    ) -> None:
        self._logs, self._tails = logs, {rank: [] for rank in environments}
        self._readers: list[threading.Thread] = []
        self._running: dict[int, subprocess.Popen[str]] = {}
        try:
            for rank, environment in environments.items():
                self._start(rank, command, environment)
        except BaseException:
            self.end()
            raise

    def _start(self, rank: int, command: Sequence[str], environment: Mapping[str, str]) -> None:
        process = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # so that its own children end with it
            preexec_fn=_end_with_parent,
        )
        self._running[rank] = process
        assert process.stdout is not None
        reader = threading.Thread(target=self._read, args=(rank, process.stdout), daemon=True)
        reader.start()
        self._readers.append(reader)

    def _read(self, rank: int, lines: IO[str]) -> None:
        tail: list[str] = self._tails[rank]
        with contextlib.ExitStack() as stack:
            log = None
            if self._logs is not None:
                log = stack.enter_context((self._logs / f"rank {rank}.log").open("a"))
            for line in lines:
                tail.append(line.rstrip("\n"))
                del tail[:-10]
                if log is not None:
                    log.write(line)
                    log.flush()
                else:
                    with _lock:
                        sys.stdout.write(f"[{rank}] {line.rstrip()}\n")
                        sys.stdout.flush()

    def wait(self, pause: float = 0.05, grace: float = 5.0) -> None:
        """Returns when all have ended with status 0.

        Raises:
            Failure: one did not; the others were ended, after `grace` seconds to end by themselves.
        """
        while self._running:
            for rank, process in list(self._running.items()):
                status = process.poll()
                if status is None:
                    continue
                del self._running[rank]
                _end_group(process.pid)
                if status != 0:
                    self.end(grace)
                    log = None if self._logs is None else self._logs / f"rank {rank}.log"
                    raise Failure(rank, status, log, self._tails[rank])
            time.sleep(pause)
        for reader in self._readers:
            reader.join(1.0)

    def end(self, grace: float = 0.0) -> None:
        """Ends all that run, with SIGTERM after `grace` seconds and SIGKILL five later."""
        for number, patience in ((0, grace), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
            if number:
                for process in self._running.values():
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGCONT)
                        os.killpg(process.pid, number)
            end = time.monotonic() + patience
            while self._running and time.monotonic() < end:
                for rank, process in list(self._running.items()):
                    if process.poll() is not None:
                        _end_group(process.pid)
                        del self._running[rank]
                time.sleep(0.02)
        for reader in self._readers:
            reader.join(1.0)


def _end_group(pid: int) -> None:
    """Ends what a process left running."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
