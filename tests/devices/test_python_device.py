"""The Python door: a device whose kernels are written with NumPy."""

from __future__ import annotations

import facula as fa
import pytest
from facula import backends
from facula.testing import conformance


def test_conformance(numpyfied: str) -> None:
    report = conformance.run(numpyfied)
    assert not report.failures, "\n".join(map(str, report.failures[:20]))
    assert report.checks > 9_000


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
