"""Checkpoints whose backward runs a backward of its own."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import facula
from facula.autograd import Function, backward
from facula.utils.checkpoint._state import Surroundings

__all__ = ["CheckpointFunction", "check_backward_validity", "detach_variable"]


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same tensors without history, which require a gradient where these did."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            f"Only tuple of tensors is supported. Got Unsupported input type: "
            f"{type(inputs).__name__}"
        )
    return tuple(
        x.detach().requires_grad_(x.requires_grad) if isinstance(x, facula.Tensor) else x
        for x in inputs
    )


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn where no input requires a gradient: parameters inside would get none."""
    if not any(isinstance(x, facula.Tensor) and x.requires_grad for x in inputs):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=3
        )


class CheckpointFunction(Function):
    """run_function(*args) without recording; backward runs it again, recorded, and goes through it.

    Called as `apply(run_function, preserve_rng_state, *args)`.
    """

    @staticmethod
    def forward(ctx: Any, run_function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.around = Surroundings(args, preserve_rng_state)
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, facula.Tensor)]
        # Within another checkpoint they come back without it.
        ctx.requires_grad = [args[i].requires_grad for i in ctx.places]
        ctx.others = [None if isinstance(a, facula.Tensor) else a for a in args]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        with facula.no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        inputs = list(ctx.others)
        for i, tensor, wanted in zip(ctx.places, ctx.saved_tensors, ctx.requires_grad, strict=True):
            inputs[i] = tensor.detach().requires_grad_(wanted)
        detached = tuple(inputs)
        with ctx.around.again(), facula.enable_grad():
            outputs = ctx.run_function(*detached)
        outputs = (outputs,) if isinstance(outputs, facula.Tensor) else tuple(outputs)
        pairs = [
            (out, grad)
            for out, grad in zip(outputs, grads, strict=True)
            if isinstance(out, facula.Tensor) and out.requires_grad
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        backward([out for out, _ in pairs], [grad for _, grad in pairs])
        return (
            None,
            None,
            *(x.grad if isinstance(x, facula.Tensor) else None for x in detached),
        )
