"""The main process's end of all workers of a loader: it starts them, listens, and ends them."""

from __future__ import annotations

import array
import collections
import contextlib
import importlib
import os
import pickle
import select
import signal
import socket
import sys
import threading
import time
import weakref
from typing import Any

from facula.multiprocessing import _reductions as reductions
from facula.utils.data._utils import worker as _worker
from facula.utils.data._utils.packing import Incoming

__all__ = ["Hub", "WorkerDied"]

_TICK = 1.0  # seconds between looks at processes that say nothing
_GRACE = 2.0  # seconds that a worker has to end by itself
_CHUNK = 1 << 16


class WorkerDied(RuntimeError):
    """A worker process ended in the midst of its work."""


_hubs: weakref.WeakSet[Hub] = weakref.WeakSet()


def _before_fork() -> None:
    for hub in list(_hubs):
        for link in hub.links:
            link.incoming.forks[0] += 1


def _in_child() -> None:
    # Else a worker would not notice that its main process has gone.
    for hub in list(_hubs):
        for link in hub.links:
            link.sock.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_in_child)


class _Link:
    """One worker."""

    def __init__(self, number: int, process: Any, sock: socket.socket, leases: Any) -> None:
        self.number, self.process, self.sock = number, process, sock
        self.incoming = Incoming(leases)
        self.lock = threading.Lock()
        self.outbox = bytearray()
        self.buffer = bytearray()
        self.fds: collections.deque[int] = collections.deque()

    @property
    def pid(self) -> int | None:
        return self.process.pid

    def post(self, message: Any) -> None:
        """Send without waiting: what the socket does not take now goes with `flush`."""
        body = pickle.dumps(message, 5)
        with self.lock:
            self.outbox += _worker.HEADER.pack(len(body), 0) + body
            self._flush()

    def flush(self) -> None:
        with self.lock:
            self._flush()

    def _flush(self) -> None:
        try:
            while self.outbox:
                done = self.sock.send(self.outbox)
                del self.outbox[:done]
        except BlockingIOError:
            pass
        except OSError:
            # The worker has ended; reading says how.
            self.outbox.clear()

    def read(self) -> tuple[list[tuple[Any, list[int]]], bool]:
        """Messages that have come, each with its descriptors; and: is this the end?"""
        ended = False
        try:
            size = socket.CMSG_SPACE(8 * 4)
            data, extra, flags, _ = self.sock.recvmsg(_CHUNK, size, _CLOEXEC)
            for level, kind, content in extra:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    received = array.array("i")
                    received.frombytes(content[: len(content) // 4 * 4])
                    self.fds.extend(received)
            if flags & socket.MSG_CTRUNC:
                raise RuntimeError(
                    "DataLoader: this process may open no more files, which it needs for shared "
                    "memory: raise the limit (ulimit -n), or close files"
                )
            self.buffer += data
            ended = not data
        except BlockingIOError:
            pass
        except ConnectionError:
            ended = True
        messages = []
        header = _worker.HEADER.size
        while len(self.buffer) >= header:
            length, count = _worker.HEADER.unpack_from(self.buffer)
            if len(self.buffer) < header + length:
                break
            body = pickle.loads(self.buffer[header : header + length])
            messages.append((body, [self.fds.popleft() for _ in range(count)]))
            del self.buffer[: header + length]
        return messages, ended


_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class Hub:
    """Worker processes, to which `post` gives tasks and from which `receive` has results."""

    def __init__(self, context: Any, num_workers: int) -> None:
        self.context, self.num_workers = context, num_workers
        if "numpy" in sys.modules:
            # Once here, else once in each worker that is forked, to seed it.
            importlib.import_module("numpy.random")
        self.owner = os.getpid()
        self.links: list[_Link] = []
        self.leases: dict[tuple[int, int], Any] = {}
        self.ready: collections.deque[tuple[int, Any, list[int]]] = collections.deque()
        self.failure: Exception | None = None
        self.closed = False
        self.poll = select.poll()
        self.by_fd: dict[int, _Link] = {}
        # To wake a thread that waits in `receive`.
        self.wake_out, self.wake_in = os.pipe()
        self.poll.register(self.wake_out, select.POLLIN)
        _hubs.add(self)

    def start(self, number: int, *arguments: Any) -> None:
        """Start the worker of this number."""
        ours, theirs = socket.socketpair()
        # The parent that a worker is to have, unless that is the fork server.
        parent = None if self.context.get_start_method() == "forkserver" else os.getpid()
        try:
            process = self.context.Process(
                target=_worker.main, args=(theirs, parent, number, self.num_workers, *arguments)
            )
            process.daemon = True
            ours.setblocking(False)
            process.start()
            reductions.started(process)
        except BaseException as error:
            ours.close()
            method = self.context.get_start_method()
            if method != "fork" and hasattr(error, "add_note"):
                error.add_note(
                    f"of a DataLoader whose workers start by {method!r}: the dataset, collate_fn "
                    "and worker_init_fn are pickled, so functions and classes must be a module's"
                )
            raise
        finally:
            theirs.close()
        link = _Link(number, process, ours, self.leases)
        self.links.append(link)
        self.by_fd[ours.fileno()] = link
        self.poll.register(ours, select.POLLIN)

    def post(self, number: int, kind: str, *rest: Any) -> None:
        """Send a message; the worker's memory that is no longer used goes back with it."""
        link = self.links[number]
        link.post((kind, *rest, link.incoming.to_return()))

    def receive(self, deadline: float | None = None) -> tuple[int, Any]:
        """(worker, (epoch, task, what, value)) of the next result of any worker.

        Raises:
            WorkerDied: one has. TimeoutError: the deadline (of time.monotonic) has passed.
        """
        while not self.ready:
            if self.failure is not None:
                raise self.failure
            if self.closed:
                raise RuntimeError("DataLoader: this pass has been ended")
            wait = _TICK
            if deadline is not None:
                wait = min(wait, deadline - time.monotonic())
                if wait <= 0:
                    raise TimeoutError
            for link in self.links:
                mask = select.POLLIN | (select.POLLOUT if link.outbox else 0)
                self.poll.modify(link.sock, mask)
            events = self.poll.poll(max(wait * 1000, 1))
            for fd, event in events:
                if fd == self.wake_out:
                    os.read(fd, 4096)
                    continue
                self._serve(self.by_fd[fd], event)
            if not events:
                self._look()
        number, (epoch, task, what, value), fds = self.ready.popleft()
        link = self.links[number]
        if what == _worker.BATCH:
            try:
                value = link.incoming.unpack(value, fds)
            except Exception as error:
                what, value = _worker.ERROR, _worker.describe(error)
        return number, (epoch, task, what, value)

    def _serve(self, link: _Link, event: int) -> None:
        if event & select.POLLOUT:
            link.flush()
        if not event & (select.POLLIN | select.POLLHUP | select.POLLERR):
            return
        messages, ended = link.read()
        for message, fds in messages:
            self.ready.append((link.number, message, fds))
        if ended:
            self.poll.unregister(link.sock)
            self.by_fd.pop(link.sock.fileno(), None)
            self._died(link)

    def _look(self) -> None:
        """Has one ended whose socket another process holds open?"""
        for link in self.links:
            if not link.process.is_alive():
                messages, _ = link.read()
                for message, fds in messages:
                    self.ready.append((link.number, message, fds))
                if not messages:
                    self._died(link)

    def _died(self, link: _Link) -> None:
        link.process.join(1)
        code = link.process.exitcode
        who = f"DataLoader worker (pid {link.pid})"
        about = f"It was worker {link.number} of {self.num_workers}"
        if code is not None and code < 0:
            name = signal.strsignal(-code) or f"signal {-code}"
            with contextlib.suppress(ValueError):
                name = f"{name} ({signal.Signals(-code).name})"
            text = f"{who} is killed by signal: {name}. {about}. {_advice(-code)}"
        else:
            text = (
                f"{who} exited unexpectedly, with status {code}. {about}. The dataset, collate_fn "
                "or worker_init_fn ended its process (run with num_workers=0 to find where)"
            )
            if self.context.get_start_method() != "fork":
                text += (
                    ", or the main program lacks `if __name__ == '__main__':`, which the start "
                    f"method {self.context.get_start_method()!r} needs"
                )
        if self.failure is None:
            self.failure = WorkerDied(text)

    def wake(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self.wake_in, b".")

    def close(self, grace: float = _GRACE) -> None:
        """End the workers: by themselves, else by force."""
        if self.closed:
            return
        self.closed = True
        _hubs.discard(self)
        if os.getpid() != self.owner:
            return  # a forked child: they are not its own
        self.wake()
        for link in self.links:
            with contextlib.suppress(OSError):
                link.sock.shutdown(socket.SHUT_RDWR)
        end = time.monotonic() + grace
        for link in self.links:
            link.process.join(max(0.0, end - time.monotonic()))
        late = [link.process for link in self.links if link.process.is_alive()]
        for force in ("terminate", "kill"):
            for process in late:
                getattr(process, force)()
            end = time.monotonic() + 1
            for process in late:
                process.join(max(0.0, end - time.monotonic()))
            late = [process for process in late if process.is_alive()]

    def free(self) -> None:
        """Close what is open, once no thread waits in `receive`."""
        self.close()
        if os.getpid() == self.owner:
            for link in self.links:
                with contextlib.suppress(ValueError):
                    link.process.close()
        for link in self.links:
            link.sock.close()
            for fd in link.fds:
                os.close(fd)
            link.fds.clear()
            link.incoming.maps.clear()
        for _, _, fds in self.ready:
            for fd in fds:
                os.close(fd)
        self.ready.clear()
        for fd in (self.wake_out, self.wake_in):
            if fd >= 0:
                os.close(fd)
        self.wake_out = self.wake_in = -1


def _advice(number: int) -> str:
    if number == signal.SIGKILL:
        return (
            "Someone killed it, or the system ran out of memory (see dmesg): then lower "
            "num_workers, prefetch_factor or batch_size"
        )
    if number == getattr(signal, "SIGBUS", None):
        return (
            "It may have run out of shared memory, or a file that it had mapped was cut short: "
            "give it more (docker --shm-size), or lower num_workers"
        )
    if number == signal.SIGTERM:
        return "Another process, or a limit of the batch system, ended it"
    return "Run with num_workers=0, or with python -X faulthandler, to find where"
