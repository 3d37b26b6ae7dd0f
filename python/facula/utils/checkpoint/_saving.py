"""Checkpoints by hooks of saved tensors: what a function saves is computed again when wanted.

Source: Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import facula
from facula.autograd import Function
from facula.autograd.graph import saved_tensors_hooks
from facula.utils.checkpoint._state import Surroundings

__all__ = ["CheckpointError", "saving_frame"]


class CheckpointError(RuntimeError):
    """A function did something else when it ran again."""


class _StopRecomputation(BaseException):
    """All that was wanted is there. No Exception: the function must not catch it."""


class _Inputs(Function):
    """Has the tensors among a function's arguments as its saved tensors.

    So that within another checkpoint that one keeps them, or rather does not.
    """

    @staticmethod
    def forward(ctx: Any, anchor: Any, *tensors: Any) -> Any:
        ctx.save_for_backward(*tensors)
        return anchor.detach().clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise AssertionError("nothing leads here")


class _Holder:
    """What the graph keeps in the place of a saved tensor."""

    __slots__ = ("__weakref__", "index")

    def __init__(self, index: int) -> None:
        self.index = index


def _facts(t: Any) -> tuple[Any, ...]:
    return tuple(t.shape), t.dtype, str(t.device)


class _Frame:
    """One call of a checkpointed function."""

    def __init__(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], **options: Any
    ) -> None:
        self.function = function
        self.options = options
        self.around = Surroundings((args, kwargs), options["preserve_rng_state"])
        self.count = 0
        self.facts: list[tuple[Any, ...]] = []
        # As long as the graph keeps a holder, it may ask again, for a second backward.
        self.found: weakref.WeakKeyDictionary[_Holder, Any] = weakref.WeakKeyDictionary()
        self.holders: list[weakref.ref[_Holder]] = []
        self._keep(args, kwargs)

    def _keep(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        named = [(True, k, v) for k, v in kwargs.items()]
        given = [(False, i, v) for i, v in enumerate(args)] + named
        self.arguments = [
            (named, key, None if isinstance(v, facula.Tensor) else v) for named, key, v in given
        ]
        tensors = [v for _, _, v in given if isinstance(v, facula.Tensor)]
        self.places = [i for i, (_, _, v) in enumerate(given) if isinstance(v, facula.Tensor)]
        anchor = facula.empty(0, requires_grad=True)
        with facula.enable_grad():
            self.inputs = _Inputs.apply(anchor, *tensors).grad_fn

    def _given(self) -> tuple[list[Any], dict[str, Any]]:
        values = [value for _, _, value in self.arguments]
        for i, tensor in zip(self.places, self.inputs.saved_tensors, strict=True):
            values[i] = tensor
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for (named, key, _), value in zip(self.arguments, values, strict=True):
            if named:
                kwargs[key] = value
            else:
                args.append(value)
        return args, kwargs

    # ---- the hooks of the first run

    def pack(self, tensor: Any) -> _Holder:
        holder = _Holder(self.count)
        self.count += 1
        self.holders.append(weakref.ref(holder))
        self.facts.append(_facts(tensor))
        return holder

    def unpack(self, holder: _Holder) -> Any:
        if holder not in self.found:
            self._run_again()
        if holder not in self.found:
            raise CheckpointError(
                "facula.utils.checkpoint: a different number of tensors was saved during the "
                f"original forward and recomputation: {self.count} and {self.seen}. The function "
                "must do the same when it runs again"
            )
        return self.found[holder]

    # ---- the second run

    def _run_again(self) -> None:
        self.seen = 0
        with facula.enable_grad():
            args, kwargs = self._given()
        with (
            self.around.again(),
            self.options["context"],
            facula.enable_grad(),
            saved_tensors_hooks(self._note, lambda tensor: tensor),
            contextlib.suppress(_StopRecomputation),
        ):
            self.function(*args, **kwargs)
        if self.seen < self.count and not self.options["early_stop"]:
            raise CheckpointError(
                "facula.utils.checkpoint: a different number of tensors was saved during the "
                f"original forward and recomputation: {self.count} and {self.seen}"
            )

    def _note(self, tensor: Any) -> Any:
        index = self.seen
        self.seen += 1
        tensor = tensor.detach()
        if index >= self.count:
            if self.options["early_stop"]:
                raise _StopRecomputation
            raise CheckpointError(
                "facula.utils.checkpoint: trying to save more tensors during recomputation than "
                f"during the original forward pass, which saved {self.count}"
            )
        if self.options["determinism_check"] == "default" and _facts(tensor) != self.facts[index]:
            was, now = self.facts[index], _facts(tensor)
            raise CheckpointError(
                "facula.utils.checkpoint: Recomputed values for the following tensors have "
                "different metadata than during the forward pass: saved tensor "
                f"{index} had shape {was[0]}, dtype {was[1]}, device {was[2]}, and now has "
                f"{now[0]}, {now[1]}, {now[2]}"
            )
        holder = self.holders[index]()
        if holder is not None:
            self.found[holder] = tensor
        if self.options["early_stop"] and self.seen == self.count:
            raise _StopRecomputation
        return tensor


@contextlib.contextmanager
def saving_frame(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], **options: Any
) -> Iterator[Callable[..., Any]]:
    """A context in which `function(*args, **kwargs)` saves nothing but how to run it again.

    Args:
        options: preserve_rng_state, determinism_check, early_stop, and `context`, in which it runs
            again.
    """
    frame = _Frame(function, args, kwargs, **options)
    with saved_tensors_hooks(frame.pack, frame.unpack):
        yield function
