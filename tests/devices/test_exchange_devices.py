"""Memory of devices that others share, by DLPack."""

from __future__ import annotations

import contextlib
from typing import Any

import facula as fa
import pytest

pytestmark = pytest.mark.usefixtures("strict")


class Other:
    """An array of another library, which works on a stream of its own: a tensor by its protocol."""

    def __init__(self, tensor: fa.Tensor, device: Any = None, stream: Any = None) -> None:
        self.tensor, self.device, self.stream = tensor, device, stream
        self.asked: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device or self.tensor.__dlpack_device__()

    def __dlpack__(self, **given: Any) -> Any:
        self.asked.append(given.get("stream"))
        with self.stream or contextlib.nullcontext():
            return self.tensor.__dlpack__(**given)


def test_memory_is_shared() -> None:
    x = fa.arange(12.0, device="strict:1").reshape(3, 4).t()
    assert x.__dlpack_device__() == (12, 1)
    y = fa.from_dlpack(Other(x))
    assert y.device == x.device and y.data_ptr() == x.data_ptr() and y.stride() == x.stride()
    y += 1
    assert fa.equal(x, y) and x.sum().item() == 78
    assert fa.as_tensor(Other(x)).data_ptr() == x.data_ptr()
    z = fa.from_dlpack(Other(x), copy=True)
    assert z.data_ptr() != x.data_ptr() and fa.equal(z, x)
    assert fa.from_dlpack(Other(x), device="cpu").tolist() == x.tolist()
    address = x.data_ptr()
    del x
    assert y.data_ptr() == address and y.sum().item() == 78


def test_streams_are_put_in_order() -> None:
    """What the consumer does comes after what the producer had to do."""
    theirs, ours = fa.strict.Stream(), fa.strict.Stream()
    x = fa.zeros(1000, device="strict")
    fa.strict.synchronize()
    with theirs:
        for _ in range(200):
            x += 1
    source = Other(x, stream=theirs)
    with ours:
        assert (fa.from_dlpack(source) == 200).all().item()
    assert source.asked == [ours.handle]
    fa.from_dlpack(source)
    assert source.asked[1:] == [None]


@pytest.mark.parametrize("old", [False, True])
def test_memory_waits_for_the_consumer(old: bool) -> None:
    """What the producer frees serves nobody before the consumer's work is done."""

    class Old(Other):
        def __dlpack__(self, stream: Any = None) -> Any:
            return super().__dlpack__(stream=stream)

    theirs, ours = fa.strict.default_stream(), fa.strict.Stream()
    for _ in range(10):
        x = fa.full((5000,), 3.0, device="strict")
        with ours:
            y = fa.from_dlpack((Old if old else Other)(x, stream=theirs))
            z = y * 2
            for _ in range(50):
                z = z * 1
            del y
        del x
        others = [fa.zeros(5000, device="strict") for _ in range(3)]
        with ours:
            assert (z == 6).all().item()
        del others


def test_what_is_refused(numpyfied: str) -> None:
    x = fa.ones(3, device="strict")
    with pytest.raises(BufferError, match="DLPack device 99, which no device"):
        fa.from_dlpack(Other(x, (99, 0)))
    for id in (5, -1, 256, 1 << 20):
        with pytest.raises(BufferError, match=rf"number {id}, and 'strict' has 2 devices"):
            fa.from_dlpack(Other(x, (12, id)))
    with pytest.raises(BufferError, match="no type and index"):
        fa.from_dlpack(Other(x, ((1 << 32) + 12, 0)))
    with pytest.raises(ValueError, match="stream of number -5"):
        x.__dlpack__(stream=-5)
    with pytest.raises(ValueError, match="copy=False"):
        fa.from_dlpack(x, device="strict:1", copy=False)
    assert fa.from_dlpack(x, device="strict:1").device.index == 1
    graph = fa.strict.Graph()
    with graph.capture(), pytest.raises(RuntimeError, match="captured on strict:0"):
        x.__dlpack__()
    with pytest.raises(BufferError, match=r"no DLPack number.*cpu"):
        fa.ones(3, device=numpyfied).__dlpack__()
    with pytest.raises(BufferError, match="without a copy"):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError, match=r"cannot be exported to DLPack device 12:1"):
        x.__dlpack__(dl_device=(12, 1))
    with pytest.raises(TypeError):
        x.__dlpack__(stream="first")
    on_host = fa.from_dlpack(x.__dlpack__(dl_device=(1, 0)))
    assert on_host.is_cpu and on_host.tolist() == [1, 1, 1]
