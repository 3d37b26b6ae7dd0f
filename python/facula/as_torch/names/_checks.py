"""Checks that raise: `torch._check` and its like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula
from facula.overrides import overridable

__all__ = [
    "_assert",
    "_assert_async",
    "_check",
    "_check_index",
    "_check_is_size",
    "_check_not_implemented",
    "_check_tensor_all",
    "_check_tensor_all_with",
    "_check_type",
    "_check_value",
    "_check_with",
]


@overridable
def _assert(condition: Any, message: str) -> None:
    """AssertionError unless `condition` is true."""
    assert condition, message


def _assert_async(
    input: Any, assert_msg: str = "Expected Tensor with single nonzero value"
) -> None:
    """RuntimeError where the tensor's one value is zero; at once."""
    if not bool(input):
        raise RuntimeError(assert_msg)


def _check_with(error: type[Exception], cond: Any, message: Callable[[], str] | str | None) -> None:
    """`error` unless `cond`, which is a bool, is true; `message` is a function that says why."""
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if not cond:
        _fail(error, message)


def _fail(error: type[Exception], message: Any) -> None:
    said = message() if callable(message) else message
    raise error("Expected cond to be True, but got False." if said is None else str(said))


def _check_tensor_all_with(error: type[Exception], cond: Any, message: Any = None) -> None:
    """`error` unless all elements of a tensor of bools are true."""
    if not isinstance(cond, facula.Tensor) or cond.dtype != facula.bool:
        raise TypeError(f"cond must be a tensor of dtype torch.bool, but got {cond!r}")
    if not bool(cond.all()):
        _fail(error, message)


def _check(cond: Any, message: Any = None) -> None:
    """RuntimeError unless `cond` is true."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: Any = None) -> None:
    """IndexError unless `cond` is true."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Any = None) -> None:
    """ValueError unless `cond` is true."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Any = None) -> None:
    """TypeError unless `cond` is true."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Any = None) -> None:
    """NotImplementedError unless `cond` is true."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all(cond: Any, message: Any = None) -> None:
    """RuntimeError unless all elements of a tensor of bools are true."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_is_size(i: Any, message: Any = None, *, max: Any = None) -> None:
    """RuntimeError unless it is not negative, and at most `max`."""
    _check(bool(i >= 0 and (max is None or i <= max)), message)
