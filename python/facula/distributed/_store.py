"""Stores: keys and values that all processes of a job see."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from facula.distributed import _secret
from facula.distributed._errors import DistNetworkError, DistStoreError
from facula.distributed._server import NUMBER, SECONDS, Server
from facula.distributed._wire import Channel, connected

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]

PATIENCE = 10.0  # seconds until a silent process counts as lost


def seconds(timeout: timedelta | float | None, default: float) -> float:
    """A timeout as a number."""
    if timeout is None:
        return default
    return timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)


def patience() -> float:
    """How long a silent process is waited for: `FACULA_DISTRIBUTED_PATIENCE` in seconds, or 10."""
    text = os.environ.get("FACULA_DISTRIBUTED_PATIENCE", "")
    try:
        value = float(text) if text else PATIENCE
    except ValueError:
        value = 0
    if not value > 0:
        raise ValueError(
            f"distributed: FACULA_DISTRIBUTED_PATIENCE is {text!r}; give seconds above 0"
        )
    return value


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


class Store:
    """Keys (str) with values (bytes)."""

    def __init__(self, timeout: timedelta | float | None = None) -> None:
        self._timeout = seconds(timeout, 300.0)

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait."""
        return timedelta(seconds=self._timeout)

    def set_timeout(self, timeout: timedelta | float) -> None:
        """How long `get` and `wait` wait from now on."""
        self._timeout = seconds(timeout, 300.0)

    def set(self, key: str, value: str | bytes) -> None:
        """The key has this value from now on."""
        raise NotImplementedError

    def get(self, key: str) -> bytes:
        """The value of a key, waiting until there is one.

        Raises:
            DistStoreError: there is none after the store's timeout.
        """
        raise NotImplementedError

    def add(self, key: str, amount: int) -> int:
        """Adds to a number (0 before), in one step, and returns the sum."""
        raise NotImplementedError

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        """Sets the value if it is `expected` (empty: or there is none); returns what it is then."""
        raise NotImplementedError

    def append(self, key: str, value: str | bytes) -> None:
        """Adds to the end of a value."""
        raise NotImplementedError

    def check(self, keys: Sequence[str]) -> bool:
        """Do all the keys have values?"""
        raise NotImplementedError

    def wait(self, keys: Sequence[str], timeout: timedelta | float | None = None) -> None:
        """Waits until all the keys have values.

        Raises:
            DistStoreError: they have none after the timeout (the store's by default).
        """
        raise NotImplementedError

    def delete_key(self, key: str) -> bool:
        """Removes a key; was it there?"""
        raise NotImplementedError

    def num_keys(self) -> int:
        """How many keys there are."""
        raise NotImplementedError

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values of several keys."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Sets several keys."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Whether `append`, `multi_get` and `multi_set` are there: they are."""
        return True

    def clone(self) -> Store:
        """A client of the same store for another thread."""
        return self

    def _late(self, keys: Sequence[str], timeout: float) -> DistStoreError:
        names = ", ".join(map(repr, keys[:4])) + (", ..." if len(keys) > 4 else "")
        return DistStoreError(f"{type(self).__name__}: no value of {names} came in {timeout:g} s")


class TCPStore(Store):
    """A store that one process serves on a port, for all processes of a job.

    Args:
        host_name: of the serving process; that process listens on this address alone.
        port: 0 in the serving process takes a free one: see `port`.
        world_size: how many processes use it; None if not known.
        is_master: does this process serve it?
        timeout: of `get` and `wait`, and of connecting; 300 seconds by default.
        wait_for_workers: the constructor returns when `world_size` processes have connected.

    All must know the secret of the job: see docs/distributed.md.

    Raises:
        DistNetworkError: nobody serves there within the timeout, or it is another job's.
    """

    def __init__(
        self,
        host_name: str,
        port: int = 0,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta | float | None = None,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
        *,
        secret: bytes | None = None,
    ) -> None:
        super().__init__(timeout)
        if master_listen_fd is not None:
            raise ValueError("TCPStore: master_listen_fd is not served; give a port")
        self._secret = _secret.of_job(host_name) if secret is None else secret
        self._server: Server | None = None
        if is_master:
            try:
                self._server = Server(host_name, port, self._secret, patience())
            except OSError as error:
                raise DistNetworkError(
                    f"TCPStore: cannot listen on {host_name}:{port}: {error.strerror}. Another"
                    " job may"
                    " use the port: give another one, or 0 for a free one"
                ) from None
            port = self._server.port
        self.host, self.port, self.world_size = host_name, port, world_size
        self._lock = threading.Lock()
        self._channel: Channel | None = self._connect()
        if world_size is not None and wait_for_workers:
            self._join(world_size)

    def _connect(self) -> Channel:
        end = time.monotonic() + self._timeout
        pause = 0.01
        while True:
            try:
                left = max(0.1, end - time.monotonic())
                return connected(self.host, self.port, self._secret, left)
            except OSError as error:
                if time.monotonic() + pause > end:
                    raise DistNetworkError(
                        f"TCPStore: no store on {self.host}:{self.port} after {self._timeout:g} s"
                        f" ({error.strerror or error}): is rank 0 started, and are MASTER_ADDR and"
                        " MASTER_PORT the same for all?"
                    ) from None
                time.sleep(pause)
                pause = min(0.5, pause * 2)

    def _join(self, world_size: int, alone: bool = False) -> bool:
        """Waits until all have joined; `alone`: False if the one job of the store is full."""
        here = self.add("facula/joined", 1)
        if alone and here > world_size:
            return False
        if here == world_size:
            self.set("facula/all joined", b"1")
        try:
            self.wait(["facula/all joined"])
        except DistStoreError:
            here = self.add("facula/joined", 0)
            raise DistStoreError(
                f"TCPStore: {here} of {world_size} processes connected to {self.host}:{self.port}"
                f" within {self._timeout:g} s"
            ) from None
        return True

    def _ask(self, *fields: bytes) -> list[bytes]:
        with self._lock:
            if self._channel is None:
                raise DistStoreError("TCPStore: the store is closed")
            try:
                self._channel.send(*fields)
                return self._channel.receive()
            except (OSError, EOFError):
                self._channel.close()
                self._channel = None
                raise DistStoreError(
                    f"TCPStore: the process that serves the store on {self.host}:{self.port} is"
                    " gone"
                ) from None
            except BaseException:  # an interrupt between question and answer
                self._channel.close()
                self._channel = None
                raise

    def set(self, key: str, value: str | bytes) -> None:
        self._ask(b"set", key.encode(), _bytes(value))

    def get(self, key: str) -> bytes:
        said = self._ask(b"get", key.encode(), SECONDS.pack(self._timeout))
        if not said:
            raise self._late([key], self._timeout)
        return said[0]

    def add(self, key: str, amount: int) -> int:
        return int(NUMBER.unpack(self._ask(b"add", key.encode(), NUMBER.pack(amount))[0])[0])

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        return self._ask(b"compare_set", key.encode(), _bytes(expected), _bytes(desired))[0]

    def append(self, key: str, value: str | bytes) -> None:
        self._ask(b"append", key.encode(), _bytes(value))

    def check(self, keys: Sequence[str]) -> bool:
        return bool(self._ask(b"check", *[k.encode() for k in keys])[0])

    def wait(self, keys: Sequence[str], timeout: timedelta | float | None = None) -> None:
        limit = seconds(timeout, self._timeout)
        if not self._ask(b"wait", SECONDS.pack(limit), *[k.encode() for k in keys]):
            raise self._late(keys, limit)

    def delete_key(self, key: str) -> bool:
        return bool(self._ask(b"delete", key.encode())[0])

    def num_keys(self) -> int:
        return int(NUMBER.unpack(self._ask(b"count")[0])[0])

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        limit = SECONDS.pack(self._timeout)
        values = self._ask(b"multi_get", limit, *[k.encode() for k in keys])
        if len(values) != len(keys):
            raise self._late(keys, self._timeout)
        return values

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        pairs = zip(keys, values, strict=True)
        self._ask(b"multi_set", *[part for k, v in pairs for part in (k.encode(), _bytes(v))])

    def clone(self) -> TCPStore:
        return TCPStore(self.host, self.port, timeout=self._timeout, secret=self._secret)

    def calls(self) -> dict[int, str]:
        """The last call of each rank that says that it lives."""
        said = self._ask(b"calls")
        return {int(r): c.decode() for r, c in zip(said[::2], said[1::2], strict=True)}

    def member_channel(self) -> Channel:
        """A connection of its own, by which a rank says that it lives."""
        return self._connect()

    def close(self, linger: float = 0.0, rank: int = -1) -> None:
        """Ends the connection, and the server if this process is it, once the others have left."""
        if self._server is not None:
            self._server.wait_for_goodbyes(rank, linger)
            self._server.close()
        with self._lock:
            if self._channel is not None:
                self._channel.close()
                self._channel = None

    def __repr__(self) -> str:
        return f"TCPStore({self.host!r}, {self.port})"


class HashStore(Store):
    """A store of one process, for its threads."""

    def __init__(self, timeout: timedelta | float | None = None) -> None:
        super().__init__(timeout)
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def _put(self, key: str, value: bytes) -> None:
        self._values[key] = value
        self._changed.notify_all()

    def set(self, key: str, value: str | bytes) -> None:
        with self._changed:
            self._put(key, _bytes(value))

    def get(self, key: str) -> bytes:
        self.wait([key])
        with self._changed:
            return self._values[key]

    def add(self, key: str, amount: int) -> int:
        with self._changed:
            total = int(self._values.get(key, b"0")) + amount
            self._put(key, str(total).encode())
            return total

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        with self._changed:
            now = self._values.get(key)
            if now == _bytes(expected) or (now is None and not expected):
                self._put(key, _bytes(desired))
                return _bytes(desired)
            return _bytes(expected) if now is None else now

    def append(self, key: str, value: str | bytes) -> None:
        with self._changed:
            self._put(key, self._values.get(key, b"") + _bytes(value))

    def check(self, keys: Sequence[str]) -> bool:
        with self._changed:
            return all(key in self._values for key in keys)

    def wait(self, keys: Sequence[str], timeout: timedelta | float | None = None) -> None:
        limit = seconds(timeout, self._timeout)
        with self._changed:
            if not self._changed.wait_for(lambda: all(k in self._values for k in keys), limit):
                raise self._late(keys, limit)

    def delete_key(self, key: str) -> bool:
        with self._changed:
            return self._values.pop(key, None) is not None

    def num_keys(self) -> int:
        return len(self._values)


class FileStore(Store):
    """A store in a file (an SQLite database) that all processes of a job can open.

    Args:
        file_name: of a new file, or of one that this job made.
        world_size: how many processes use it; the last to be closed removes the file.
    """

    def __init__(
        self,
        file_name: str | os.PathLike[str],
        world_size: int = -1,
        timeout: timedelta | float | None = None,
    ) -> None:
        super().__init__(timeout)
        self.path, self.world_size = os.fspath(file_name), world_size
        self._lock = threading.Lock()
        with contextlib.suppress(FileExistsError):  # for its owner alone
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        self._database = sqlite3.connect(
            self.path, timeout=60, isolation_level=None, check_same_thread=False
        )
        self._run("CREATE TABLE IF NOT EXISTS pairs (key TEXT PRIMARY KEY, value BLOB)")

    def _run(self, command: str, *values: Any) -> list[Any]:
        with self._lock:
            return self._database.execute(command, values).fetchall()

    @contextlib.contextmanager
    def _step(self) -> Any:
        """Several commands at once, beside which no other process writes."""
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                self._database.execute("ROLLBACK")
                raise

    def _changed(self, key: str, change: Any) -> bytes:
        with self._step() as database:
            row = database.execute("SELECT value FROM pairs WHERE key = ?", (key,)).fetchone()
            value: bytes | None = change(None if row is None else row[0])
            if value is not None:
                database.execute("REPLACE INTO pairs VALUES (?, ?)", (key, value))
            return value if value is not None else (row[0] if row else b"")

    def set(self, key: str, value: str | bytes) -> None:
        self._run("REPLACE INTO pairs VALUES (?, ?)", key, _bytes(value))

    def get(self, key: str) -> bytes:
        self.wait([key])
        return bytes(self._run("SELECT value FROM pairs WHERE key = ?", key)[0][0])

    def add(self, key: str, amount: int) -> int:
        return int(self._changed(key, lambda old: str(int(old or b"0") + amount).encode()))

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        def change(old: bytes | None) -> bytes | None:
            fits = old == _bytes(expected) or (old is None and not expected)
            return _bytes(desired) if fits else None

        return self._changed(key, change) or _bytes(expected)

    def append(self, key: str, value: str | bytes) -> None:
        self._changed(key, lambda old: (old or b"") + _bytes(value))

    def check(self, keys: Sequence[str]) -> bool:
        return all(self._run("SELECT 1 FROM pairs WHERE key = ?", key) for key in keys)

    def wait(self, keys: Sequence[str], timeout: timedelta | float | None = None) -> None:
        limit = seconds(timeout, self._timeout)
        end = time.monotonic() + limit
        pause = 0.001
        while not self.check(keys):
            if time.monotonic() > end:
                raise self._late(keys, limit)
            time.sleep(pause)
            pause = min(0.05, pause * 2)

    def delete_key(self, key: str) -> bool:
        with self._step() as database:
            return bool(database.execute("DELETE FROM pairs WHERE key = ?", (key,)).rowcount > 0)

    def num_keys(self) -> int:
        return int(self._run("SELECT COUNT(*) FROM pairs")[0][0])

    def close(self) -> None:
        """Ends the use; the last of `world_size` processes removes the file."""
        last = self.world_size > 0 and self.add("facula/closed", 1) == self.world_size
        self._database.close()
        if last:
            with contextlib.suppress(FileNotFoundError):
                os.remove(self.path)


class PrefixStore(Store):
    """A part of another store, whose keys all begin with `prefix/`."""

    def __init__(self, prefix: str, store: Store) -> None:
        self._prefix, self._store = prefix, store

    @property
    def underlying_store(self) -> Store:
        """The store it is part of."""
        return self._store

    @property
    def timeout(self) -> timedelta:
        return self._store.timeout

    def set_timeout(self, timeout: timedelta | float) -> None:
        self._store.set_timeout(timeout)

    def _key(self, key: str) -> str:
        return f"{self._prefix}/{key}"

    def set(self, key: str, value: str | bytes) -> None:
        self._store.set(self._key(key), value)

    def get(self, key: str) -> bytes:
        return self._store.get(self._key(key))

    def add(self, key: str, amount: int) -> int:
        return self._store.add(self._key(key), amount)

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        return self._store.compare_set(self._key(key), expected, desired)

    def append(self, key: str, value: str | bytes) -> None:
        self._store.append(self._key(key), value)

    def check(self, keys: Sequence[str]) -> bool:
        return self._store.check([self._key(k) for k in keys])

    def wait(self, keys: Sequence[str], timeout: timedelta | float | None = None) -> None:
        self._store.wait([self._key(k) for k in keys], timeout)

    def delete_key(self, key: str) -> bool:
        return self._store.delete_key(self._key(key))

    def num_keys(self) -> int:
        return self._store.num_keys()

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        return self._store.multi_get([self._key(k) for k in keys])

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        self._store.multi_set([self._key(k) for k in keys], values)

    def clone(self) -> PrefixStore:
        return PrefixStore(self._prefix, self._store.clone())
