"""Devices in Python whose methods raise, return what they should not, or cannot be registered."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import facula as fa
import pytest
from facula import backends
from numpy_device import NumpyDevice


class Hostile(NumpyDevice):
    """A NumPy device; `instead` maps methods to what they do in place of their work."""

    name = "hostile"
    flags = backends.Backend.HOST_MEMORY
    instead: dict[str, Callable[..., Any]] = {}  # noqa: RUF012


def _through(method: str) -> Callable[..., Any]:
    def call(self: Hostile, *args: Any) -> Any:
        return self.instead.get(method, getattr(super(Hostile, self), method))(*args)

    return call


_METHODS = "device_name allocate deallocate copy pointwise reduction pin unpin"
for _method in _METHODS.split():
    setattr(Hostile, _method, _through(_method))


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Callable[..., Any]]]:
    if "hostile" not in backends.names():
        backends.register(Hostile())
    monkeypatch.setattr(Hostile, "instead", {})
    yield Hostile.instead
    Hostile.instead.clear()
    assert (fa.ones(3, device="hostile") + 1).tolist() == [2, 2, 2]  # it works again


def fail(error: BaseException) -> Callable[..., Any]:
    def method(*args: Any) -> Any:
        raise error

    return method


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt("mine"), StopIteration()])
@pytest.mark.parametrize("method", ["allocate", "pointwise", "copy", "reduction"])
def test_exceptions_come_through(hostile: Any, method: str, error: BaseException) -> None:
    x = fa.ones(3, device="hostile")
    hostile[method] = fail(error)
    with pytest.raises(type(error)) as raised:
        (x + 1).sum().item()
    assert raised.value is error


def test_deallocate_that_raises_is_told_at_once(hostile: Any, capsys: Any) -> None:
    told: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, told.append
    try:
        hostile["deallocate"] = fail(ValueError("of deallocate"))
        x = fa.ones(3, device="hostile")
        del x
    finally:
        sys.unraisablehook = before
    assert [str(t.exc_value) for t in told] == ["of deallocate"]
    # ... and is not what the next failure raises
    x = fa.ones(3, device="hostile")
    hostile["copy"] = fail(NotImplementedError())
    with pytest.raises(NotImplementedError, match="hostile:0: copying memory failed"):
        x.cpu()
    hostile.clear()


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (None, TypeError, r"Backend.allocate\(\) returned NoneType, expected an int"),
        ("x", TypeError, r"Backend.allocate\(\) returned str"),
        (-8, ValueError, r"Backend.allocate\(\) returned a number that is not from 0"),
        (2**64, ValueError, r"Backend.allocate\(\) returned a number that is not from 0"),
        (0, fa.OutOfMemoryError, "hostile:0 is out of memory: 12 bytes"),
        (NotImplemented, NotImplementedError, "hostile:0: allocating memory failed"),
    ],
)
def test_what_is_no_address(hostile: Any, value: Any, error: type[Exception], words: str) -> None:
    hostile["allocate"] = lambda *args: value
    with pytest.raises(error, match=words):
        fa.empty(3, device="hostile")


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (None, TypeError, r"Backend.pin\(\) returned NoneType"),
        (-1, ValueError, r"Backend.pin\(\) returned a number that is not from 0"),
        (0, fa.OutOfMemoryError, "'hostile' has no memory for 12 bytes"),
        (NotImplemented, NotImplementedError, "hostile: pinning host memory failed"),
    ],
)
def test_what_is_no_pinned_memory(
    hostile: Any, value: Any, error: type[Exception], words: str
) -> None:
    hostile["pin"] = lambda *args: value
    with pytest.raises(error, match=words):
        fa.ones(3).pin_memory("hostile")


def test_memory_given_twice(hostile: Any) -> None:
    x = fa.tensor([0.0, 1.0, 2.0], device="hostile")
    hostile["allocate"] = lambda *args: x.data_ptr()
    with pytest.raises(RuntimeError, match="'hostile:0' gave memory that is in use"):
        fa.zeros(3, device="hostile")
    assert x.tolist() == [0, 1, 2]


@pytest.mark.parametrize(("value", "kind"), [(None, "NoneType"), (5, "int"), (b"x", "bytes")])
def test_names_that_are_no_text(hostile: Any, value: Any, kind: str) -> None:
    hostile["device_name"] = lambda *args: value
    with pytest.raises(TypeError, match=rf"Backend.device_name\(\) returned {kind}"):
        fa.hostile.get_device_name()  # type: ignore[attr-defined]


def test_long_names_are_cut_between_characters(hostile: Any) -> None:
    hostile["device_name"] = lambda *args: "\u00e9" * 500
    name = fa.hostile.get_device_name()  # type: ignore[attr-defined]
    assert set(name) == {"\u00e9"} and 50 < len(name) < 500


# ---- registration


@pytest.mark.parametrize(
    ("attributes", "error", "words"),
    [
        ({"name": ""}, ValueError, "'' is not a device name"),
        ({"name": "1x"}, ValueError, "'1x' is not a device name; .* a letter first"),
        ({"name": "__class__"}, ValueError, "is not a device name"),
        ({"name": "a:0"}, ValueError, "'a:0' is not a device name"),
        ({"name": "a\0b"}, ValueError, "name must not hold the character 0"),
        ({"name": 5}, TypeError, "name must be text, not int"),
        ({"name": "cpu"}, RuntimeError, "'cpu' is registered already"),
        ({"name": "meta"}, RuntimeError, "'meta' is registered already"),
        ({"name": "nn"}, ValueError, "facula.nn exists and is no device"),
        ({"name": "optim"}, ValueError, "facula.optim exists and is no device"),
        ({"name": "add"}, ValueError, "facula.add exists and is no device"),
        ({"flags": "x"}, TypeError, "flags must be an int, not str"),
        ({"flags": -1}, ValueError, "flags must be from 0 to"),
        ({"package": 5}, TypeError, "package must be text, not int"),
        ({"dtypes": (fa.float32, 1)}, ValueError, "dtypes holds 1, which is no dtype"),
        ({"kernels": {"nonesuch": len}}, ValueError, "for 'nonesuch', which is no operator"),
        ({"kernels": {"bmm": 5}}, TypeError, r"kernels\['bmm'\] is int, expected a function"),
        ({"kernels": ["bmm"]}, TypeError, "kernels must be a mapping, not list"),
        ({"autocast_lower": "mm"}, TypeError, "autocast_lower must be a list"),
        ({"pin": len}, ValueError, "defines pin and not unpin; they belong together"),
        ({"unpin": len}, ValueError, "defines unpin and not pin; they belong together"),
        ({"create_stream": len}, ValueError, "defines create_stream and not synchronize_stream"),
    ],
)  # fmt: skip
def test_what_is_refused(attributes: dict[str, Any], error: type[Exception], words: str) -> None:
    known = backends.names()
    made = type("Refused", (NumpyDevice,), {"name": "refused", **attributes})
    with pytest.raises(error, match=words):
        backends.register(made())
    assert backends.names() == known
    with pytest.raises(RuntimeError, match="'refused' is not a device"):
        fa.ones(3, device="refused")
    assert fa.nn.Module and fa.optim.SGD and fa.add(1, fa.ones(1)).item() == 2


def test_counts_that_cannot_be() -> None:
    made = type("Uncounted", (NumpyDevice,), {"name": "uncounted"})()
    backends.register(made)
    for count, error, words in (
        (-1, ValueError, r"Backend.device_count\(\) returned a number that is not from 0 to 128"),
        (129, ValueError, "not from 0 to 128"),
        (2**70, ValueError, "not from 0 to 128"),
        ("x", TypeError, r"Backend.device_count\(\) returned str"),
    ):
        made.device_count = lambda count=count: count
        with pytest.raises(error, match=words):
            fa.ones(3, device="uncounted")
    made.device_count = lambda: 128
    assert fa.ones(3, device="uncounted:127").sum().item() == 3
