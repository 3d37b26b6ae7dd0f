"""`spawn`: run one function in several processes, and raise here what is raised there."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]


class ProcessException(Exception):
    """One of the processes failed.

    Attributes:
        error_index: which. error_pid: its id. msg: what happened.
    """

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid
        self.error_pid = pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """The function raised there; the message holds the traceback."""


class ProcessExitedException(ProcessException):
    """The process exited with a status other than 0, or was killed by a signal."""

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        parts = (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)
        return type(self), parts


def _run(function: Callable[..., Any], index: int, args: Sequence[Any], errors: Any) -> None:
    try:
        function(index, *args)
    except KeyboardInterrupt:
        pass  # the parent has it too
    except Exception:
        errors.send_bytes(pickle.dumps(traceback.format_exc()))
        sys.exit(1)


class ProcessContext:
    """The processes of one `start_processes`."""

    def __init__(self, processes: Sequence[Any], errors: Sequence[Any]) -> None:
        self.processes, self.errors = list(processes), list(errors)
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """Their ids."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until one fails or all have ended; on a failure the others are ended.

        Args:
            timeout: seconds to wait, None for ever.
            grace_period: seconds that the others have to end by themselves after a failure.

        Returns:
            Have all of them ended?

        Raises:
            ProcessRaisedException: the function raised in one.
            ProcessExitedException: one was killed, or exited with a status other than 0.
        """
        if not self.sentinels:
            return True
        ready = multiprocessing.connection.wait(list(self.sentinels), timeout=timeout)
        failed = None
        for sentinel in ready:
            index = self.sentinels.pop(sentinel)  # type: ignore[arg-type]
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                failed = index
                break
        if failed is None:
            return not self.sentinels
        self._end(grace_period)
        self._raise(failed)
        return True

    def _end(self, grace_period: float | None) -> None:
        end = time.monotonic() + (grace_period or 0)
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))
        for force in ("terminate", "kill"):
            left = [process for process in self.processes if process.is_alive()]
            for process in left:
                getattr(process, force)()
            end = time.monotonic() + 5
            for process in left:
                process.join(max(0.0, end - time.monotonic()))

    def _raise(self, index: int) -> None:
        process = self.processes[index]
        text = None
        with contextlib.suppress(EOFError, OSError):
            if self.errors[index].poll():
                text = pickle.loads(self.errors[index].recv_bytes())
        if text is not None:
            raise ProcessRaisedException(
                f"\n\n-- Process {index} terminated with the following error:\n{text}",
                index,
                process.pid,
            )
        code = process.exitcode
        if code < 0:
            name = str(-code)
            with contextlib.suppress(ValueError):
                name = signal.Signals(-code).name
            message = f"process {index} (pid {process.pid}) terminated with signal {name}"
            raise ProcessExitedException(message, index, process.pid, code, name)
        message = f"process {index} (pid {process.pid}) terminated with exit code {code}"
        raise ProcessExitedException(message, index, process.pid, code)


class SpawnContext(ProcessContext):
    """The processes of one `spawn`."""


def start_processes(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run fn(i, *args) in `nprocs` processes, i from 0 on.

    Args:
        join: wait for all; False returns the ProcessContext at once.
        daemon: the processes are ended when this one is.
        start_method: "spawn", "fork" or "forkserver".

    Raises:
        ProcessRaisedException, ProcessExitedException: of `ProcessContext.join`.
    """
    kind = SpawnContext if start_method == "spawn" else ProcessContext
    method = multiprocessing.get_context(start_method)
    processes: list[Any] = []
    errors: list[Any] = []
    try:
        for index in range(nprocs):
            ours, theirs = method.Pipe(duplex=False)
            process = method.Process(  # type: ignore[attr-defined]
                target=_run, args=(fn, index, tuple(args), theirs), daemon=daemon
            )
            process.start()
            theirs.close()
            processes.append(process)
            errors.append(ours)
    except BaseException:
        for process in processes:
            process.kill()
            process.join()
        raise
    context = kind(processes, errors)
    if not join:
        return context
    try:
        while not context.join():
            pass
    except KeyboardInterrupt:
        context._end(1)
        raise
    return None


def spawn(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes` with fresh interpreters: `fn` must be a function of a module."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
