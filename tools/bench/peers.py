"""The other processes of rows that several run together: one device each, all in one job.

A worker that sets such a row up leads. Its peers are workers too, of ranks 1 and up; whatever the
leader does with the row, they are told to do at the same time.
"""

from __future__ import annotations

import atexit
import importlib
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tools.bench.processes import Failed, Process

TIMEOUT = timedelta(seconds=60)
BACKENDS = {"cpu": "gloo"}  # of others: nccl
_led: Peers | None = None


class Peers:
    """The processes that follow this one, and the job that they are in together."""

    def __init__(self, lib: Any, threads: int, ranks: int, device: str) -> None:
        self.lib, self.key, self.whole = lib, (ranks, device), True
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        self.others = [Process(lib.__name__, threads) for _ in range(1, ranks)]
        atexit.register(self.end)
        with self:
            for rank, other in enumerate(self.others, 1):
                other.tell("follow", port, rank, ranks, device)
            join(lib, port, 0, ranks, device)

    def tell(self, method: str, *arguments: Any) -> Peers:
        """Has the others do something, during a `with` block; it ends when they have."""
        try:
            for other in self.others:
                other.tell(method, *arguments)
        except OSError:
            self.give_up()
            raise
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if kind is None:
                for other in self.others:
                    other.reply()
        except Failed:
            kind = Failed
            raise
        finally:
            if kind is not None:
                self.give_up()

    def together(self, method: str, run: Callable[..., Any]) -> Callable[..., Any]:
        """The function, run by all at once."""

        def led(*arguments: Any) -> Any:
            with self.tell(method, *arguments):
                return run(*arguments)

        return led

    def give_up(self) -> None:
        """Nobody knows any more where each of them stands."""
        self.whole = False
        self.end()

    def end(self) -> None:
        for other in self.others:
            other.child.kill()


def led_by(lib: Any, threads: int, ranks: int, device: str) -> Peers:
    """The peers of this worker; started when first needed."""
    global _led
    if device != "cpu" and (have := getattr(lib, device).device_count()) < ranks:
        raise NotImplementedError(f"the row needs {ranks} devices, and there are {have}")
    if _led is None or _led.key != (ranks, device):
        leave()
        _led = Peers(lib, threads, ranks, device)
    return _led


def join(lib: Any, port: int, rank: int, ranks: int, device: str) -> None:
    importlib.import_module(lib.__name__ + ".distributed")
    place = {}
    if device != "cpu":
        getattr(lib, device).set_device(rank)
        place = {"device_id": lib.device(device, rank)}
    lib.distributed.init_process_group(
        BACKENDS.get(device, "nccl"),
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=ranks,
        timeout=TIMEOUT,
        **place,
    )


def aligned(run: Callable[[int], int], lib: Any) -> Callable[[int], int]:
    """Each process's loop begins when all are there."""

    def whole(times: int) -> int:
        lib.distributed.barrier()
        return run(times)

    return whole


def broken() -> bool:
    """Has this worker lost its peers, so that it cannot go on?"""
    return _led is not None and not _led.whole


def leave() -> None:
    """Ends the job in order."""
    global _led
    found, _led = _led, None
    if found is not None and found.whole:
        with found.tell("leave"):
            found.lib.distributed.destroy_process_group()
        for other in found.others:
            other.close()
