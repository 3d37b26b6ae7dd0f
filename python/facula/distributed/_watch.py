"""Says to the store that this process lives, and hears which others do not."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Sequence

from facula.distributed._errors import DistBackendError, LostRankError
from facula.distributed._store import TCPStore, patience


class Watch:
    """One per process and job, by a thread of its own.

    Attributes:
        call: what this process does just now; sent along, so that others can say where it stands.
    """

    def __init__(self, store: TCPStore, rank: int) -> None:
        self.call: object = ""
        self._store, self._rank = store, rank
        self._gone: dict[int, str] = {}  # rank -> why
        self._left: dict[
            int, tuple[float, str]
        ] = {}  # rank -> when it left in order, and who it was
        self._over: str | None = None  # why the store is gone
        self._ended = False
        self._patience = patience()
        self._channel = store.member_channel()
        name = f"process {os.getpid()} on {socket.gethostname()}"
        self._channel.send(b"member", str(rank).encode(), name.encode())
        threading.Thread(target=self._run, name="facula watch", daemon=True).start()

    @property
    def failed(self) -> bool:
        """Is a process lost, or the store?"""
        return bool(self._gone) or self._over is not None

    def check(self, what: str, ranks: Sequence[int]) -> None:
        """Raises if one of the ranks can no longer take part in what this process waits for.

        Raises:
            LostRankError: it ended, fell silent, or left long ago. DistBackendError: the store is
            gone.
        """
        gone, left = dict(self._gone), dict(self._left)
        lost = [r for r in ranks if r in gone] or list(gone)
        if lost:
            which = "; ".join(f"rank {r} is {gone[r]}" for r in lost)
            gave_up = all(gone[r].startswith("lost: it gave up") for r in lost)
            raise LostRankError(f"{what}: {which}", tuple(lost), gave_up)
        now = time.monotonic()
        early = [r for r in ranks if r in left and now - left[r][0] > self._patience]
        if early:
            which = "; ".join(f"rank {r} {left[r][1]}" for r in early)
            raise LostRankError(
                f"{what}: {which}, {self._patience:g} s ago, and does not take part", tuple(early)
            )
        if self._over is not None:
            raise DistBackendError(f"{what}: {self._over}")

    def leave(self, failure: str | None = None) -> None:
        """Says goodbye, or that this process failed."""
        self._ended = True
        words = (b"bye",) if failure is None else (b"failed", failure.encode())
        with contextlib.suppress(OSError):  # nobody may be there to hear it
            self._channel.send(*words)
        self._channel.close()

    def _run(self) -> None:
        pause = min(1.0, self._patience / 8)
        sent = heard = time.monotonic()
        try:
            while not self._ended:
                now = time.monotonic()
                if now - sent >= pause:
                    self._channel.send(b"ping", str(self.call).encode())
                    sent = now
                try:
                    said = self._channel.receive(pause)
                    heard = time.monotonic()
                except TimeoutError:
                    # A process that was stopped itself hears first what came meanwhile.
                    if time.monotonic() - heard > self._patience and now - heard < 2 * pause + (
                        self._patience
                    ):
                        self._over = f"the store is silent for {time.monotonic() - heard:.0f} s"
                        return
                    continue
                if said[0] == b"gone":
                    rank, why = int(said[1]), said[2].decode()
                    if why.startswith("left"):
                        self._left[rank] = (time.monotonic(), why)
                    else:
                        self._gone[rank] = why
        except (OSError, EOFError):
            if not self._ended:
                self._over = (
                    f"the process that serves the store on {self._store.host}:{self._store.port}"
                    " (rank 0, or the launcher) is gone"
                )
