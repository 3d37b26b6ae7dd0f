"""Streams, generators and the names of torch's in the module of a device."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import facula as fa
import pytest
from device_packages import run

pytestmark = pytest.mark.usefixtures("strict")


def test_a_generator_keeps_its_device() -> None:
    g = fa.Generator(device="strict:1").manual_seed(4)
    fa.rand(3, generator=g, device="strict:1")
    for other in (pickle.loads(pickle.dumps(g)), copy.deepcopy(g), copy.copy(g)):
        assert other.device == fa.device("strict:1")
        assert other.get_state().tolist() == g.get_state().tolist()
    assert pickle.loads(pickle.dumps(fa.Generator())).device == fa.device("cpu")


def test_streams_are_of_a_process() -> None:
    stream = fa.strict.Stream(1)
    assert copy.copy(stream) is stream and copy.deepcopy([stream])[0] is stream
    with pytest.raises(TypeError, match=r"Stream device=strict:1 .* cannot be pickled"):
        pickle.dumps(stream)
    with pytest.raises(TypeError, match="foo"):
        fa.strict.Stream(0, 0, foo=1)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="Graph can be neither copied nor pickled"):
            copied(fa.strict.Graph())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda s: fa.ones(1, device="strict").record_stream(5),
            "record_stream.*Stream .* not int",
        ),
        (lambda s: s.wait_event(5), "wait_event.*an? Event is expected, not int"),
        (lambda s: s.wait_stream("x"), "wait_stream.*a Stream is expected, not str"),
        (lambda s: s.record_event(s), "record_event.*Event is expected, not Stream"),
        (lambda s: fa.strict.set_stream(1), "set_stream.*a Stream is expected, not int"),
        (lambda s: fa.strict.stream(1), "stream.*a Stream is expected, not int"),
    ],
)
def test_what_is_no_stream_or_event(call: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        call(fa.strict.Stream())


def test_what_changes_nothing() -> None:
    before = fa.strict.current_stream()
    fa.strict.set_stream(None)
    assert fa.strict.current_stream() == before
    fa.strict.empty_cache("strict:1")
    with pytest.raises(ValueError, match="of type 'strict' is expected, not cpu"):
        fa.strict.empty_cache("cpu")
    with pytest.raises(NotImplementedError, match="between processes"):
        fa.strict.Event(interprocess=True)


def test_random_numbers_of_all_devices() -> None:
    def drawn() -> list[Any]:
        return [fa.rand(3, device=f"strict:{i}").tolist() for i in range(2)]

    states = fa.strict.get_rng_state_all()
    assert len(states) == len(fa.strict.default_generators) == 2
    first = drawn()
    assert drawn() != first
    fa.strict.set_rng_state_all(states)
    assert drawn() == first
    assert fa.strict.default_generators[1].device == fa.device("strict:1")
    assert [g.device.index for g in fa.strict.default_generators[:]] == [0, 1]
    fa.strict.seed_all()
    one, other = fa.strict.default_generators
    assert one.initial_seed() == other.initial_seed() and drawn() != first


def test_names_of_torch() -> None:
    fa.strict.init()
    assert fa.strict.is_initialized() and fa.strict.is_bf16_supported()
    assert fa.strict.OutOfMemoryError is fa.OutOfMemoryError
    with fa.strict.device_of(fa.empty(1, device="strict:1")):
        assert fa.strict.current_device() == 1
        with fa.strict.device_of(fa.empty(1)):
            assert fa.strict.current_device() == 1
    assert fa.strict.current_device() == 0
    side = fa.strict.Stream()
    with fa.strict.StreamContext(side):
        assert fa.strict.current_stream() == side
    x, graph = fa.zeros(4, device="strict"), fa.strict.Graph()
    fa.strict.synchronize()
    with fa.strict.graph(graph, stream=side):
        assert fa.strict.is_current_stream_capturing()
        x += 1
    assert not fa.strict.is_current_stream_capturing()
    graph.replay()
    assert x.tolist() == [1, 1, 1, 1]


def test_accelerator() -> None:
    where = fa.accelerator.current_accelerator()
    assert fa.accelerator.is_available() and where.index is None
    module = getattr(fa, where.type)
    assert fa.accelerator.device_count() == module.device_count()
    assert fa.accelerator.current_device_index() == 0
    assert fa.accelerator.current_stream() == module.current_stream()
    fa.accelerator.synchronize()
    x = fa.ones(1000, device=where)
    assert fa.accelerator.memory_allocated() >= x.nbytes
    fa.accelerator.set_device_index(module.device_count() - 1)
    try:
        assert module.current_device() == module.device_count() - 1
    finally:
        fa.accelerator.set_device_index(0)


def test_an_index_alone_is_of_the_accelerator() -> None:
    where = fa.accelerator.current_accelerator().type
    assert fa.device(0) == fa.device(where, 0)
    assert fa.ones(1).to(0).device == fa.device(where, 0)
    done = run("import facula as fa; print(fa.accelerator.is_available()); fa.ones(1).to(0)")
    if done.stdout == "False\n":
        assert "an index alone is one of the accelerator, and there is none" in done.stderr
