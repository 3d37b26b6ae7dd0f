"""The server of a store: keys and values, and who of the job is alive."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time

from facula.distributed._wire import Channel, admitted

NUMBER = struct.Struct("<q")
SECONDS = struct.Struct("<d")


class Member:
    """A rank that keeps a connection to say that it lives."""

    def __init__(self, rank: int, name: str, channel: Channel) -> None:
        self.rank, self.name, self.channel = rank, name, channel
        self.seen, self.call = time.monotonic(), ""


class Server:
    """Serves a store on one port, by a thread a connection.

    Args:
        host, port: where to listen; port 0 takes a free one.
        secret: what clients must know.
        patience: seconds of silence after which a rank counts as lost.
    """

    def __init__(self, host: str, port: int, secret: bytes, patience: float) -> None:
        self._secret, self._patience = secret, patience
        self._values: dict[bytes, bytes] = {}
        self._changed = threading.Condition()
        self._members: dict[int, Member] = {}
        self._gone: dict[int, bytes] = {}  # rank -> why
        self._calls: dict[int, str] = {}  # rank -> the last that it said
        self._channels: set[Channel] = set()
        self._closed = False
        self._socket = socket.create_server((host, port), backlog=512)
        self.port: int = self._socket.getsockname()[1]
        for target in (self._accept, self._listen_for_silence):
            threading.Thread(target=target, name="facula store", daemon=True).start()

    def close(self) -> None:
        """Ends all connections."""
        with self._changed:
            self._closed = True
            channels = list(self._channels)
            self._changed.notify_all()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for channel in channels:
            channel.close()

    def wait_for_goodbyes(self, rank: int, timeout: float) -> None:
        """Waits until all ranks but `rank` have left, so that none loses the store under way."""
        with self._changed:
            self._changed.wait_for(lambda: not set(self._members) - {rank}, timeout)

    # ---- connections ----

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(
                target=self._serve, args=(Channel(sock),), name="facula store", daemon=True
            ).start()

    def _serve(self, channel: Channel) -> None:
        try:
            if not admitted(channel, self._secret):
                return
            with self._changed:
                if self._closed:
                    return
                self._channels.add(channel)
            while True:
                command, *fields = channel.receive()
                if command == b"member":
                    self._watch(channel, int(fields[0]), fields[1].decode())
                    return
                channel.send(*self._answer(command, fields))
        except (OSError, EOFError, ValueError, IndexError):
            pass  # the client is gone, or no client of ours
        finally:
            self._channels.discard(channel)
            channel.close()

    # ---- keys and values ----

    def _answer(self, command: bytes, fields: list[bytes]) -> tuple[bytes, ...]:
        with self._changed:
            match command, *fields:
                case b"set", key, value:
                    self._put(key, value)
                    return (b"",)
                case b"get", key, timeout:
                    if not self._wait([key], timeout):
                        return ()
                    return (self._values[key],)
                case b"wait", timeout, *keys:
                    return (b"",) if self._wait(keys, timeout) else ()
                case b"add", key, amount:
                    total = int(self._values.get(key, b"0")) + NUMBER.unpack(amount)[0]
                    self._put(key, str(total).encode())
                    return (NUMBER.pack(total),)
                case b"compare_set", key, expected, desired:
                    now = self._values.get(key)
                    if now == expected or (now is None and expected == b""):
                        self._put(key, desired)
                        return (desired,)
                    return (expected if now is None else now,)
                case b"append", key, value:
                    self._put(key, self._values.get(key, b"") + value)
                    return (b"",)
                case b"check", *keys:
                    return (b"1" if all(k in self._values for k in keys) else b"",)
                case b"delete", key:
                    return (b"1" if self._values.pop(key, None) is not None else b"",)
                case (b"count",):
                    return (NUMBER.pack(len(self._values)),)
                case b"multi_set", *pairs:
                    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
                        self._put(key, value)
                    return (b"",)
                case b"multi_get", timeout, *keys:
                    if not self._wait(keys, timeout):
                        return ()
                    return tuple(self._values[k] for k in keys)
                case (b"calls",):
                    return tuple(
                        part
                        for rank, call in sorted(self._calls.items())
                        for part in (str(rank).encode(), call.encode())
                    )
        raise ValueError(command)

    def _put(self, key: bytes, value: bytes) -> None:
        self._values[key] = value
        self._changed.notify_all()

    def _wait(self, keys: list[bytes], timeout: bytes) -> bool:
        return self._changed.wait_for(
            lambda: self._closed or all(k in self._values for k in keys), SECONDS.unpack(timeout)[0]
        ) and all(k in self._values for k in keys)

    # ---- who is alive ----

    def _watch(self, channel: Channel, rank: int, name: str) -> None:
        member = Member(rank, name, channel)
        with self._changed:
            self._members[rank] = member
            self._gone.pop(rank, None)
            told = list(self._gone.items())
        for other, why in told:
            channel.send(b"gone", str(other).encode(), why)
        why = b"lost: its connection closed, so its process ended"
        try:
            while True:
                said = channel.receive()
                member.seen = time.monotonic()
                if said[0] == b"ping":
                    member.call = self._calls[rank] = said[1].decode()
                    channel.send(b"pong")
                elif said[0] == b"bye":
                    why = b"left"
                    break
                elif said[0] == b"failed":
                    why = b"lost: " + said[1]
                    break
        except (OSError, EOFError):
            pass
        self._end(member, why)

    def _end(self, member: Member, why: bytes) -> None:
        """Tells the others that a member is gone, once."""
        with self._changed:
            if self._closed or self._members.get(member.rank) is not member:
                return
            del self._members[member.rank]
            why += b" (" + member.name.encode() + b")"
            if member.call:
                why += b"; its last call was " + member.call.encode()
            self._gone[member.rank] = why
            others = [m.channel for m in self._members.values()]
            self._changed.notify_all()
        for channel in others:
            with contextlib.suppress(OSError):  # its own thread sees that
                channel.send(b"gone", str(member.rank).encode(), why)

    def _listen_for_silence(self) -> None:
        while not self._closed:
            time.sleep(min(1.0, self._patience / 4))
            now = time.monotonic()
            for member in list(self._members.values()):
                silent = now - member.seen
                if silent > self._patience:
                    self._end(member, f"lost: silent for {silent:.0f} s".encode())
