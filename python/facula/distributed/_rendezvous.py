"""Where the processes of a job meet."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from facula.distributed import _mpi, _secret
from facula.distributed._errors import DistNetworkError, DistStoreError
from facula.distributed._store import PrefixStore, Store, TCPStore, seconds

__all__ = ["register_rendezvous_handler", "rendezvous"]

# Launchers that are no launchers of ours: rank, size.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
_handlers: dict[str, Callable[..., Iterator[tuple[Store, int, int]]]] = {}


def register_rendezvous_handler(
    scheme: str, handler: Callable[..., Iterator[tuple[Store, int, int]]]
) -> None:
    """Adds a kind of `init_method`: handler(url, timeout=...) yields (store, rank, world_size)."""
    if scheme in _handlers or scheme in ("env", "tcp", "file"):
        raise RuntimeError(f"register_rendezvous_handler: {scheme}:// has a handler")
    _handlers[scheme] = handler


def rendezvous(
    url: str, rank: int = -1, world_size: int = -1, timeout: timedelta | float = 300.0, **_: Any
) -> Iterator[tuple[Store, int, int]]:
    """Yields the store at a URL, with this process's rank and the number of processes."""
    store, found_rank, size, _opened = joined(url, None, rank, world_size, seconds(timeout, 300.0))
    yield store, found_rank, size


def _number(name: str) -> int:
    text = os.environ.get(name)
    try:
        return int(text or "")
    except ValueError:
        raise ValueError(
            f"init_process_group: env:// wants {name} in the environment, and it is"
            f" {'not set' if text is None else repr(text)}. Start by `python -m"
            " facula.distributed.run`, mpiexec or srun, or give rank, world_size and init_method"
        ) from None


def _checked(rank: int, size: int) -> None:
    if size < 1 or not 0 <= rank < size:
        raise ValueError(
            f"init_process_group: rank is {rank} and world_size {size}; give a rank from 0 to"
            " world_size - 1"
        )


def joined(
    url: str | None, store: Store | None, rank: int, size: int, timeout: float
) -> tuple[TCPStore, int, int, bool]:
    """The job's store, this process's rank, their number, and was the store made here?"""
    if store is not None:
        _checked(rank, size)
        return *_over(store, rank, size, timeout), rank, size, not isinstance(store, TCPStore)  # type: ignore[return-value]
    parts = urlsplit(url or "env://")
    given = dict(parse_qsl(parts.query))
    rank = int(given.get("rank", rank))
    size = int(given.get("world_size", size))
    if parts.scheme == "env":
        return _by_environment(rank, size, timeout)
    if parts.scheme == "tcp":
        _checked(rank, size)
        if not parts.hostname or not parts.port:
            raise ValueError(f"init_process_group: {url!r} lacks host or port: tcp://HOST:PORT")
        return _of_one_job(parts.hostname, parts.port, rank, size, timeout), rank, size, True
    if parts.scheme == "file":
        _checked(rank, size)
        if not parts.path:
            raise ValueError(f"init_process_group: {url!r} lacks a path: file:///PATH")
        return _by_file(parts.path, rank, size, timeout), rank, size, True
    if parts.scheme in _handlers:
        found, rank, size = next(iter(_handlers[parts.scheme](url, timeout=timeout)))
        return joined(None, found, rank, size, timeout)
    known = ", ".join(f"{s}://" for s in ("env", "tcp", "file", *_handlers))
    raise ValueError(f"init_process_group: init_method is {url!r}; give one of {known}")


def _by_environment(rank: int, size: int, timeout: float) -> tuple[TCPStore, int, int, bool]:
    names = next(
        (n for n in _LAUNCHERS if n[0] in os.environ and n[1] in os.environ), _LAUNCHERS[0]
    )
    rank = _number(names[0]) if rank < 0 else rank
    size = _number(names[1]) if size < 0 else size
    _checked(rank, size)
    if "MASTER_ADDR" not in os.environ and _mpi.is_launched():
        return _by_mpi(rank, size, timeout), rank, size, True
    host = os.environ.get("MASTER_ADDR")
    if not host:
        raise ValueError(
            "init_process_group: env:// wants MASTER_ADDR in the environment: the address of rank"
            " 0,"
            " such as 127.0.0.1"
        )
    port = _number("MASTER_PORT")
    # A launcher may serve the store itself.
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE", "") == "True":
        return TCPStore(host, port, size, False, timeout), rank, size, True
    return _of_one_job(host, port, rank, size, timeout), rank, size, True


def _of_one_job(host: str, port: int, rank: int, size: int, timeout: float) -> TCPStore:
    """The store that rank 0 serves. That of an earlier job on the port may not have ended yet."""
    end, pause = time.monotonic() + timeout, 0.01
    while True:
        left = max(0.1, end - time.monotonic())
        made = TCPStore(host, port, size, rank == 0, left, False)
        try:
            if made._join(size, alone=True):
                return made
            why = f"the store on {host}:{port} is of another job, which has its {size} processes"
        except DistStoreError as error:
            why = str(error)
        except BaseException:
            made.close()
            raise
        made.close()
        if rank == 0 or time.monotonic() + pause > end:
            raise DistStoreError(f"init_process_group: {why}")
        time.sleep(pause)
        pause = min(0.2, pause * 2)


def _address() -> str:
    return os.environ.get("MASTER_ADDR") or "127.0.0.1"


def _by_file(path: str, rank: int, size: int, timeout: float) -> TCPStore:
    """Rank 0 writes the store's address and secret into a file that only this user can read."""
    if rank == 0:
        secret = _secret.new()
        made = TCPStore(_address(), 0, size, True, timeout, False, secret=secret.encode())
        descriptor = os.open(path + ".part", os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{made.host} {made.port} {secret}\n")
        os.replace(path + ".part", path)
    else:
        made = _from_file(path, size, timeout)
    try:
        made._join(size)
    finally:
        if rank == 0:
            os.remove(path)
    return made


def _from_file(path: str, size: int, timeout: float) -> TCPStore:
    end = time.monotonic() + timeout
    while True:
        try:
            with open(path, encoding="ascii") as file:
                host, port, secret = file.read().split()
            return TCPStore(host, int(port), size, False, 2.0, False, secret=secret.encode())
        except (FileNotFoundError, ValueError, DistNetworkError):  # not yet, or of an earlier job
            if time.monotonic() > end:
                raise DistStoreError(
                    f"init_process_group: rank 0 did not come to {path} within {timeout:g} s"
                ) from None
            time.sleep(0.02)


def _by_mpi(rank: int, size: int, timeout: float) -> TCPStore:
    """Under a launcher of MPI the address of the store goes by MPI."""
    import socket

    MPI = _mpi._module()
    if not MPI.Is_initialized():
        _mpi.in_time(lambda: _mpi._init(MPI), lambda: None, "starting MPI", timeout)
    hosts = MPI.COMM_WORLD.allgather(socket.gethostname())
    alone = all(h == hosts[0] for h in hosts)
    made = None
    if rank == 0:
        secret = _secret.new()
        host = "127.0.0.1" if alone else socket.gethostbyname(hosts[0])
        made = TCPStore(host, 0, size, True, timeout, False, secret=secret.encode())
        MPI.COMM_WORLD.bcast((host, made.port, secret))
    else:
        host, port, secret = MPI.COMM_WORLD.bcast(None)
        made = TCPStore(host, port, size, False, timeout, False, secret=secret.encode())
    return made


def _over(store: Store, rank: int, size: int, timeout: float) -> tuple[TCPStore]:
    """A TCP store, which knows who is alive; other kinds of store tell where it is."""
    base = store
    while isinstance(base, PrefixStore):
        base = base.underlying_store
    if isinstance(base, TCPStore):
        return (base,)
    if rank == 0:
        secret = _secret.new()
        made = TCPStore(_address(), 0, size, True, timeout, False, secret=secret.encode())
        store.set("facula/tcp", f"{made.host} {made.port} {secret}")
    else:
        host, port, secret = store.get("facula/tcp").decode().split()
        made = TCPStore(host, int(port), size, False, timeout, False, secret=secret.encode())
    return (made,)
