"""Tensors of devices on their way to other processes, which open the sender's memory.

With the handle goes the writing end of a pipe. The receiver closes it when it has let go of the
memory, or the system does when the receiver is killed: the sender, which has the reading end, keeps
the memory until then.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import selectors
import threading
import warnings
import weakref
from multiprocessing import reduction
from multiprocessing.context import get_spawning_popen
from typing import Any

from facula import _C

__all__ = ["collect", "reduce_tensor", "shares"]

_SECONDS = 0.05  # between two looks at processes that are being started


def shares(device: Any) -> bool:
    """Whether another process can open the device's memory."""
    return bool(_C._shares_device_memory(device.type))


class _End:
    """The writing end of a pipe, as long as this lives."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        if self.fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self.fd)


class _Keeper:
    """What was sent: kept until all writing ends of its pipe are closed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.numbers = itertools.count()
        self.kept: dict[int, Any] = {}
        self.starting: list[tuple[Any, _End]] = []  # with processes, weakly
        self.selector: Any = None

    def keep(self, what: Any) -> tuple[int, _End]:
        """Its number here, and the end that the receiver is to have."""
        reading, writing = os.pipe()
        end = _End(writing)
        with self.lock:
            if self.selector is None:
                self._start()
            number = next(self.numbers)
            self.kept[number] = what
            self.selector.register(reading, selectors.EVENT_READ, number)
        self._wake()
        return number, end

    def _start(self) -> None:
        self.selector = selectors.DefaultSelector()
        woken, self.alarm = os.pipe()
        for fd in (woken, self.alarm):
            os.set_blocking(fd, False)
        self.selector.register(woken, selectors.EVENT_READ, None)
        threading.Thread(target=self._watch, name="facula-sent-memory", daemon=True).start()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # full: it is awake
            os.write(self.alarm, b"\0")

    def sent(self, number: int) -> Any:
        """A tensor that comes back to this process; None if it is not kept any more."""
        with self.lock:
            return self.kept.get(number, (None,))[0]

    def until_started(self, popen: Any, end: _End) -> None:
        """The process takes the end over when it has started."""
        with self.lock:
            self.starting.append((weakref.ref(popen), end))
        self._wake()

    def _watch(self) -> None:
        selector = self.selector
        while True:
            self.look(selector.select(_SECONDS if self.starting else None))

    def look(self, ready: Any) -> None:
        """Let go of what the receivers have let go of."""
        gone: list[Any] = []
        with self.lock:
            self.starting = [s for s in self.starting if _is_starting(s[0]())]
            for key, _ in ready:
                if key.data is None:
                    with contextlib.suppress(BlockingIOError):  # another look was first
                        os.read(key.fd, 4096)
                elif key.data in self.kept:
                    gone.append(self.kept.pop(key.data))
                    self.selector.unregister(key.fd)
                    os.close(key.fd)


def _is_starting(popen: Any) -> bool:
    return popen is not None and getattr(popen, "pid", None) is None


_keeper = _Keeper()
_left: list[_Keeper] = []


def _after_fork() -> None:
    # The memory is the parent's, and so is the thread; what the child has of ends holds up nothing.
    global _keeper
    _left.append(_keeper)
    _keeper.starting = []
    _keeper = _Keeper()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _warn() -> None:
    if _keeper.selector is not None:
        collect()
        if _keeper.kept:
            warnings.warn(
                f"this process ends while other processes have {len(_keeper.kept)} tensors of its "
                "devices, whose memory goes with it: let it wait until they have let go of them",
                RuntimeWarning,
                stacklevel=2,
            )


def collect() -> None:
    """Let go at once of memory that no receiver has any more, or that nobody here has."""
    _C._close_opened_memory()
    if _keeper.selector is not None:
        _keeper.look(_keeper.selector.select(0))


# ---- tensors


def reduce_tensor(tensor: Any) -> Any:
    """What ForkingPickler writes for a tensor of such a device."""
    plain = tensor.detach()
    nbytes = plain.untyped_storage().nbytes()
    if not nbytes:
        return tensor.__reduce_ex__(2)
    handle, offset, event, kept = _C._share_device_memory(plain)
    number, end = _keeper.keep((plain, kept))
    popen = get_spawning_popen()
    if popen is not None:
        _keeper.until_started(popen, end)
    place = (str(plain.device), handle, offset, nbytes, event)
    sender = (os.getpid(), number, reduction.DupFd(end.fd))
    view = (plain.dtype, tuple(plain.shape), tuple(plain.stride()), plain.storage_offset())
    return _rebuild, (place, sender, view, tensor.requires_grad)


def _rebuild(
    place: tuple[Any, ...], sender: tuple[int, int, Any], view: tuple[Any, ...], requires_grad: bool
) -> Any:
    pid, number, duplicate = sender
    try:
        end = _End(duplicate.detach())
    except (ConnectionError, FileNotFoundError, EOFError) as error:
        raise RuntimeError(
            f"a tensor on {place[0]} was received whose sender (pid {pid}) has ended, and its "
            "memory with it: let the sender wait until its tensors are received"
        ) from error
    dtype, shape, stride, offset = view
    own = _keeper.sent(number) if pid == os.getpid() else None
    if own is None:
        own = _C._open_device_memory(*place, end.fd)
        end.fd = -1  # the tensor's now
        own = own[: own.numel() // dtype.itemsize * dtype.itemsize].view(dtype)
    tensor = own.as_strided(shape, stride, offset)
    return tensor.requires_grad_() if requires_grad else tensor
