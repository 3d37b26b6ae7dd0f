"""A child process without the parent's device: each call of the vendor is refused there."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable
from typing import Any

import facula as fa
import pytest

pytestmark = pytest.mark.usefixtures("strict")


class Before:
    """What the parent made."""

    def __init__(self) -> None:
        self.x = fa.ones(2, device="strict")
        self.stream, self.event = fa.strict.Stream(), fa.strict.Event(enable_timing=True)
        self.other = fa.strict.Event(enable_timing=True)
        self.event.record()
        self.other.record()
        self.graph = fa.strict.Graph()
        with self.graph.capture():
            self.y = self.x + 1
        for _ in range(40):  # work that no thread of the child will do
            self.x = self.x + 1


def in_child(act: Callable[[], object]) -> tuple[str, str]:
    """The exception's type and text; what is still waiting after 20 seconds is ended."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        answer = ("", "")
        try:
            act()
        except BaseException as error:
            answer = (type(error).__name__, str(error))
        os.write(into, pickle.dumps(answer))
        os._exit(0)
    os.close(into)
    with os.fdopen(out, "rb") as pipe:
        answer = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return pickle.loads(answer)


CALLS: dict[str, Callable[[Any], object]] = {
    "kernel": lambda p: p.x + p.x,
    "item": lambda p: p.x.sum().item(),
    "factory": lambda p: fa.ones(2, device="strict"),
    "copy": lambda p: fa.ones(2).to("strict"),
    "synchronize": lambda p: fa.strict.synchronize(),
    "Stream": lambda p: fa.strict.Stream(),
    "with": lambda p: p.stream.__enter__(),
    "stream.synchronize": lambda p: p.stream.synchronize(),
    "stream.query": lambda p: p.stream.query(),
    "event.record": lambda p: p.event.record(p.stream),
    "a first record": lambda p: fa.strict.Event().record(p.stream),
    "event.wait": lambda p: p.event.wait(p.stream),
    "event.query": lambda p: p.event.query(),
    "event.synchronize": lambda p: p.event.synchronize(),
    "elapsed_time": lambda p: p.event.elapsed_time(p.other),
    "mem_get_info": lambda p: fa.strict.mem_get_info(),
    "empty_cache": lambda p: fa.strict.empty_cache(),
    "get_device_name": lambda p: fa.strict.get_device_name(),
    "set_device": lambda p: fa.strict.set_device(1),
    "capture": lambda p: fa.strict.Graph().capture(p.stream).__enter__(),
    "replay": lambda p: p.graph.replay(),
    "reset": lambda p: p.graph.reset(),
    "pin_memory": lambda p: fa.ones(2).pin_memory("strict"),
}


@pytest.fixture(scope="module")
def before() -> Before:
    return Before()


@pytest.mark.parametrize("call", CALLS)
def test_refused(before: Before, call: str) -> None:
    kind, text = in_child(lambda: CALLS[call](before))
    assert kind == "RuntimeError"
    assert "device 'strict' was used before this process was forked" in text


def test_the_parent_goes_on(before: Before) -> None:
    assert in_child(lambda: None) == ("", "")
    assert (before.x * 0 + 2).sum().item() == 4


def test_what_needs_no_vendor_goes_on(before: Before) -> None:
    def act() -> None:
        assert fa.strict.is_available() and fa.strict.device_count() == 2
        assert fa.manual_seed(3).initial_seed() == 3
        fa.strict.manual_seed_all(4)
        assert before.x.t().shape == (2,) and before.x.device == fa.device("strict:0")
        assert fa.ones(2).sum().item() == 2
        del before.y, before.event, before.graph

    assert in_child(act) == ("", "")
