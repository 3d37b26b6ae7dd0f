"""Modules whose activations are computed again in backward.

A module stays itself, of a class derived from its own: names of parameters do not change.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from facula.nn import Module
from facula.utils.checkpoint import checkpoint

__all__ = [
    "CheckpointImpl",
    "CheckpointWrapper",
    "apply_activation_checkpointing",
    "checkpoint_wrapper",
]


class CheckpointImpl(enum.Enum):
    """How: the two ways of `utils.checkpoint`."""

    REENTRANT = enum.auto()
    NO_REENTRANT = enum.auto()


class CheckpointWrapper:
    """What `checkpoint_wrapper` adds to a module's class."""

    @property
    def _checkpoint_wrapped_module(self) -> Any:
        return self


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> Module:
    """The module, whose forward goes through `utils.checkpoint` from now on.

    Args:
        checkpoint_fn: `(forward, *args, **kwargs)` instead of it; `checkpoint_fn_kwargs` are for
            whichever it is.
    """
    if isinstance(module, CheckpointWrapper):
        return module
    cls = type(module)
    call = checkpoint_fn or checkpoint
    options = dict(checkpoint_fn_kwargs)
    if checkpoint_fn is None:
        options.setdefault("use_reentrant", checkpoint_impl is CheckpointImpl.REENTRANT)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        def inner(*given: Any, **named: Any) -> Any:
            return cls.forward(self, *given, **named)

        return call(inner, *args, **options, **kwargs)

    module.__class__ = type(cls.__name__, (CheckpointWrapper, cls), {"forward": forward})
    return module


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Any = None,
) -> None:
    """Puts all submodules for which `check_fn` says so through `checkpoint_wrapper_fn`."""
    if auto_wrap_policy is not None:
        raise NotImplementedError("apply_activation_checkpointing: give check_fn, no policy")
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if check_fn(child):
                parent._modules[name] = checkpoint_wrapper_fn(child)
