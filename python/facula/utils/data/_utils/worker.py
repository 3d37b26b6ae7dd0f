"""A worker process: it reads samples and packs batches until the main process has gone."""

from __future__ import annotations

import array
import contextlib
import os
import pickle
import random
import select
import signal
import socket
import struct
import sys
import traceback
from typing import Any

import facula
from facula.utils.data._utils import collate, fetch, info
from facula.utils.data._utils.info import WorkerInfo, get_worker_info
from facula.utils.data._utils.packing import Outgoing

__all__ = ["WorkerInfo", "get_worker_info"]

HEADER = struct.Struct("<QI")  # bytes of the message, descriptors that come with it
BATCH, END, ERROR = "batch", "end", "error"
_WATCH = 1.0  # seconds between looks at the main process


class Ended(Exception):
    """The main process is gone, or done with this worker."""


class _Line:
    """The socket to the main process."""

    def __init__(self, sock: socket.socket, parent: int | None) -> None:
        sock.setblocking(True)
        self.sock, self.buffer, self.waiting = sock, bytearray(), []  # type: ignore[var-annotated]
        # Told by who started it: it may be gone before this worker asks who its parent is.
        self.parent = parent if parent is not None else os.getppid()
        self.poll = select.poll()
        self.poll.register(sock, select.POLLIN)

    def receive(self) -> Any:
        """The next message; of a newer pass if there is one, as nobody waits for older ones."""
        while not self.waiting:
            self._read()
        while self._readable(0):
            self._read()
        passes = [i for i, message in enumerate(self.waiting) if message[0] == "pass"]
        if passes:
            _, returned, last = self.waiting[passes[-1]]
            for _, *rest in self.waiting[: passes[-1]]:
                returned.append(rest[-1])
            del self.waiting[: passes[-1] + 1]
            return "pass", [*returned, last]
        return self.waiting.pop(0)

    def _readable(self, timeout: float) -> bool:
        return bool(self.poll.poll(timeout * 1000))

    def _read(self) -> None:
        while not self._readable(_WATCH):
            # Its end of the socket may be open in other processes that it forked.
            if os.getppid() != self.parent:
                raise Ended
        try:
            data = self.sock.recv(1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            raise Ended
        self.buffer += data
        while len(self.buffer) >= HEADER.size:
            size, _ = HEADER.unpack_from(self.buffer)
            end = HEADER.size + size
            if len(self.buffer) < end:
                return
            self.waiting.append(pickle.loads(self.buffer[HEADER.size : end]))
            del self.buffer[:end]

    def send(self, message: Any, fds: list[int]) -> None:
        body = pickle.dumps(message, 5)
        data = memoryview(HEADER.pack(len(body), len(fds)) + body)
        extra = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            done = self.sock.sendmsg([data], extra)
            if done < len(data):
                self.sock.sendall(data[done:])
        except ConnectionError:
            raise Ended from None


def seed_numpy(seed: int) -> bool:
    """Seed NumPy's legacy generator, if NumPy is there by now."""
    if "numpy" not in sys.modules:
        return False
    import numpy.random

    numpy.random.seed([seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF])
    return True


def describe(error: BaseException) -> tuple[bytes | None, type | str, str]:
    """An exception as it travels: its pickle if that can be read back, its class, its traceback."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    notes = getattr(error, "__notes__", None)
    whole = None
    with contextlib.suppress(Exception):
        whole = pickle.dumps((error, notes))
        if type(pickle.loads(whole)[0]) is not type(error):
            whole = None
    return whole, type(error).__qualname__, text


def _packed(outgoing: Outgoing, batch: Any) -> tuple[Any, list[int]]:
    try:
        return outgoing.pack(batch)
    except Exception as error:
        if hasattr(error, "add_note"):
            with contextlib.suppress(Exception):
                error.add_note(
                    "while sending a batch to the main process: what collate_fn returns is "
                    "pickled, but for the elements of tensors and arrays"
                )
        raise


def main(
    sock: socket.socket,
    parent: int | None,
    number: int,
    num_workers: int,
    base_seed: int,
    dataset: Any,
    init_fn: Any,
    fetching: tuple[bool, bool, Any, bool],
) -> None:
    """Serve the main process."""
    # Ctrl-C reaches the whole group: the main process gets it, and ends this one. Not SIG_IGN,
    # which programs that the dataset starts would inherit.
    signal.signal(signal.SIGINT, lambda *_: None)
    line = _Line(sock, parent)
    outgoing = Outgoing()
    collate.allocate = outgoing.allocate
    seed = base_seed + number
    facula.set_num_threads(1)
    random.seed(seed)
    facula.manual_seed(seed)
    numpy_seeded = seed_numpy(seed)
    info.current = WorkerInfo(id=number, num_workers=num_workers, seed=seed, dataset=dataset)
    iterable, batched, collate_fn, drop_last = fetching
    fetcher: Any = None
    failed: Any = None
    if init_fn is not None:
        try:
            init_fn(number)
        except Exception as error:
            failed = describe(error)
    try:
        while True:
            kind, *rest = line.receive()
            if kind == "pass":  # a new one, over the whole dataset
                for numbers in rest[0]:
                    outgoing.returned(*numbers)
                fetcher = None
                continue
            numpy_seeded = numpy_seeded or seed_numpy(seed)
            epoch, task, indices, returned = rest
            outgoing.returned(*returned)
            message: Any = None
            fds: list[int] = []
            result: Any = None
            what = BATCH
            try:
                if failed is not None:
                    what, message = ERROR, failed
                else:
                    if fetcher is None:
                        fetcher = fetch.create(iterable, dataset, batched, collate_fn, drop_last)
                    result = fetcher.fetch(indices)
                    message, fds = _packed(outgoing, result)
            except StopIteration:
                what, message = END, None
                outgoing.abandon()
            except Exception as error:
                what, message = ERROR, describe(error)
                error.__traceback__ = None
                outgoing.abandon()
            result = None  # else its memory could not be used again
            line.send((epoch, task, what, message), fds)
            if what == BATCH:
                outgoing.descriptors_sent(message)
    except Ended:
        return
    finally:
        # Nobody reads it any more.
        sock.close()
