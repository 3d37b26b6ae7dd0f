"""Captures of graphs: what they refuse, how they end, whose memory is whose."""

from __future__ import annotations

from collections.abc import Callable

import facula as fa
import pytest

pytestmark = pytest.mark.usefixtures("strict")
PINNED = "or with non_blocking=True from pinned memory"
REPLAYED = "can be read on the host when the graph has been replayed"
REFUSED: dict[str, tuple[Callable[[fa.Tensor], object], str]] = {
    "item": (lambda x: (x + 1).sum().item(), REPLAYED),
    "tolist": (lambda x: x.tolist(), REPLAYED),
    "cpu": (lambda x: x.cpu(), REPLAYED),
    "blocking copy to pinned memory": (lambda x: PAGE_LOCKED[0].copy_(x), REPLAYED),
    "host memory": (lambda x: fa.ones(1000).to("strict"), PINNED),
    "pageable memory in the background": (lambda x: x.copy_(fa.ones(4), non_blocking=True), PINNED),
    "numbers": (lambda x: fa.tensor([1.0, 2.0], device="strict"), PINNED),
    "fallback": (lambda x: (x + 1).sort(), r"sort\(\) has no kernel there"),
    "synchronize": (lambda x: fa.strict.synchronize(), "wait for the device"),
    "stream": (lambda x: fa.strict.current_stream().synchronize(), "wait for the stream"),
    "event": (lambda x: fa.strict.current_stream().record_event().synchronize(), "outside"),
    "query": (lambda x: fa.strict.current_stream().record_event().query(), "outside"),
}
PAGE_LOCKED: list[fa.Tensor] = []


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_graph_cannot_record(case: str) -> None:
    act, text = REFUSED[case]
    PAGE_LOCKED[:] = [fa.zeros(4).pin_memory("strict")]
    x, graph = fa.ones(4, device="strict"), fa.strict.Graph()
    fa.strict.synchronize()
    with graph.capture():
        y = x + 1
        with pytest.raises(RuntimeError, match=f"captured on strict:0, .*{text}"):
            act(x)
        y *= 3
    graph.replay()
    assert y.tolist() == [6, 6, 6, 6]
    act(x)  # it is the capture alone
    PAGE_LOCKED.clear()


def test_graphs() -> None:
    x = fa.ones(4, device="strict")
    y = fa.zeros(4, device="strict")
    fa.strict.synchronize()
    graph = fa.strict.Graph()
    with graph.capture():
        y += x
    assert y.sum().item() == 0
    for _ in range(3):
        graph.replay()
    assert y.sum().item() == 12
    graph.reset()


def test_a_graph_keeps_its_memory() -> None:
    side = fa.strict.Stream()
    x = fa.full((5000,), 3.0, device="strict")
    fa.strict.empty_cache()
    before = fa.strict.memory_reserved()
    graph = fa.strict.Graph()
    with graph.capture(side):
        between = x + 1
        inside = between.data_ptr()
        y = between * 2
        del between
    fa.strict.empty_cache()
    with side:  # the same stream, where nothing else would keep the block from it
        others = [fa.zeros(5000, device="strict") for _ in range(20)]
    assert inside not in [o.data_ptr() for o in others]
    graph.replay()
    fa.strict.synchronize()
    assert (y == 8).all().item() and not any(o.any().item() for o in others)
    graph.reset()
    del y, others
    fa.strict.empty_cache()
    assert fa.strict.memory_reserved() == before


def test_a_capture_owns_what_its_other_streams_allocate() -> None:
    other = fa.strict.Stream()
    x = fa.full((5000,), 3.0, device="strict")
    fa.strict.synchronize()
    graph = fa.strict.Graph()
    with graph.capture(), other:
        inside = fa.empty(5000, device="strict").data_ptr()
    with other:
        assert fa.empty(5000, device="strict").data_ptr() != inside
    del graph  # waits, and gives it back
    with other:
        assert (x + 1 == 4).all().item()


def test_a_graph_that_is_dropped_has_done_its_work() -> None:
    side, x = fa.strict.Stream(), fa.full((5000,), 3.0, device="strict")
    out = fa.zeros(5000, device="strict")
    fa.strict.synchronize()
    for _ in range(10):
        graph = fa.strict.Graph()
        with graph.capture(side):
            between = x + 1
            out.copy_(between * 2)
            del between
        graph.replay()
        del graph
        with side:
            others = [fa.full((5000,), 7.0, device="strict") for _ in range(6)]
        fa.strict.synchronize()
        assert (out == 8).all().item() and all((o == 7).all().item() for o in others)


def test_memory_during_a_capture() -> None:
    """What it frees, waits for or gives back does not become part of the graph."""
    side = fa.strict.Stream()
    with side:
        t = fa.ones(3 << 20, device="strict")
        del t
    x = fa.full((5000,), 3.0, device="strict")
    y = fa.full((5000,), 4.0, device="strict")
    fa.strict.synchronize()
    graph = fa.strict.Graph()
    with graph.capture(side):
        z = x + y
        fa.strict.empty_cache()
        y.record_stream(side)
        del y
        z = z * 2
        with pytest.raises(RuntimeError, match="is being captured already"):
            fa.strict.Graph().capture(side).__enter__()
    fa.strict.empty_cache()
    for _ in range(3):
        graph.replay()
    fa.strict.synchronize()
    assert z.shape == (5000,)
    graph.reset()


def test_a_graph_reads_pinned_memory_at_each_replay() -> None:
    p = fa.full((10000,), 5.0).pin_memory("strict")
    x = fa.zeros(10000, device="strict")
    fa.strict.synchronize()
    graph = fa.strict.Graph()
    with graph.capture():
        x.copy_(p, non_blocking=True)
    del p  # neither waits for ever nor takes the memory from the graph
    graph.replay()
    fa.strict.synchronize()
    assert (x == 5).all().item()


def test_numbers_by_value_are_recorded() -> None:
    x, host = fa.ones(4, device="strict"), fa.zeros(4).pin_memory("strict")
    fa.strict.synchronize()
    graph = fa.strict.Graph()
    with graph.capture():
        y = fa.full((4,), 2.0, device="strict") + x * 3 + fa.tensor(4.0)
        y[1] = 7
        host.copy_(y, non_blocking=True)
    graph.replay()
    fa.strict.synchronize()
    assert y.tolist() == host.tolist() == [9, 7, 9, 9]


def test_captures_within_each_other() -> None:
    """What a stream allocates belongs to its own graph."""
    x = fa.full((5000,), 3.0, device="strict")
    fa.strict.synchronize()
    outer, inner = fa.strict.Graph(), fa.strict.Graph()
    a, b = fa.strict.Stream(), fa.strict.Stream()
    with outer.capture(a):
        y = x + 1
        with inner.capture(b):
            between = x + 2
            z = between * 2
            inside = between.data_ptr()
            del between
    outer.reset()
    del y
    others = []
    for stream in (a, b):
        with stream:
            others += [fa.zeros(5000, device="strict") for _ in range(20)]
    assert inside not in [o.data_ptr() for o in others]
    inner.replay()
    fa.strict.synchronize()
    assert (z == 10).all().item() and not any(o.any().item() for o in others)


def test_a_block_that_raised_leaves_no_graph() -> None:
    x, graph = fa.ones(5000, device="strict"), fa.strict.Graph()
    fa.strict.empty_cache()
    before = fa.strict.memory_reserved()
    with pytest.raises(ValueError, match="mine"), graph.capture():
        y = x + 1
        del y
        raise ValueError("mine")
    assert fa.strict.current_stream() == fa.strict.default_stream()
    with pytest.raises(RuntimeError, match="nothing has been captured"):
        graph.replay()
    fa.strict.empty_cache()
    assert fa.strict.memory_reserved() == before
    with graph.capture():
        z = x + 2
    graph.replay()
    fa.strict.synchronize()
    assert (z == 3).all().item()


@pytest.mark.parametrize("way", ["dropped", "reset"])
def test_graphs_given_up_during_a_capture(way: str) -> None:
    """That would wait for the device: it is done when the capture ends."""
    fa.strict.empty_cache()
    before = fa.strict.memory_reserved()
    first, second = fa.strict.Graph(), fa.strict.Graph()
    with first.capture():
        block = fa.empty(8 << 20, device="strict")
        del block
    held = fa.strict.memory_reserved()
    assert held > before
    with second.capture():
        if way == "reset":
            first.reset()
        else:
            del first
        with pytest.raises(RuntimeError, match="the graph is being captured"):
            second.reset()
        assert fa.strict.memory_reserved() == held
    fa.strict.empty_cache()
    assert fa.strict.memory_reserved() == before
