"""Choices and loops as functions, and errors of devices: what graphs of programs are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import facula

__all__ = ["AcceleratorError", "FatalError", "cond"]


class AcceleratorError(RuntimeError):
    """An error that a device reports; `error_code` is its own number for it."""

    error_code = 0


class FatalError(Exception):
    """An error after which the process cannot go on."""


def cond(
    pred: Any,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> Any:
    """`true_fn(*operands)` where `pred` holds, else `false_fn(*operands)`; gradients pass.

    Args:
        pred: a bool, or a tensor of one element, whose value is read.
        true_fn: takes the operands.
        false_fn: takes the operands.
        operands: a tuple or list, of tensors and trees of tensors.

    Raises:
        RuntimeError: `pred` is a tensor of another size, or operands are no tuple.

    >>> import facula
    >>> facula.cond(facula.tensor(True), lambda x: x + 1, lambda x: x - 1, (facula.ones(2),))
    tensor([2., 2.])
    """
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(
            f"cond(): operands must be a tuple or a list, not a {type(operands).__name__}"
        )
    for name, function in (("true_fn", true_fn), ("false_fn", false_fn)):
        if not callable(function):
            raise RuntimeError(f"cond(): {name} must be callable, not {type(function).__name__}")
    if isinstance(pred, facula.Tensor):
        if pred.numel() != 1:
            raise RuntimeError(
                f"cond(): expected pred to be a bool or a tensor of one element, "
                f"but it is {tuple(pred.shape)}"
            )
        pred = bool(pred)
    elif not isinstance(pred, (bool, int)):
        raise RuntimeError(
            f"cond(): expected pred to be a bool or a tensor of one element, not {pred!r}"
        )
    return (true_fn if pred else false_fn)(*operands)
