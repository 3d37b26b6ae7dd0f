"""What kernels written in Python return and raise, and the names that devices can have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula import backends, nn
from numpy_device import NumpyDevice


class Limited(NumpyDevice):
    name = "sparing"
    flags = backends.Backend.HOST_MEMORY  # no CPU in its place
    kernels: dict[str, Any] = {}  # noqa: RUF012

    def reduction(self, *args: Any) -> Any:
        return NotImplemented


@pytest.fixture
def kernels() -> Iterator[dict[str, Any]]:
    if "sparing" not in backends.names():
        Limited.kernels["bmm"] = lambda *args: NotImplemented
        backends.register(Limited())
    before = dict(Limited.kernels)
    yield Limited.kernels
    Limited.kernels.clear()
    Limited.kernels.update(before)


def fail(error: BaseException) -> Any:
    def kernel(*args: Any) -> None:
        raise error

    return kernel


def test_a_result_that_is_returned(kernels: dict[str, Any]) -> None:
    x = fa.ones(1, 2, 2, device="sparing")
    kernels["bmm"] = lambda self, mat2, out: np.matmul(np.asarray(self), np.asarray(mat2))
    words = (
        r"bmm\(\): the kernel of device 'sparing' returned numpy.ndarray; it must write into its"
    )
    with pytest.raises(TypeError, match=words):
        x.bmm(x)


def test_out_of_memory(kernels: dict[str, Any]) -> None:
    x = fa.ones(1, 2, 2, device="sparing")
    for error, words in ((MemoryError(), "memory"), (MemoryError("1 TiB"), "memory: 1 TiB")):
        kernels["bmm"] = fail(error)
        with pytest.raises(fa.OutOfMemoryError, match=f"sparing:0: bmm: it ran out of {words}$"):
            x.bmm(x)


def test_kernels_that_there_are(kernels: dict[str, Any], numpyfied: str) -> None:
    x = fa.ones(1, 2, 2, device="sparing")
    with pytest.raises(NotImplementedError, match=r"has no kernel for device 'sparing'") as raised:
        x.cumsum(0)
    assert f", {numpyfied}" in str(raised.value)
    assert "sparing" not in str(raised.value).partition("(it has")[2].partition(")")[0]
    for refused in (lambda: x.bmm(x), x.sum):
        with pytest.raises(NotImplementedError, match="of device 'sparing' did not take these"):
            refused()
    with pytest.raises(NotImplementedError) as raised:
        x.sort()
    assert numpyfied not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("if", "a word of Python's"),
        ("a" * 65, "at most 64"),
        ("weight", "'weight' is taken: modules have parameters of that name"),
        ("nn", "facula.nn exists"),
    ],
)
def test_names_that_are_refused(name: str, words: str) -> None:
    device = type("Named", (NumpyDevice,), {"name": name})()
    with pytest.raises(ValueError, match=words):
        backends.register(device)
    assert name not in backends.names()
    assert nn.Linear(2, 3).weight.shape == (3, 2)
