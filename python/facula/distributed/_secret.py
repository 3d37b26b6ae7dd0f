"""The secret that the processes of one job share, and others do not know."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
import socket

from facula.distributed._errors import DistNetworkError

VARIABLE = "FACULA_DISTRIBUTED_SECRET"


def new() -> str:
    """A new secret."""
    return secrets.token_hex(32)


def is_loopback(host: str) -> bool:
    """Does the name mean this machine alone?"""
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(a).is_loopback for a in found)


def of_job(host: str) -> bytes:
    """The job's secret: of the environment, or within one machine this user's own.

    Raises:
        DistNetworkError: the store is to be reached from other machines, and there is no secret.
    """
    text = os.environ.get(VARIABLE)
    if text:
        return text.encode()
    if not is_loopback(host):
        raise DistNetworkError(
            f"distributed: the store on {host} can be reached from other machines, and the job"
            " has no"
            f" secret. Set {VARIABLE} to the same random text in all processes (python -c 'import"
            f" secrets; print(secrets.token_hex(32))'), or start them by `python -m"
            f" facula.distributed.run`"
        )
    return _of_user()


def _of_user() -> bytes:
    """The secret of this user on this machine, in a file that nobody else can read."""
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(caches, "facula")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, "distributed-secret")
    with contextlib.suppress(FileExistsError):
        part = f"{path}.{os.getpid()}.{secrets.token_hex(4)}"
        descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            os.write(descriptor, new().encode())
            os.close(descriptor)
            os.link(part, path)  # whole, or not at all, and never over another's
        finally:
            os.remove(part)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        facts = os.fstat(descriptor)
        if facts.st_uid != os.getuid() or facts.st_mode & 0o077:
            raise DistNetworkError(
                f"distributed: {path}, this user's secret, can be read or was made by others;"
                " remove"
                f" it, or set {VARIABLE}"
            )
        return os.read(descriptor, 1024)
    finally:
        os.close(descriptor)
