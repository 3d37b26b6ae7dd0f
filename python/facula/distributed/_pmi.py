"""Lets MPI find its peers through a store, so that no launcher of MPI is needed.

A library of MPI asks its launcher for rank, size and the addresses of peers by the Process
Management Interface (PMI-1: lines of `key=value` over a descriptor; P. Balaji et al., "PMI: A
Scalable Parallel Process-Management Interface for Extreme-Scale Systems", 2010). Here a thread of
this very process answers, from the job's store.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading

from facula.distributed._errors import DistStoreError
from facula.distributed._store import Store

_LIMITS = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=4096"


class Translator:
    """Answers MPI's questions from a store.

    Args:
        store: of the job, which may end before MPI does.
        rank, size: of this process.
        name: of the job, unlike that of any other.
    """

    def __init__(self, store: Store, rank: int, size: int, name: str) -> None:
        self._store, self._size, self._name = store.clone(), size, name
        self._barriers, self.ending = 0, False
        self._known: dict[str, str] = {}
        ours, theirs = socket.socketpair()
        self._ours, self._theirs = ours, theirs
        os.environ.update(PMI_FD=str(theirs.fileno()), PMI_RANK=str(rank), PMI_SIZE=str(size))
        threading.Thread(target=self._serve, name="facula pmi", daemon=True).start()

    def restore(self) -> None:
        """Takes the variables back, which children of this process must not see."""
        for name in ("PMI_FD", "PMI_RANK", "PMI_SIZE"):
            os.environ.pop(name, None)

    def close(self) -> None:
        """The answer to a last question, that a library asks when Python's threads run no more."""
        with contextlib.suppress(OSError):
            self._ours.send(b"cmd=finalize_ack\n")
        self._ours.detach()
        self._theirs.detach()  # open until the process ends

    def _serve(self) -> None:
        try:
            with self._ours.makefile("rwb", buffering=0) as lines:
                for line in lines:
                    words = dict(
                        word.split("=", 1) for word in line.decode().split() if "=" in word
                    )
                    lines.write(self._answer(words).encode() + b"\n")
        except (OSError, RuntimeError, ValueError):
            self._ours.close()  # MPI sees its launcher go, and says so

    def _answer(self, words: dict[str, str]) -> str:
        match words.get("cmd"):
            case "init":
                return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
            case "get_maxes":
                return _LIMITS
            case "get_appnum":
                return "cmd=appnum appnum=0"
            case "get_my_kvsname":
                return f"cmd=my_kvsname kvsname={self._name}"
            case "get_universe_size":
                return f"cmd=universe_size size={self._size}"
            case "put":
                self._store.append("pmi", f"{words['key']} {words['value']}\n")
                return "cmd=put_result rc=0 msg=success"
            case "get":
                value = self._value(words["key"])
                if value is None:
                    return "cmd=get_result rc=-1 msg=key_not_found value=unknown"
                return f"cmd=get_result rc=0 msg=success value={value}"
            case "barrier_in":
                try:
                    self._barrier()
                except DistStoreError:
                    if not self.ending:  # MPI has waited for all itself, and the store may be gone
                        raise
                return "cmd=barrier_out rc=0"
            case "finalize":
                return "cmd=finalize_ack rc=0"
        return "cmd=error rc=-1 msg=unknown_command"

    def _value(self, key: str) -> str | None:
        """What some process put; one question for all, as each asks for every other process's."""
        if key not in self._known and self._store.check(["pmi"]):
            lines = self._store.get("pmi").decode().splitlines()
            self._known = dict(line.split(" ", 1) for line in lines)
        return self._known.get(key)

    def _barrier(self) -> None:
        self._barriers += 1
        name = f"pmi barrier/{self._barriers}"
        if self._store.add(f"{name}/in", 1) == self._size:
            self._store.set(f"{name}/out", b"1")
        self._store.wait([f"{name}/out"])
