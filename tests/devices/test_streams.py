"""Streams and events: of which device they are, and what the vendor's functions are called with."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import facula as fa
import pytest

pytestmark = pytest.mark.usefixtures("strict", "numpyfied")


def test_an_event_stays_with_its_device() -> None:
    event = fa.strict.Event()
    event.record(fa.strict.default_stream(0))
    with pytest.raises(RuntimeError, match=r"first recorded on strict:0, .* of strict:1; make an"):
        event.record(fa.strict.default_stream(1))
    event.record(fa.strict.Stream(0))
    event.wait(fa.strict.default_stream(1))  # others may wait for it
    fa.strict.synchronize(1)


def test_times_are_of_one_device() -> None:
    first, second = (fa.strict.Event(enable_timing=True) for _ in range(2))
    first.record(fa.strict.default_stream(0))
    second.record(fa.strict.default_stream(1))
    with pytest.raises(RuntimeError, match="the events are of strict:0 and strict:1"):
        first.elapsed_time(second)


OTHERS: dict[str, Callable[[fa.Tensor], object]] = {
    "record": lambda x: fa.strict.Event().record(fa.numpyfied.current_stream()),
    "wait": lambda x: fa.strict.current_stream().record_event().wait(fa.numpyfied.current_stream()),
    "wait_stream": lambda x: fa.numpyfied.current_stream().wait_stream(fa.strict.current_stream()),
    "capture": lambda x: fa.strict.Graph().capture(fa.numpyfied.current_stream()),
    "record_stream": lambda x: x.record_stream(fa.numpyfied.current_stream()),
    "record_stream of another index": lambda x: x.record_stream(fa.strict.Stream(1)),
}


@pytest.mark.parametrize("case", OTHERS)
def test_streams_of_other_devices_are_refused(case: str) -> None:
    wanted = "on strict:0, the stream is of (numpyfied:0|strict:1)"
    if "record_stream" not in case:
        wanted = "a stream of 'strict' is expected, not <facula.numpyfied.Stream"
    with pytest.raises(ValueError, match=wanted):
        OTHERS[case](fa.ones(2, device="strict"))
    fa.strict.synchronize()


def test_pinned_memory_keeps_one_event_of_each_stream(strict: ctypes.CDLL) -> None:
    pinned, x = fa.ones(64).pin_memory("strict"), fa.empty(64, device="strict")
    streams = [fa.strict.default_stream(), fa.strict.Stream()]
    before = strict.count_events()
    for _ in range(50):
        for stream in streams:
            with stream:
                x.copy_(pinned, non_blocking=True)
    assert strict.count_events() - before <= len(streams)
    del pinned  # waits for both
    fa.strict.synchronize()
    assert x.sum().item() == 64


def test_the_vendor_is_called_without_pythons_lock(strict: ctypes.CDLL) -> None:
    before = strict.count_locked()
    start, end = fa.strict.Event(enable_timing=True), fa.strict.Event(enable_timing=True)
    start.record()
    x = fa.ones(4).pin_memory("strict")
    graph = fa.strict.Graph()
    with graph.capture():
        y = fa.ones(4, device="strict")
        y.record_stream(fa.strict.Stream())
        del y  # its event is made when the capture ends
    graph.reset()
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) > 0 and x.is_pinned()
    del start, end
    assert strict.count_locked() == before
