"""Messages between a store and its clients: lists of byte strings over an authenticated socket.

Both ends prove that they know the secret of the job (HMAC-SHA256 of the other's random bytes, RFC
2104) before either reads anything else.
"""

from __future__ import annotations

import hmac
import os
import socket
import struct
import threading
from multiprocessing.connection import Connection

from facula.distributed._errors import DistNetworkError

_HELLO = b"facula store 1"
_SIZE = struct.Struct("<I")


def packed(fields: tuple[bytes, ...]) -> bytes:
    """The fields in one string."""
    return b"".join([part for field in fields for part in (_SIZE.pack(len(field)), field)])


def unpacked(message: bytes) -> list[bytes]:
    """The fields of a message."""
    fields, at = [], 0
    while at < len(message):
        (size,) = _SIZE.unpack_from(message, at)
        at += _SIZE.size
        if at + size > len(message):
            raise DistNetworkError("distributed: a message of the store is cut short")
        fields.append(message[at : at + size])
        at += size
    return fields


class Channel:
    """One end of a connection; several threads may send."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(None)
        self._connection = Connection(sock.detach())
        self._sending = threading.Lock()
        self._closing = threading.Lock()
        self._closed = False

    def send(self, *fields: bytes) -> None:
        with self._sending:
            self._connection.send_bytes(packed(fields))

    def receive(self, timeout: float | None = None) -> list[bytes]:
        """The next message.

        Raises:
            TimeoutError: none came within `timeout` seconds. EOFError: the other end closed.
        """
        try:
            if not self._connection.poll(timeout):
                raise TimeoutError
            return unpacked(self._connection.recv_bytes())
        except ConnectionResetError:
            raise EOFError from None
        except (OSError, TypeError):
            if self._closed:  # by another thread meanwhile: its descriptor is None then
                raise EOFError from None
            raise

    def close(self) -> None:
        """Ends it, once, and wakes a thread that waits for a message."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            try:
                with socket.socket(fileno=os.dup(self._connection.fileno())) as descriptor:
                    descriptor.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            self._connection.close()


def _proof(secret: bytes, nonce: bytes, side: bytes) -> bytes:
    return hmac.new(secret, _HELLO + side + nonce, "sha256").digest()


def admitted(channel: Channel, secret: bytes, timeout: float = 10.0) -> bool:
    """The server's side of the proof: does the client know the secret?"""
    nonce = os.urandom(32)
    channel.send(_HELLO, nonce)
    try:
        said = channel.receive(timeout)
    except (OSError, EOFError, TimeoutError, DistNetworkError):
        return False
    if len(said) != 2 or not hmac.compare_digest(said[0], _proof(secret, nonce, b"client")):
        return False
    channel.send(_proof(secret, said[1], b"server"))
    return True


def connected(host: str, port: int, secret: bytes, timeout: float) -> Channel:
    """A connection to a server that knows the secret.

    Raises:
        OSError: nobody listens there. DistNetworkError: it is no store, or of another job.
    """
    channel = Channel(socket.create_connection((host, port), timeout=timeout))
    try:
        try:
            hello = channel.receive(timeout)
        except EOFError:  # it is about to end, or to begin
            raise ConnectionAbortedError(f"{host}:{port} hung up") from None
        if len(hello) != 2 or hello[0] != _HELLO:
            raise DistNetworkError(f"distributed: what listens on {host}:{port} is no store")
        nonce = os.urandom(32)
        channel.send(_proof(secret, hello[1], b"client"), nonce)
        (proof,) = channel.receive(timeout)
        if not hmac.compare_digest(proof, _proof(secret, nonce, b"server")):
            raise EOFError
    except (EOFError, ValueError):
        channel.close()
        raise DistNetworkError(
            f"distributed: the store on {host}:{port} belongs to another job: the secrets differ."
            " Give all processes of a job the same FACULA_DISTRIBUTED_SECRET"
        ) from None
    except TimeoutError:
        channel.close()
        raise DistNetworkError(
            f"distributed: what listens on {host}:{port} does not answer as a store"
        ) from None
    except BaseException:
        channel.close()
        raise
    return channel
