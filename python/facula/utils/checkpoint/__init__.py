"""Trade time for memory: backward computes again what a function would have saved for it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import facula
from facula import _C
from facula.utils.checkpoint._debug import both_logs, debug_enabled, set_checkpoint_debug_enabled
from facula.utils.checkpoint._policies import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    GraphExecGroup,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)
from facula.utils.checkpoint._reentrant import (
    CheckpointFunction,
    check_backward_validity,
    detach_variable,
)
from facula.utils.checkpoint._saving import CheckpointError, saving_frame
from facula.utils.checkpoint._state import (
    DefaultDeviceType,
    get_device_states,
    set_device_states,
)

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

_early_stop: bool | None = None


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """For checkpoints made within: whether to stop running again once all is there."""
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, of which backward saves the arguments alone.

    What the function would have saved is computed by running it again, with the same random numbers
    and autocast. It must do the same then: it may not depend on what changes meanwhile.

    Args:
        function: of tensors and others to tensors and others; such as a Module.
        use_reentrant: False takes hooks of saved tensors: keyword arguments, gradients of
            parameters without those of inputs, `autograd.grad` and nested checkpoints all work.
            True runs a backward within the backward; an input must require a gradient. It should
            be given; without it the former is taken, and a warning says so.
        context_fn: gives the contexts of the first run and of the second; with hooks alone.
        determinism_check: "default" compares shapes, dtypes and devices of what is saved in both
            runs; "none" does not.
        debug: an error in backward shows the operators of both runs, with where they were called;
            with hooks, and no context_fn, alone. Also set_checkpoint_debug_enabled.
        early_stop: end the second run once all that was saved is there.
        preserve_rng_state (bool, keyword): draw the same random numbers. Default True.

    With `retain_graph` what was computed again stays until the graph goes. Within function
    transforms and forward mode both ways take hooks. There memory is saved for the gradients of all
    levels, and tensors that have tangents now, all there are, keep them for the second run, which
    must be within the same level of forward mode; with the contexts of a policy not for levels
    outside of one that takes tangents.

    Raises:
        CheckpointError: in backward, where the second run saves something else.
        ValueError: options that do not go together.
    """
    if use_reentrant is None:
        warnings.warn(
            "facula.utils.checkpoint: the use_reentrant parameter should be passed explicitly; "
            "use_reentrant=False is taken",
            stacklevel=2,
        )
        use_reentrant = False
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check is {determinism_check!r}, expected 'default' or 'none'"
        )
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn:
            raise ValueError("Passing `context_fn` is only supported when use_reentrant=False.")
        if not _C._level_depth() and not _C._in_forward_mode():
            return CheckpointFunction.apply(function, preserve, *args)
    told = None
    if not use_reentrant and debug_enabled(debug):
        if context_fn is not noop_context_fn:
            raise ValueError("debug=True is incompatible with non-default context_fn")
        (first, second), told = both_logs(CheckpointError)
    if not facula.is_grad_enabled():
        return function(*args, **kwargs)
    if told is None:
        first, second = context_fn()
    options = {
        "preserve_rng_state": preserve,
        "determinism_check": determinism_check,
        "early_stop": early_stop if _early_stop is None else _early_stop,
        "context": second,
        "told": told,
    }
    with saving_frame(function, args, kwargs, **options), first:
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Run functions one after the other, in `segments` checkpointed parts.

    Args:
        functions: a Sequential, or a list of modules and functions of one argument.
        segments: how many parts; the last one is not checkpointed.
        input: of the first.
        preserve_rng_state (bool, keyword): as of `checkpoint`.
    """
    if use_reentrant is None:
        warnings.warn(
            "facula.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be "
            "passed explicitly; use_reentrant=False is taken",
            stacklevel=2,
        )
        use_reentrant = False
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    parts = list(functions.children() if isinstance(functions, facula.nn.Module) else functions)
    if not 1 <= segments <= len(parts):
        raise ValueError(f"segments is {segments}, expected 1 to {len(parts)}, the functions")

    def run(start: int, stop: int) -> Callable[[Any], Any]:
        def forward(value: Any) -> Any:
            for part in parts[start:stop]:
                value = part(value)
            return value

        return forward

    size = len(parts) // segments
    last = size * (segments - 1)
    for start in range(0, last, size):
        input = checkpoint(
            run(start, start + size),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve,
        )
    return run(last, len(parts))(input)
