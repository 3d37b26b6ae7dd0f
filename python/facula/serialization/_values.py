"""Plain values of Python's library that every file may hold: dates, paths, fractions and the like.

What makes them runs no code of a file's; all that a file says of them is checked.
"""

from __future__ import annotations

import argparse
import array
import datetime
import decimal
import fractions
import pathlib
import re
import types
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

import facula
from facula.serialization._machine import Malformed

__all__ = ["build", "calls", "find", "makes"]

_FAULTS = (ArithmeticError, NotImplementedError, TypeError, ValueError)
_NUMBERS = "bBhHiIlLqQfd"
# Made empty, and then given their attributes.
_HOLDERS = (argparse.Namespace, types.SimpleNamespace)


def _checked(cls: Any, *kinds: type) -> Callable[..., Any]:
    """Calls of a class with arguments of some types alone."""

    def call(*args: Any) -> Any:
        if not all(type(a) in kinds for a in args):
            raise Malformed(f"its pickle has a {cls.__name__} of something else than its parts")
        try:
            return cls(*args)
        except _FAULTS as error:
            raise Malformed(f"its pickle has a {cls.__name__} that is none ({error})") from error

    return call


def _number(cls: Any, form: str, *kinds: type) -> Callable[..., Any]:
    """Calls with the text that such a number gives of itself, or with other arguments."""
    pattern, call = re.compile(form), _checked(cls, str, *kinds)

    def checked(*args: Any) -> Any:
        # Other texts may stand for far longer numbers: Fraction("1e999999999").
        if any(type(a) is str for a in args) and not (len(args) == 1 and pattern.fullmatch(*args)):
            raise Malformed(f"its pickle has a {cls.__name__} of a text that is none")
        return call(*args)

    return checked


_DECIMAL = r"-?([0-9]+(\.[0-9]+)?(E[+-][0-9]+)?|Infinity|s?NaN[0-9]*)"
_FRACTION = r"-?[0-9]+(/[0-9]+)?"


def _deque(items: Any = (), most: Any = None) -> deque[Any]:
    if type(items) not in (list, tuple) or not (most is None or (type(most) is int and most >= 0)):
        raise Malformed("its pickle has a deque of something else than items and a length")
    return deque(items, most)


def _array(code: Any, items: Any = ()) -> Any:
    if type(code) is not str or code not in tuple(_NUMBERS) or type(items) is not list:
        raise Malformed("its pickle has an array of something else than numbers")
    return _checked(array.array, str, list)(code, items)


_CALLS: dict[str, tuple[Any, Callable[..., Any] | None]] = {
    "builtins.Ellipsis": (..., None),
    "builtins.NotImplemented": (NotImplemented, None),
    "builtins.slice": (slice, slice),
    "builtins.range": (range, _checked(range, int)),
    "collections.deque": (deque, _deque),
    "array.array": (array.array, _array),
    "datetime.date": (datetime.date, _checked(datetime.date, bytes)),
    "datetime.datetime": (
        datetime.datetime,
        _checked(datetime.datetime, bytes, datetime.timezone),
    ),
    "datetime.time": (datetime.time, _checked(datetime.time, bytes, datetime.timezone)),
    "datetime.timedelta": (datetime.timedelta, _checked(datetime.timedelta, int)),
    "datetime.timezone": (
        datetime.timezone,
        _checked(datetime.timezone, datetime.timedelta, str),
    ),
    "decimal.Decimal": (decimal.Decimal, _number(decimal.Decimal, _DECIMAL)),
    "fractions.Fraction": (fractions.Fraction, _number(fractions.Fraction, _FRACTION, int)),
    "types.SimpleNamespace": (types.SimpleNamespace, _checked(types.SimpleNamespace)),
    "argparse.Namespace": (argparse.Namespace, None),
    "uuid.UUID": (uuid.UUID, None),
    "facula.Generator": (facula.Generator, _checked(facula.Generator, facula.device)),
}
for _path in ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath"):
    _cls = getattr(pathlib, _path)
    for _module in ("pathlib", "pathlib._local"):  # where a version of Python has them
        _CALLS[f"{_module}.{_path}"] = _cls, _checked(_cls, str)
# Classes of which the machine makes empty objects.
_MADE = (argparse.Namespace, uuid.UUID)


def calls() -> dict[str, tuple[Any, Callable[..., Any] | None]]:
    """By name: the value, and what a call of it does, if it may be called."""
    return _CALLS


def find(full: str) -> tuple[Any, Callable[..., Any]] | None:
    """Types of facula's results, such as that of `max` with a dim."""
    module, _, name = full.rpartition(".")
    if module not in ("facula.return_types", "torch.return_types"):
        return None
    cls = vars(facula.return_types).get(name)

    def call(*args: Any) -> Any:
        if (
            len(args) not in (1, 2)
            or type(args[0]) not in (tuple, list)
            or args[1:] not in ((), ({},))
        ):
            raise Malformed(f"its pickle has a {name} of something else than its fields")
        return _checked(cls, tuple)(tuple(args[0]))

    return None if cls is None else (cls, call)


def makes(cls: Any) -> bool:
    """Whether a pickle may make an empty object of a class."""
    return any(cls is known for known in _MADE)


def build(value: Any, state: Any, attributes: Callable[[Any], dict[str, Any]]) -> bool:
    """Set the state of such a value; False if it is none, or has no state."""
    if type(value) in _HOLDERS:
        value.__dict__.update(attributes(state))
    elif type(value) is uuid.UUID:
        known = isinstance(state, dict) and set(state) <= {"int", "is_safe"}
        number = state.get("int") if known else None
        if type(number) is not int or not 0 <= number < 1 << 128:
            raise Malformed("its pickle has a UUID of something else than a number of 128 bits")
        safe = state.get("is_safe")
        if not (safe is None or (type(safe) is int and safe in (0, -1))):
            raise Malformed("its pickle has a UUID whose is_safe is none of 0, -1 and None")
        value.__setstate__(state)
    elif type(value) is facula.Generator:
        if not (
            type(state) is tuple
            and all(type(n) is int and 0 <= n < 1 << 64 for n in state)
            and len(state) == 2
        ):
            raise Malformed("its pickle has a Generator of something else than two numbers")
        value.__setstate__(state)
    else:
        return False
    return True
