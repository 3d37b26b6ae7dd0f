"""NumPy's arrays, scalars and dtypes in pickles: of numbers, texts and dates, not of objects."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from facula.serialization._machine import Malformed

__all__ = ["build", "find"]

_NUMBER = r"b1|[iu][1248]|f(?:2|4|8|16)|c(?:8|16|32)"
_CODE = re.compile(rf"[<>|=]?(?:{_NUMBER}|[SU]\d{{1,9}}|[mM]8(?:\[\w+\])?|V\d{{1,9}})")


def find(full: str, rebuild: Any) -> tuple[Any, Callable[..., Any]]:
    """What a name of NumPy's is and what a call of it does; None if a file may not say it."""
    import numpy

    def dtype(code: Any, *flags: Any) -> Any:
        if type(code) is not str or not _CODE.fullmatch(code):
            raise Malformed(
                f"it has an array of the dtype {code!r:.50}, which is not one of numbers"
            )
        # A copy: the pickle sets its byte order next.
        return numpy.dtype(numpy.dtype(code), copy=True)

    def scalar(kind: Any, data: Any = None) -> Any:
        if not isinstance(kind, numpy.dtype) or kind.hasobject or type(data) not in (bytes, str):
            raise Malformed("it has a NumPy scalar that is made of something else than bytes")
        data = data.encode("latin1") if isinstance(data, str) else data
        if len(data) != kind.itemsize:
            raise Malformed(f"it has a NumPy scalar of {len(data)} bytes and dtype {kind}")
        return numpy.frombuffer(data, kind, 1)[0] if kind.itemsize else kind.type()

    def empty(cls: Any, shape: Any, code: Any) -> Any:
        if cls is not numpy.ndarray:
            raise Malformed("it has an array of a class of its own")
        return numpy.ndarray.__new__(numpy.ndarray, (0,), "b")

    def from_buffer(data: Any, kind: Any, shape: Any, order: Any, *_: Any) -> Any:
        if (
            type(data) not in (bytes, bytearray)
            or not isinstance(kind, numpy.dtype)
            or kind.hasobject
        ):
            raise Malformed("it has an array that is made of something else than bytes")
        rebuild.spend(len(data))
        return numpy.frombuffer(bytearray(data), kind).reshape(shape, order=order)

    calls = {
        "numpy.dtype": dtype,
        "numpy._core.multiarray.scalar": scalar,
        "numpy._core.multiarray._reconstruct": empty,
        "numpy._core.numeric._frombuffer": from_buffer,
        "numpy.ndarray": empty,
    }
    if full not in calls:
        if re.fullmatch(r"numpy\.dtypes\.[A-Z]\w+DType", full) and hasattr(numpy.dtypes, full[13:]):
            kind = getattr(numpy.dtypes, full[13:])
            return kind, lambda: kind()
        return None, dtype
    values = {"numpy.dtype": numpy.dtype, "numpy.ndarray": numpy.ndarray}
    return values.get(full, calls[full]), calls[full]


def build(value: Any, state: Any) -> bool:
    """Set the state of an array or a dtype; False if it is neither."""
    import sys

    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, (numpy.ndarray, numpy.dtype)):
        return False
    if type(state) is not tuple:
        raise Malformed(f"it has an array whose state is a {type(state).__name__}")
    if isinstance(value, numpy.ndarray):
        _build_array(numpy, value, state)
    else:
        _build_dtype(value, state)
    return True


def _build_array(numpy: Any, value: Any, state: tuple[Any, ...]) -> None:
    if len(state) != 5:
        raise Malformed("it has an array whose state has not five parts")
    _, shape, dtype, order, data = state
    data = data.encode("latin1") if isinstance(data, str) else data
    if not isinstance(dtype, numpy.dtype) or dtype.hasobject or type(data) is not bytes:
        raise Malformed("it has an array of objects, which only weights_only=False reads")
    natural = isinstance(shape, tuple) and all(type(n) is int and 0 <= n < 2**63 for n in shape)
    if not natural or math.prod(shape) * dtype.itemsize != len(data):
        raise Malformed(f"it has an array of {len(data)} bytes, shape {shape} and dtype {dtype}")
    value.__setstate__((1, shape, dtype, bool(order), data))


def _build_dtype(value: Any, state: tuple[Any, ...]) -> None:
    if len(state) not in (8, 9) or state[1] not in ("<", ">", "|", "="):
        raise Malformed("it has a dtype with a malformed state")
    _, order, subtype, names, fields, size, align, *_ = state
    known = (
        (subtype, names, fields) == (None, None, None)
        and size in (-1, value.itemsize)
        and align in (-1, value.alignment)
    )
    if not known:
        raise Malformed("it has a dtype with fields, which only weights_only=False reads")
    if value.kind in "mM":
        if len(state) == 9:
            _check_unit(state[8])
            value.__setstate__((4, order, None, None, None, -1, -1, 0, state[8]))
    elif value.kind in "SUV":
        value.__setstate__((3, order, None, None, None, value.itemsize, value.alignment, 0))
    else:
        value.__setstate__((3, order, None, None, None, -1, -1, 0))


def _check_unit(note: Any) -> None:
    right = isinstance(note, tuple) and len(note) == 2 and note[0] in (None, {})
    unit = note[1] if right else None
    if not (
        isinstance(unit, tuple) and len(unit) == 4 and type(unit[0]) in (bytes, str)
    ) or not all(type(n) is int and 0 < n < 2**31 for n in unit[1:]):
        raise Malformed("it has a dtype of dates with a malformed unit")
