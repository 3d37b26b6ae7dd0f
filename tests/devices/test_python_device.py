"""The Python device interface: a device whose kernels are written with NumPy."""

from __future__ import annotations

import facula as fa
import numpy as np
import pytest
from device_packages import run
from facula import backends
from facula.testing import conformance
from numpy_device import NumpyDevice


def test_conformance(numpyfied: str) -> None:
    report = conformance.run(numpyfied, sizes=False)
    assert not report.failures, "\n".join(map(str, report.failures[:20]))
    assert report.checks > 9_000


def test_modules_move_to_devices_that_come_before_and_after_them() -> None:
    done = run(
        "import sys, numpy_device as n, facula as fa; n.start(); nn = 'facula.nn' in sys.modules;"
        "layer = fa.nn.Linear(2, 3).numpyfied();"
        "fa.backends.register(type('Later', (n.NumpyDevice,), {'name': 'later'})());"
        "print(nn, layer.weight.device.type, layer.cpu().later().bias.is_later)"
    )
    assert done.stdout.split() == ["False", "numpyfied", "True"], done.stderr


def test_formulas_run_there(numpyfied: str) -> None:
    backends.reset_fallbacks(numpyfied)
    x = fa.tensor([[1.0, -2.0]], device=numpyfied, requires_grad=True)
    y = fa.sigmoid(x @ x.t()).sum()
    y.backward()
    assert x.grad.tolist()[0] == pytest.approx(
        [0.0132961, -0.0265922], rel=1e-4
    )  # 2 x s (1 - s), s(5)
    assert backends.fallbacks(numpyfied) == {}


def test_exceptions_come_through(numpyfied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(Exception):
        pass

    def broken(*args: object) -> None:
        raise Odd("of its own")

    import numpy_device

    monkeypatch.setitem(numpy_device.NumpyDevice.kernels, "cumsum", broken)
    x = fa.ones(3, device=numpyfied)
    with pytest.raises(Odd, match="of its own"):
        x.cumsum(0)

    def unwilling(*args: object) -> None:
        raise NotImplementedError

    monkeypatch.setitem(numpy_device.NumpyDevice.kernels, "cumsum", unwilling)
    assert x.cumsum(0).tolist() == [1, 2, 3]  # on the CPU


def test_pickle_and_deepcopy(numpyfied: str) -> None:
    import copy
    import pickle

    x = fa.arange(4.0, device=numpyfied)
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert y.device == x.device and y.tolist() == [0, 1, 2, 3]
    x.resize_(6)
    assert x.shape == (6,) and x[:4].tolist() == [0, 1, 2, 3]


class Limited(NumpyDevice):
    """Without float64 and int32."""

    name = "limited"
    dtypes = (fa.float32, fa.int64, fa.bool)
    flags = backends.Backend.HOST_MEMORY | backends.Backend.CPU_FALLBACK


def test_host_data_of_a_dtype_that_the_device_has_not() -> None:
    backends.register(Limited())
    x = fa.tensor(np.arange(3.0))
    assert x.to("limited", fa.float32).tolist() == [0, 1, 2]
    assert x.to("limited", fa.float32, non_blocking=True).tolist() == [0, 1, 2]
    assert fa.empty(3, device="limited").copy_(x).tolist() == [0, 1, 2]
    assert fa.empty(3, device="limited").copy_(x[2]).tolist() == [2, 2, 2]
    assert fa.empty(2, 2, device="limited").t().copy_(x[1:]).tolist() == [[1, 2], [1, 2]]
    y = fa.arange(3.0, device="limited")
    assert y[fa.tensor([2, 0], dtype=fa.int32)].tolist() == [2, 0]
    assert (y + fa.tensor(1.5, dtype=fa.float64)).tolist() == [1.5, 2.5, 3.5]
    with pytest.raises(TypeError, match="device 'limited' has no tensors of float64"):
        x.to("limited")
    for see in (lambda: y.view(fa.int32), lambda: y.long().view(fa.float64)):
        with pytest.raises(TypeError, match="device 'limited' has no tensors of"):
            see()


class Calling(NumpyDevice):
    """With functions that facula calls without Python's lock, which they take."""

    name = "calling"
    flags = backends.Backend.CACHING
    calls: list[str] = []  # noqa: RUF012

    def pin(self, nbytes: int) -> int:
        return self.allocate(0, nbytes, 0)

    def unpin(self, data: int, nbytes: int) -> None:
        self.deallocate(0, data, nbytes, 0)

    def create_event(self, index: int, timing: bool) -> int:
        return 7

    def elapsed(self, index: int, start: int, end: int) -> float:
        return 2.5

    def query_event(self, index: int, event: int) -> bool:
        return True

    def destroy_event(self, index: int, event: int) -> None:
        self.calls.append("destroy_event")

    def nothing(self, *args: int) -> int:
        return 0

    create_stream = synchronize_stream = query_stream = synchronize_device = nothing
    record_event = wait_event = synchronize_event = nothing


def test_events_and_pinned_memory() -> None:
    backends.register(Calling())
    start, end = (fa.calling.Event(enable_timing=True) for _ in range(2))
    start.record()
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) == 2.5
    with pytest.raises(ValueError, match="mine"):  # they are dropped while it is on its way
        _raise_with(start, end)
    del start, end
    assert Calling.calls == ["destroy_event"] * 4
    assert fa.ones(3).pin_memory("calling").to("calling", non_blocking=True).tolist() == [1, 1, 1]


def _raise_with(*given: object) -> None:
    mine = [fa.calling.Event(enable_timing=True) for _ in given]
    for event in mine:
        event.record()
    raise ValueError("mine")
