"""What a process keeps for those to which it has sent a device's memory: without a device."""

from __future__ import annotations

import os
import threading

import facula as fa
import pytest
from facula.multiprocessing import _device_memory
from facula.multiprocessing._device_memory import _Keeper

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


class Quiet(_Keeper):
    """Without the thread that looks by itself."""

    def _watch(self) -> None:
        pass


def test_two_looks_at_one_signal() -> None:
    keeper = Quiet()
    _, end = keeper.keep("what")
    first, second = keeper.selector.select(0), keeper.selector.select(0)
    assert first and second
    keeper.look(first)
    other = threading.Thread(target=keeper.look, args=(second,), daemon=True)
    other.start()
    other.join(10)
    assert not other.is_alive()
    assert list(keeper.kept.values()) == ["what"]
    os.close(end.fd)
    end.fd = -1
    keeper.look(keeper.selector.select(1))
    assert not keeper.kept


def test_many_signals_that_nobody_takes() -> None:
    """More than a pipe holds: it is enough that there is one."""
    keeper = Quiet()
    for _ in range(70_000 // 1000):
        keeper.keep(None)
    for _ in range(70_000):
        keeper._wake()
    keeper.look(keeper.selector.select(0))


def test_a_receiver_that_cannot_open_lets_go() -> None:
    reading, writing = os.pipe()

    class Duplicate:
        def detach(self) -> int:
            return writing

    place = ("xpu9:0", b"", 0, 4, b"")
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        _device_memory._rebuild(place, (-1, 0, Duplicate()), (fa.uint8, (4,), (1,), 0), False)
    os.set_blocking(reading, False)
    assert os.read(reading, 1) == b""  # all writing ends are closed
    os.close(reading)
